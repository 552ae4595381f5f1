"""Schedules of the edit budget."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.train.config import (
    AutonomousScheduler,
    ConstantScheduler,
    CosineScheduler,
    LinearScheduler,
    build_scheduler,
)

MODES = ("constant", "linear", "cosine", "autonomous")


def steps(mode, most, least, total):
    scheduler = build_scheduler(mode, most, least, total)
    return [scheduler.step() for _ in range(total)]


@pytest.mark.parametrize(
    ("mode", "budgets"),
    [
        ("constant", [8] * 7),
        ("linear", [7, 6, 5, 5, 4, 3, 2]),
        ("cosine", [8, 7, 6, 4, 3, 2, 2]),
        ("autonomous", [8] * 7),
    ],
)
def test_shape(mode, budgets):
    """The budget falls from the largest to the smallest; autonomous offers the largest."""
    assert steps(mode, 8, 2, 7) == budgets


@given(st.sampled_from(MODES), st.integers(1, 9), st.integers(0, 9), st.integers(1, 40), st.integers(0, 45))
def test_bounds_and_resumption(mode, least, more, total, done):
    """A budget stays in bounds and never rises, and a schedule continues from its state."""
    scheduler = build_scheduler(mode, least + more, least, total)
    budgets = [scheduler.step() for _ in range(done)]
    assert all(least <= budget <= least + more for budget in budgets)
    assert budgets == sorted(budgets, reverse=True)
    again = build_scheduler(mode, least + more, least, total)
    again.load_state_dict(json.loads(json.dumps(scheduler.state_dict())))
    assert again.get_lr() == scheduler.get_lr()
    assert [again.step() for _ in range(3)] == [scheduler.step() for _ in range(3)]


def test_published_figures():
    """The budgets that the reference documents and its library gives."""
    assert steps("linear", 10, 2, 4) == [8, 6, 4, 2]
    assert steps("cosine", 10, 2, 4) == [9, 6, 3, 2]
    assert steps("linear", 4, 2, 1) == [4]


def test_get_lr_is_of_the_current_step():
    """Before the first step it is the budget of the first one, and reading changes nothing."""
    scheduler = CosineScheduler(8, 2, 7)
    assert scheduler.get_lr() == 8
    assert [scheduler.step() for _ in range(4)][-1] == scheduler.get_lr() == scheduler.get_lr() == 4


def test_autonomous_choice_holds_for_its_step():
    """It is granted within the bounds, kept in the state, and ends with its step."""
    scheduler = AutonomousScheduler(4, 2, 9)
    scheduler.step()
    assert [scheduler.choose(asked) for asked in (1, 3, 7)] == [2, 3, 4]
    scheduler.choose(3)
    again = AutonomousScheduler(4, 2, 9)
    again.load_state_dict(scheduler.state_dict())
    assert again.get_lr() == 3
    assert again.step() == 4


def test_build_by_name():
    """Every name has its class, and an unknown one is reported with the nearest."""
    kinds = [type(build_scheduler(mode, 4, 2, 5)) for mode in MODES]
    assert kinds == [ConstantScheduler, LinearScheduler, CosineScheduler, AutonomousScheduler]
    with pytest.raises(ValueError, match="did you mean 'cosine'"):
        build_scheduler("cosin", 4, 2, 5)


@pytest.mark.parametrize(("most", "least", "total"), [(2, 3, 5), (4, 0, 5), (4, 2, 0)])
def test_impossible_bounds_are_refused(most, least, total):
    """The error shows the values."""
    with pytest.raises(ValueError, match=r"\d"):
        build_scheduler("linear", most, least, total)


def test_state_of_another_schedule():
    """It is refused."""
    with pytest.raises(ValueError, match="'linear'"):
        CosineScheduler(4, 2, 5).load_state_dict(LinearScheduler(4, 2, 5).state_dict())


def test_budget_of_any_step_and_defaults():
    """``get_lr(step)`` is the budget of that step; all arguments have defaults."""
    scheduler = build_scheduler("cosine", 8, 2, 10)
    assert [scheduler.get_lr(step) for step in range(10)] == steps("cosine", 8, 2, 10)
    assert scheduler.get_lr() == 8
    assert build_scheduler().step() == 4


def test_state_of_the_reference_is_accepted():
    """Its name for the step is read; a state without a step is refused."""
    ours, theirs = (build_scheduler("linear", 8, 2, 10) for _ in range(2))
    for _ in range(5):
        ours.step()
    theirs.load_state_dict({"current_step": 5})
    assert theirs.step() == ours.step()
    with pytest.raises(ValueError, match="the state of a schedule needs 'step'"):
        theirs.load_state_dict({"max_lr": 3})
