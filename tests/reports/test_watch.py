"""Whether corrections of a rule's kind fell after it went live."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord
from skillopt_sleep.model.session import Feedback, PromptKind, Session, Turn
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.reports.watch import LiveRule, WatchState, compare_corrections

RULE = LiveRule(
    edit=EditRecord(id="e1", op=EditOp.APPEND, document=DocumentKind.MEMORY, text="Indent with tabs, never spaces."),
    night="n1",
    path="CLAUDE.md",
    adopted_at="2026-03-10T08:00:00.123456+00:00",
    words=("no, tabs please, not spaces",),
)
ADOPTED = 10


def typed(day, words, *, correction=False, kind=PromptKind.TYPED):
    """One prompt of that day of March, at noon."""
    return Turn(
        id=f"{day}-{words}-{kind}",
        prompt=words,
        kind=kind,
        at=f"2026-03-{day:02}T12:00:00Z",
        feedback=Feedback.CORRECTION if correction else Feedback.NEITHER,
    )


def lived(before, since):
    """A project where so many of so many prompts corrected the indentation, before and since."""
    turns = []
    for day, (corrections, prompts) in ((ADOPTED - 1, before), (ADOPTED + 1, since)):
        turns += [typed(day, f"use tabs, not spaces {n}", correction=True) for n in range(corrections)]
        turns += [typed(day, f"write test number {n}") for n in range(prompts - corrections)]
    return [Session(source="claude", path="/s", session_id="s", turns=tuple(turns))]


@pytest.mark.parametrize(
    ("before", "since", "state"),
    [
        pytest.param((10, 100), (0, 100), WatchState.FELL, id="gone"),
        pytest.param((10, 100), (2, 100), WatchState.FELL, id="fewer"),
        pytest.param((10, 100), (7, 100), WatchState.UNCLEAR, id="a little fewer"),
        pytest.param((10, 100), (10, 100), WatchState.DID_NOT_FALL, id="as many"),
        pytest.param((2, 100), (5, 40), WatchState.DID_NOT_FALL, id="more, soon"),
        pytest.param((2, 100), (0, 100), WatchState.EARLY, id="rare"),
        pytest.param((2, 100), (2, 20), WatchState.EARLY, id="two may be chance"),
        pytest.param((10, 100), (0, 0), WatchState.EARLY, id="nothing typed since"),
        pytest.param((0, 100), (2, 100), WatchState.NEVER_SAID, id="never said before"),
        pytest.param((0, 100), (4, 100), WatchState.DID_NOT_FALL, id="came up since"),
        pytest.param((600, 6_000), (500, 6_000), WatchState.FELL, id="hundreds"),
    ],
)
def test_what_the_counts_say(before, since, state):
    """Each pair of (corrections, prompts) in words, and the counts as they are."""
    rule = RULE if before[0] else replace(RULE, words=())
    (found,) = compare_corrections([rule], lived(before, since))
    assert found.state is state
    assert (found.before.corrections, found.before.prompts) == before
    assert (found.after.corrections, found.after.prompts) == since


def test_own_corrections_of_a_rule_were_said_before():
    """What a rule was written from counts, even if the session is forgotten or carries no times."""
    (found,) = compare_corrections([replace(RULE, words=("no, tabs please", "tabs!"))], lived((0, 100), (0, 40)))
    assert found.state is WatchState.EARLY
    assert (found.before.corrections, found.before.prompts) == (2, 100)
    (found,) = compare_corrections([RULE], [])
    assert (found.before.corrections, found.before.prompts) == (1, 1)


def test_chance_of_so_few():
    """None of 10 expected in as many prompts as before: one in two to the tenth."""
    (found,) = compare_corrections([RULE], lived((10, 100), (0, 100)))
    assert found.p == pytest.approx(2**-10)


def test_prompts_still_missing():
    """As many as would bring three corrections, had nothing changed."""
    (found,) = compare_corrections([RULE], lived((2, 100), (0, 40)))
    assert found.missing == 110


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param(typed(11, "no, name the branch after the ticket", correction=True), id="another matter"),
        pytest.param(typed(11, "use tabs, not spaces"), id="no correction"),
        pytest.param(typed(11, "use tabs, not spaces", correction=True, kind=PromptKind.HEADLESS), id="headless"),
        pytest.param(Turn(id="t", prompt="use tabs, not spaces", feedback=Feedback.CORRECTION), id="no time"),
        pytest.param(
            Turn(id="t", prompt="use tabs, not spaces", feedback=Feedback.CORRECTION, at="1767225600"),
            id="no such time",
        ),
        pytest.param(
            Turn(id="t", prompt="use tabs, not spaces", feedback=Feedback.CORRECTION, at="2026-03-10T09:30:00+02:00"),
            id="another zone, before it",
        ),
    ],
)
def test_words_that_do_not_count(turn):
    """Only corrections of its kind, typed by a person, at a known time."""
    (found,) = compare_corrections([RULE], [Session(source="claude", path="/s", session_id="s", turns=(turn,))])
    assert found.after.corrections == 0


def test_the_persons_own_words_make_the_kind():
    """A correction that shares nothing with the rule's text but its origin's words is of its kind."""
    rule = LiveRule(
        edit=EditRecord(id="e", op=EditOp.APPEND, document=DocumentKind.MEMORY, text="Finish with a verdict."),
        night="n",
        path="p",
        adopted_at="2026-03-10T00:00:00+00:00",
        words=("where is the yes or no at the end",),
    )
    turn = typed(11, "again no yes or no at the end", correction=True)
    (found,) = compare_corrections([rule], [Session(source="claude", path="/s", session_id="s", turns=(turn,))])
    assert found.after.corrections == 1


@given(st.integers(0, 30), st.integers(0, 60), st.integers(0, 30), st.integers(0, 60))
def test_more_corrections_never_look_better(corrections, prompts, since, more):
    """One more correction since turns no other state into "fell"."""
    before = (min(corrections, prompts), prompts)
    total = since + more
    (found,) = compare_corrections([RULE], lived(before, (since, total)))
    (worse,) = compare_corrections([RULE], lived(before, (since + 1, total + 1)))
    assert not (worse.state is WatchState.FELL and found.state is WatchState.DID_NOT_FALL)
    assert found.p is None or 0 < found.p <= 1 + 1e-12


def rule_of(number, text, *words, lived=()):
    return LiveRule(
        edit=EditRecord(id=f"r{number}", op=EditOp.APPEND, document=DocumentKind.SKILL, text=text),
        night="n1",
        path="SKILL.md",
        adopted_at="2026-03-10T08:00:00+00:00",
        words=words,
        lived=lived,
    )


FRAMES = {
    "order": (
        ("Put the invoice number before the total.", "That's wrong: you forgot invoice before total again."),
        ("Put the licence before the imports.", "That's wrong: you forgot licence before imports again."),
    ),
    "manner": (
        ("Write dates as ISO 8601.", "I told you so many times already, please: dates as ISO"),
        ("Write amounts in euros.", "I told you so many times already, please: amounts in euros"),
    ),
    "rule in other words": (
        ("Close with a clear verdict.", "Seriously, once more you left out the yes or no decision"),
        ("Give sizes in metric units.", "Seriously, once more you left out the centimetres column"),
    ),
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("swapped", [False, True])
def test_complaints_that_share_their_frame_only(frame, swapped):
    """One rule's complaint is not counted for the other, however alike people put them."""
    pair = [rule_of(number, *each) for number, each in enumerate(FRAMES[frame])]
    one, other = reversed(pair) if swapped else pair
    turns = (typed(11, one.words[0], correction=True),)
    found = compare_corrections([one, other], [Session(source="claude", path="/s", session_id="s", turns=turns)])
    assert [each.after.corrections for each in found] == [1, 0]


