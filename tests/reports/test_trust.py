"""How far a verdict can be trusted, in words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skillopt_sleep.gate.audit import Audit, NullTrial, Position
from skillopt_sleep.gate.rule import Tally, Verdict
from skillopt_sleep.model.call import Spend
from skillopt_sleep.model.task import Shortfall
from skillopt_sleep.reports import markdown, status, terminal, trust
from skillopt_sleep.reports.status import Status
from tests.reports.samples import PAIRED, UNDECIDED

KNOWN = PAIRED.audit
NEEDED = "needed for a verdict that stands on 5 test tasks"
NULL = NullTrial(
    tasks=12,
    tally=Tally(wins=1, losses=2, ties=5),
    k=6,
    verdict=Verdict.UNDECIDED,
    why="",
    spend=Spend(calls=24),
    audit=KNOWN,
)


def test_noise_is_told_with_what_it_lets_be_seen():
    """The share that differs, on how many replays, and the gains of a night and a week."""
    assert trust.noise(KNOWN) == (
        "Of two replays of one task with the same files on different nights, 8% differ (31 repeats of 14 tasks; the"
        " score of a task varies by 0.12 (one standard deviation)). With 7 test tasks, what makes about 36 more of a"
        " hundred replays pass is accepted in its first night in 8 of 10 cases, and about 19 within a week."
    )


@pytest.mark.parametrize(
    ("audit", "said"),
    [
        (replace(KNOWN, repeats=3), "of the 10 replays repeated on another night that takes, there are 3."),
        (replace(KNOWN, repeats_same_night=5, differ_same_night=0.2), "Within one night 20% differ (5 repeats)."),
        (replace(KNOWN, tonight=None), "nothing is sure to be accepted in its first night; within a week"),
        (replace(KNOWN, tonight=None, in_a_week=None), "too much noise for any gain to be seen within a week"),
        (replace(KNOWN, val_tasks=0), "31 repeats of 14 tasks"),
    ],
)
def test_what_cannot_be_told_is_not(audit, said):
    """Too few repeats, too much noise, no test tasks."""
    assert said in trust.noise(audit)


def test_nothing_is_said_of_nothing():
    """Before anything was replayed."""
    assert list(trust.audited(Audit())) == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Position(first=9, second=7, ties=12), "as luck has it (p = .804)"),
        (Position(first=20, second=2), "more than luck (p < .001)"),
        (Position(ties=4), "won never, the other never."),
    ],
)
def test_place_is_told_with_its_chance(place, said):
    """In random order, with the exact chance."""
    assert said in trust.position(replace(KNOWN, position=place))


def test_drift_is_told_when_there_is_some():
    """And only then."""
    assert not any("Later replays" in line for line in trust.audited(KNOWN))
    drifting = replace(KNOWN, later_better=18, later_worse=2)
    assert any("better 18 times and worse twice, which is more than luck" in line for line in trust.audited(drifting))


def test_sealed_test_is_told_once_scored_and_while_it_waits():
    """Scores, counts and tries; or why it is put off."""
    assert trust.sealed(PAIRED.sealed) == (
        "The change of night 2026-07-02-ab12, on 5 sealed tasks that nothing had seen: 0.40 without it, 0.82 with it"
        " (2 better, 0 worse). Scored once, at the first try; no verdict depends on it."
    )
    waits = replace(PAIRED.sealed, why="it takes 15 calls, and tonight 3 were left", attempts=1)
    assert trust.sealed(waits).endswith(
        "is yet to be scored on 5 sealed tasks: it takes 15 calls, and tonight 3 were left; 1 try so far."
    )


@pytest.mark.parametrize(
    ("shortfall", "said"),
    [
        (
            Shortfall(groups=12, missing=3, days=2),
            f"3 more different tasks are {NEEDED}: at your pace about 2 days of work.",
        ),
        (Shortfall(groups=14, missing=1), f"1 more different task is {NEEDED}."),
        (Shortfall(groups=20), ""),
    ],
)
def test_shortfall_in_a_sentence(shortfall, said):
    """How many more tasks, and how many days of this user's work."""
    assert trust.missing(shortfall) == said


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict.UNDECIDED, "Not accepted, as it must be. Luck accepts at most 5 % of such trials."),
        (Verdict.ACCEPT, "ACCEPTED, and it should not have been. Luck does that to at most 5 % of such trials"),
        (Verdict.UNMEASURED, "Not measured: "),
    ],
)
def test_null_trial_says_what_its_verdict_means(verdict, said):
    """It must not be accepted, and if it is, says how much of that is luck."""
    page = "\n".join(trust.null_trial(replace(NULL, verdict=verdict)))
    assert said in page
    assert "1 win, 2 losses, 5 ties on 12 tasks: score -3" in page
    assert "24 calls" in page


def test_report_tells_all_of_it():
    """The page in full, the screen in brief."""
    page, screen = markdown.render(PAIRED).replace("\\", ""), terminal.render(PAIRED, width=2000)
    for said in (trust.noise(PAIRED.audit), trust.position(PAIRED.audit), trust.sealed(PAIRED.sealed)):
        assert said in page
    assert trust.brief(PAIRED.audit) in screen
    assert trust.sealed_brief(PAIRED.sealed) in screen
    assert trust.missing(UNDECIDED.shortfall) in markdown.render(UNDECIDED).replace("\\", "")
    assert trust.missing(UNDECIDED.shortfall) in terminal.render(UNDECIDED, width=2000)


@pytest.mark.parametrize(
    ("audit", "said"),
    [
        (Audit(), ""),
        (replace(KNOWN, repeats=3), "not known yet; the report says more"),
        (KNOWN, "8% of repeats differ; one night shows gains of 36 points, a week 19"),
        (replace(KNOWN, tonight=None, in_a_week=None), "one night shows no gain for sure, a week neither"),
        (replace(KNOWN, val_tasks=0), "no test tasks tonight"),
        (replace(KNOWN, position=Position(first=20, second=2)), "the judge minds the order it is shown answers in"),
        (replace(KNOWN, later_better=18, later_worse=2), "later replays do not come out as earlier ones"),
    ],
)
def test_audit_in_brief(audit, said):
    """A line of figures, and what is wrong only if something is."""
    assert said in trust.brief(audit)
    assert bool(said) is bool(trust.brief(audit))


def test_status_tells_it_too():
    """The audit as of the last night, and the sealed tests."""
    page = status.render(Status(project="/p", nights=(PAIRED,), sealed=(PAIRED.sealed,)), most=3)
    for said in (trust.noise(PAIRED.audit), trust.position(PAIRED.audit), trust.sealed(PAIRED.sealed)):
        assert said in page
