"""What waits for another night: who takes a turn, who gives way, and what is remembered of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skillopt_sleep.gate.pending import (
    BEHIND_A_NIGHT,
    BEHIND_AT_MOST,
    Base,
    Dropped,
    PendingEdit,
    choose_for_tonight,
    drop_excess,
    drop_if_over,
    revive,
)
from skillopt_sleep.gate.rule import GO_ON_AT, PAIRS_A_LIFE
from skillopt_sleep.gate.tally import Tally
from skillopt_sleep.model.document import Candidate, Document, DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord, compute_edit_id, is_same_edit
from skillopt_sleep.model.task import RubricReference, TaskRecord


def pending(number, wins=0, losses=0, ties=0, tasks=()):
    return PendingEdit(
        id=f"p{number}",
        night="n",
        kind=DocumentKind.SKILL,
        k=6,
        edits=(),
        groups=(),
        tally=Tally(wins=wins, losses=losses, ties=ties),
        tasks=tasks,
    )


tallies = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), max_size=12)
crowds = tallies.map(lambda made: [pending(number, *each) for number, each in enumerate(made)])


@given(crowd=crowds)
def test_everyone_ahead_takes_a_turn_and_few_that_are_behind(crowd):
    """Closest to a decision first; nobody is lost between those who go on and those who wait."""
    going_on, waiting = choose_for_tonight(crowd)
    assert sorted(each.id for each in (*going_on, *waiting)) == sorted(each.id for each in crowd)
    scores = [each.tally.score for each in going_on]
    assert scores == sorted(scores, reverse=True)
    assert all(each.behind for each in waiting)
    assert sum(each.behind for each in going_on) == min(BEHIND_A_NIGHT, sum(each.behind for each in crowd))
    lowest = min((each.tally.score for each in going_on if each.behind), default=GO_ON_AT)
    assert all(each.tally.score <= lowest for each in waiting)


@given(crowd=crowds)
def test_what_is_furthest_behind_gives_way(crowd):
    """Never one that is ahead, and no more than must."""
    gone = [each.edit for each in drop_excess(crowd)]
    behind = [each for each in crowd if each.behind]
    assert len(gone) == max(0, len(behind) - BEHIND_AT_MOST)
    assert all(each.behind for each in gone)
    kept = [each.tally.score for each in behind if each not in gone]
    assert all(each.tally.score <= min(kept) for each in gone)


def test_of_equals_the_one_that_cost_less_goes_first_and_stays():
    """Many pairs and nothing to show for them promise less than few."""
    crowd = [pending(number, ties=9 - number) for number in range(BEHIND_AT_MOST + 1)]
    assert choose_for_tonight(crowd)[0] == tuple(crowd[: -BEHIND_A_NIGHT - 1 : -1])
    assert [each.edit for each in drop_excess(crowd)] == [crowd[0]]


def test_reason_is_given():
    """With the tally it had."""
    *_, last = (pending(number, losses=number) for number in range(BEHIND_AT_MOST + 1))
    (dropped,) = drop_excess([pending(number, losses=number) for number in range(BEHIND_AT_MOST + 1)])
    assert dropped.edit == last
    assert dropped.why == "it has 0 wins, 4 losses, 0 ties, and 4 other edits are closer to a decision"


def test_different_tasks_of_a_life_are_remembered():
    """Each once, over all its nights; of a night that was not counted none."""
    edit = pending(1, wins=1, tasks=("a", "b"))
    after = edit.after(Tally(wins=2, ties=1), ("b", "c"), tried=True)
    assert (after.tasks, after.nights, after.tally.wins) == (("a", "b", "c"), 2, 2)
    assert edit.after(edit.tally, ("d",), tried=True).tasks == ("a", "b")
    assert edit.after(None, (), tried=False) == edit


LIVE = Candidate(
    documents=(
        Document(kind=DocumentKind.SKILL, path="SKILL.md", content=b"- Be brief.\n", whole=True),
        Document(kind=DocumentKind.MEMORY, path="CLAUDE.md", content=b"- Be kind.\n", whole=True),
    )
)


def base(live=LIVE, **changed):
    fixed = {"target": "agent one", "optimizer": "agent two", "metric": "hard", "replay": "text", "scope": "invoked"}
    return Base(documents=Base.describe_documents(live), **{**fixed, **changed})


def other(kind, **changed):
    """The live documents with something changed in one of them."""
    return LIVE.with_document(replace(LIVE[kind], **changed))


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (base(other(DocumentKind.SKILL, content=b"new")), "the text of the skill it was tried on has changed"),
        (base(other(DocumentKind.SKILL, path="/x")), "the skill it was tried on has moved to /x"),
        (base(other(DocumentKind.MEMORY, content=None)), "the text of the memory it was tried beside has changed"),
        (base(target="agent"), "the model has changed, from agent one to agent"),
        (base(optimizer=""), "the model that judges has changed, from agent two to the default"),
        (base(metric="soft"), "the way scores are counted has changed, from hard to soft"),
        (base(replay="native"), "the way tasks are replayed has changed, from text to native"),
        (base(scope="all"), "the scope has changed, from invoked to all"),
    ],
)
def test_tally_holds_for_what_it_was_measured_on(now, said):
    """Whatever of it changes ends the tally, and is named; the edit may begin anew on the new base."""
    rule = EditRecord(id="e", op=EditOp.APPEND, document=DocumentKind.SKILL, text="Say please.")
    edit = replace(pending(1, wins=5), on=base(), edits=(rule,))
    assert isinstance(revive(edit, LIVE, base()), Candidate)
    dropped = revive(edit, LIVE, now)
    assert (dropped.why, dropped.final) == (said, False)
    assert now.digest != base().digest
    assert "the scope has changed" in revive(edit, LIVE, replace(now, scope="elsewhere")).why


def test_tally_of_a_proposal_that_is_not_live_is_dropped_as_that():
    """No text of the person's has changed, and nobody says so; nor of one whose base nobody noted."""
    edit = replace(pending(1, wins=5), on=base(other(DocumentKind.SKILL, content=b"proposed")), atop=True)
    dropped = revive(edit, LIVE, base())
    assert dropped.why == "it was tried together with a proposal that is not live now"
    assert "earlier version" in revive(replace(edit, on=Base()), LIVE, base()).why