def test_complaint_of_a_rule_alone_is_not_known_by_its_frame():
    """Also where the other matter has no rule that is live."""
    (one, other) = FRAMES["order"]
    turns = (typed(11, other[1], correction=True), typed(11, one[1], correction=True))
    (found,) = compare_corrections(
        [rule_of(1, *one)], [Session(source="claude", path="/s", session_id="s", turns=turns)]
    )
    assert found.after.corrections == 1


def test_time_a_rule_was_live_before():
    """Adopted again after a revert: what was typed while it lived the first time is neither before nor since."""
    rule = rule_of(
        1,
        "Indent with tabs, never spaces.",
        "no, tabs please, not spaces",
        lived=(("2026-03-04T00:00:00+00:00", "2026-03-06T00:00:00+00:00"),),
    )
    turns = tuple(typed(day, f"use tabs, not spaces {day}", correction=True) for day in (3, 5, 7, 11))
    (found,) = compare_corrections([rule], [Session(source="claude", path="/s", session_id="s", turns=turns)])
    assert (found.before.corrections, found.before.prompts) == (2, 2)
    assert found.after.corrections == 1


@pytest.mark.parametrize(
    "quote",
    [
        pytest.param("no, tabs please, not spaces", id="as it is"),
        pytest.param("Sure. No, tabs  please,\nnot spaces", id="in longer words"),
        pytest.param("tabs! " * 60, id="shortened in the task"),
    ],
)
def test_correction_that_a_rule_was_written_from_counts_for_it(quote):
    """Also one that only a model recognised as a correction, and beside a rule that shares all its terms (R7)."""
    words = excerpt(quote, 200) if "!" in quote else RULE.words[0]
    rule = replace(RULE, words=(words,))
    turns = (typed(9, "indent it"), typed(9, quote))
    twin = rule_of(7, "Tabs please, not spaces.", "tabs please, not spaces")
    found, _ = compare_corrections([rule, twin], [Session(source="claude", path="/s", session_id="s", turns=turns)])
    assert (found.before.corrections, found.before.prompts) == (1, 2)
    assert found.state is WatchState.EARLY


def test_other_corrections_of_its_tasks_do_not_count():
    """A task may hold corrections of other matters; only those that share a word with the rule are its own."""
    rule = replace(RULE, words=(*RULE.words, "name the branch after the ticket"))
    turns = (typed(9, "name the branch after the ticket"), typed(9, RULE.words[0]))
    (found,) = compare_corrections([rule], [Session(source="claude", path="/s", session_id="s", turns=turns)])
    assert found.before.corrections == 1


def test_rule_that_is_a_correction_word_for_word():
    """It counts without the words of a task, whatever the punctuation, the case and the bullet (finding R7)."""
    rule = replace(RULE, words=(), edit=replace(RULE.edit, text="- Never push to main!"))
    turns = (typed(9, "ok. never push to main"), typed(9, "never push to mainline"))
    (found,) = compare_corrections([rule], [Session(source="claude", path="/s", session_id="s", turns=turns)])
    assert found.before.corrections == 1


def test_correction_that_says_nothing_by_itself_is_not_looked_for_in_prompts():
    """A task's "no" stands in many prompts about other matters."""
    rule = replace(RULE, words=("no", "again, please"))
    turns = (typed(9, "there is no test for it"), typed(9, "run it again, please"), typed(9, "No!"))
    (found,) = compare_corrections([rule], [Session(source="claude", path="/s", session_id="s", turns=turns)])
    assert found.before.corrections == 1
