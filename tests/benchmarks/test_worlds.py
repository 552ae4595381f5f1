"""Generated worlds and the sessions of the people in them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.backends.simulated_world import find_flaws
from skillopt_sleep.model.near_duplicates import MIN_SIMILARITY, similar
from skillopt_sleep.model.session import Feedback
from tests.benchmarks.worlds import make_sessions, make_world


@given(seed=st.integers(0, 10**9), rules=st.integers(1, 6), tasks=st.integers(1, 6))
def test_any_generated_world_is_sound(seed, rules, tasks):
    """Whatever the seed and size, the world can be played and gives nothing away."""
    world = make_world(seed, rules=rules, tasks_per_rule=tasks)
    assert find_flaws(world) == ()
    assert (len(world.rules), len(world.tasks)) == (rules, rules * tasks)


def test_seed_decides_the_world():
    """The same seed makes the same world, another one shares no ask with it."""
    asks = [{ask for task in make_world(seed).tasks for ask in task.asks} for seed in (1, 1, 2)]
    assert asks[0] == asks[1]
    assert asks[0].isdisjoint(asks[2])


def test_asks_of_a_task_are_twins_and_of_two_tasks_are_not():
    """Grouping near-duplicates puts the wordings of one task together and no others."""
    world = make_world(7, rules=3, tasks_per_rule=3)
    for task in world.tasks:
        assert all(similar(*pair) >= MIN_SIMILARITY for pair in itertools.combinations(task.asks, 2))
    for one, other in itertools.combinations(world.tasks, 2):
        assert similar(one.asks[0], other.asks[0]) < MIN_SIMILARITY


@pytest.mark.parametrize("seed", [0, 1])
def test_sessions_hold_every_task_corrected(seed):
    """Each task is asked once, answered badly, complained about in the rule's words and then done."""
    world = make_world(seed)
    rules = {rule.id: rule for rule in world.rules}
    by_ask = {ask: task for task in world.tasks for ask in task.asks}
    sessions = make_sessions(world, seed)
    turns = [turn for session in sessions for turn in session.turns]
    corrected = set()
    for ask, complaint in itertools.pairwise(turns):
        if complaint.feedback is Feedback.CORRECTION:
            task = by_ask[ask.prompt]
            assert (ask.final, complaint.final) == (task.bad, task.good)
            assert complaint.prompt in rules[task.rules[0]].complaints
            corrected.add(task.id)
    assert corrected == {task.id for task in world.tasks}
    assert len({turn.id for turn in turns}) == len(turns)
    assert len({session.session_id for session in sessions}) == len(sessions)