@pytest.mark.parametrize(("wins", "ties", "over"), [(0, PAIRS_A_LIFE - 6, False), (0, PAIRS_A_LIFE - 5, True)])
def test_life_ends_when_what_is_left_of_it_cannot_decide(wins, ties, over):
    """Nobody is told of 6 more wins in 5 pairs, and no call is made for them."""
    edit = replace(pending(1, wins=wins, ties=ties), on=base())
    gone = drop_if_over(edit)
    assert (gone is not None) is over
    if over:
        assert gone == revive(edit, LIVE, base())
        assert gone == Dropped(
            edit=edit, why="undecided after 103 pairs, and at most 5 more could not decide it", final=True
        )


def record(op=EditOp.APPEND, text="Say please", anchor="", document=DocumentKind.SKILL):
    return EditRecord(
        id=compute_edit_id(op, document, text, anchor), op=op, document=document, text=text, anchor=anchor
    )


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (record(), record(text="  say  PLEASE. "), True),
        (record(), record(document=DocumentKind.MEMORY), True),
        (record(), record(text="Say thanks"), False),
        (record(EditOp.DELETE, "", "Be brief."), record(EditOp.DELETE, "", "- be brief"), True),
        (record(EditOp.DELETE, "", "Be brief."), record(EditOp.DELETE, "", "Be kind."), False),
        (record(EditOp.DELETE, "", "Be brief."), record(EditOp.DELETE, "", "Be brief.", DocumentKind.MEMORY), False),
        (record(EditOp.DELETE, "", "Be brief."), record(EditOp.REPLACE, "Say please", "Be brief."), False),
        (
            record(EditOp.REPLACE, "Say please", "Be brief."),
            record(EditOp.INSERT_AFTER, "Say please", "Be kind."),
            True,
        ),
    ],
)
def test_what_makes_two_edits_the_same(one, two, same):
    """What they do, folded; a deletion says nothing, so it is known by what it deletes."""
    assert is_same_edit(one, two) is is_same_edit(two, one) is same


def test_groups_are_known_again_by_their_tasks():
    """A twin is no stranger because the task it is a twin of is not there tonight."""
    twin, wrote, other = (
        TaskRecord(id=name, intent=name, reference=RubricReference(rubric="r"), group=group)
        for name, group in (("twin", "older"), ("wrote", "older"), ("other", ""))
    )
    edit = replace(pending(0), groups=("its old name", "wrote"))
    assert edit.unseen((twin, wrote, other)) == (other,)
    assert edit.unseen((twin, other)) == (twin, other)
    assert edit.among((twin, wrote, other)).unseen((twin, other)) == (other,)
    assert edit.among(()) == edit
