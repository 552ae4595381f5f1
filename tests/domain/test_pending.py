"""What waits for another night: who takes a turn, who gives way, and what is remembered of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.paired import GO_ON_AT, Tally
from skillopt_sleep.domain.pending import BEHIND_A_NIGHT, BEHIND_AT_MOST, PendingEdit, crowded_out, tonight


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
    going_on, waiting = tonight(crowd)
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
    gone = [each.edit for each in crowded_out(crowd)]
    behind = [each for each in crowd if each.behind]
    assert len(gone) == max(0, len(behind) - BEHIND_AT_MOST)
    assert all(each.behind for each in gone)
    kept = [each.tally.score for each in behind if each not in gone]
    assert all(each.tally.score <= min(kept) for each in gone)


def test_of_equals_the_one_that_cost_less_goes_first_and_stays():
    """Many pairs and nothing to show for them promise less than few."""
    crowd = [pending(number, ties=9 - number) for number in range(BEHIND_AT_MOST + 1)]
    assert tonight(crowd)[0] == tuple(crowd[: -BEHIND_A_NIGHT - 1 : -1])
    assert [each.edit for each in crowded_out(crowd)] == [crowd[0]]


def test_reason_is_given():
    """With the tally it had."""
    *_, last = (pending(number, losses=number) for number in range(BEHIND_AT_MOST + 1))
    (dropped,) = crowded_out([pending(number, losses=number) for number in range(BEHIND_AT_MOST + 1)])
    assert dropped.edit == last
    assert dropped.why == "it has 0 wins, 4 losses, 0 ties, and 4 other edits promise more"


def test_different_tasks_of_a_life_are_remembered():
    """Each once, over all its nights; of a night that was not counted none."""
    edit = pending(1, wins=1, tasks=("a", "b"))
    after = edit.after(Tally(wins=2, ties=1), ("b", "c"), tried=True)
    assert (after.tasks, after.nights, after.tally.wins) == (("a", "b", "c"), 2, 2)
    assert edit.after(edit.tally, ("d",), tried=True).tasks == ("a", "b")
    assert edit.after(None, (), tried=False) == edit
