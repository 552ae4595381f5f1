"""What gain can be shown: computed, and the same as when it is played out."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from skillopt_sleep.gate.noise import RELIABLY, chance_in_nights, chance_in_pairs, pair_rates, smallest_detectable_gain
from skillopt_sleep.gate.rule import Verdict, decide, exact_error, may_start_round, next_pairs
from skillopt_sleep.gate.tally import Result, Tally
from tests.fakes.pairs import add_results


def draw(luck, win, loss):
    drawn = luck.random()
    return Result.WIN if drawn < win else Result.LOSS if drawn < win + loss else Result.TIE


def life(luck, chances, k, *, tasks, nights):
    """So many nights as trials run them; ties beyond the rounds of a life are free, as ``chance_in_nights`` has it."""
    wins_and_losses = Tally()
    for _ in range(nights):
        tally, pairs = wins_and_losses, 0
        while True:
            left = tasks
            while size := next_pairs(tally, k, pairs_tonight=pairs, left=left):
                tally = replace(add_results([draw(luck, *chances) for _ in range(size)], k, tally), ties=0)
                pairs, left = pairs + size, left - size
            if decide(tally, k) is not Verdict.UNDECIDED or not may_start_round(tally, pairs):
                break
        wins_and_losses = tally
    return decide(wins_and_losses, k)


@pytest.mark.slow
@pytest.mark.parametrize("k", [6, 8])
@pytest.mark.parametrize(("tasks", "nights"), [(1, 1), (4, 1), (12, 1), (40, 1), (1, 7), (4, 7), (12, 3)])
@pytest.mark.parametrize(("win", "loss"), [(0.5, 0.05), (0.3, 0.1), (0.25, 0.25)])
def test_nights_are_computed_as_they_are_played(win, loss, tasks, nights, k):
    """Rounds, pairs at once, pauses and caps: the chance is that of the trials, within four standard errors."""
    luck = random.Random(f"{win} {loss} {tasks} {k}")
    lives = 2000
    played = sum(life(luck, (win, loss), k, tasks=tasks, nights=nights) is Verdict.ACCEPT for _ in range(lives)) / lives
    chance = chance_in_nights(nights, win, loss, k, tasks)
    assert played == pytest.approx(chance, abs=4 * max(chance * (1 - chance), 1e-3) ** 0.5 / lives**0.5)


@pytest.mark.sample(1)
@pytest.mark.parametrize("k", [6, *(pytest.param(k, marks=pytest.mark.slow) for k in (7, 8, 10))])
@pytest.mark.parametrize("tasks", [1, 12])
def test_useless_edit_is_never_accepted_more_often_than_the_exact_error(k, tasks):
    """However many nights, and with no ties at all."""
    chance = chance_in_nights(40, 0.5, 0.5, k, tasks)
    assert exact_error(k) * 0.8 < chance <= exact_error(k) + 1e-12
    assert exact_error(k) * 0.99 < chance_in_pairs(0.5, 0.5, k, 400) <= exact_error(k) + 1e-12


@pytest.mark.slow
def test_more_tasks_less_noise_and_more_nights_show_smaller_gains():
    """Each of them."""
    assert smallest_detectable_gain(0.1, 12, 6) < smallest_detectable_gain(0.1, 4, 6)
    assert smallest_detectable_gain(0.1, 12, 6) < smallest_detectable_gain(0.2, 12, 6)
    assert smallest_detectable_gain(0.1, 12, 6, nights=7) < smallest_detectable_gain(0.1, 12, 6)
    assert smallest_detectable_gain(0.1, 12, 6) < smallest_detectable_gain(0.1, 12, 8)


@pytest.mark.sample(1)
@pytest.mark.parametrize("tasks", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)])
def test_a_week_shows_what_a_night_does(tasks):
    """Also with a single task, of which a night replays up to 36 pairs."""
    tonight, week = smallest_detectable_gain(0.1, tasks, 6), smallest_detectable_gain(0.1, tasks, 6, nights=7)
    assert week <= tonight


def test_smallest_gain_is_the_smallest():
    """One point less is not shown reliably any more."""
    points = smallest_detectable_gain(0.1, 12, 6)
    assert chance_in_nights(1, *pair_rates(0.1, points / 100), 6, 12) >= RELIABLY
    assert chance_in_nights(1, *pair_rates(0.1, (points - 1) / 100), 6, 12) < RELIABLY


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("base", "tonight", "week"),
    [
        ([0.5] * 12, 40, 32),
        pytest.param([0.3] * 12, 46, 34, marks=pytest.mark.slow),
        pytest.param([0.0] * 6 + [0.5] * 6, 34, 24, marks=pytest.mark.slow),
    ],
    ids=["half", "three-tenths", "half-of-the-tasks-never"],
)
def test_gain_that_shows_is_the_one_that_does(base, tonight, week):
    """What trials of real tasks were simulated to accept in 8 of 10 cases, within five points: from the noise alone."""
    differ = sum(2 * p * (1 - p) for p in base) / len(base)
    assert smallest_detectable_gain(differ, 12, 6) == pytest.approx(tonight, abs=5)
    assert smallest_detectable_gain(differ, 12, 6, nights=7) == pytest.approx(week, abs=5)


@pytest.mark.parametrize("base", [0.0, 0.1, 0.3, 0.5])
def test_gain_wins_more_and_takes_losses_away(base):
    """From the pass rate that the noise tells of; beyond what is left to gain there is nothing more."""
    differ = 2 * base * (1 - base)
    for gain in (0.0, 0.2, 0.5, 1.0):
        new = min(base + gain, 1.0)
        assert pair_rates(differ, gain) == pytest.approx(((1 - base) * new, base * (1 - new)))


def test_grades_that_differ_more_often_than_passing_can():
    """They go on where the pass rate of one half ends: half wins, half losses, and the gain between the two."""
    assert pair_rates(0.5 + 1e-9, 0.2) == pytest.approx(pair_rates(0.5, 0.2))
    assert pair_rates(0.8, 0.0) == pytest.approx((0.4, 0.4))
    win, loss = pair_rates(0.8, 0.3)
    assert win - loss == pytest.approx(0.3)
    assert pair_rates(1.0, 1.0) == (1.0, 0.0)


@pytest.mark.slow
def test_week_has_the_pairs_that_a_waiting_edit_gets():
    """Half of the tasks from its second night on."""
    win, loss = pair_rates(0.42, 0.3)
    assert chance_in_nights(7, win, loss, 6, 12, later=12) == chance_in_nights(7, win, loss, 6, 12)
    assert chance_in_nights(7, win, loss, 6, 4, later=2) < chance_in_nights(7, win, loss, 6, 4)
    points = smallest_detectable_gain(0.42, 5, 6, nights=7)
    assert chance_in_nights(7, *pair_rates(0.42, points / 100), 6, 5, later=2) >= RELIABLY
    assert chance_in_nights(7, *pair_rates(0.42, (points - 1) / 100), 6, 5, later=2) < RELIABLY


@pytest.mark.parametrize(("differ", "tasks"), [(0.1, 0), (0.5, 1)])
def test_no_gain_is_large_enough(differ, tasks):
    """Without tasks, or when half of the nights end with the only pair."""
    assert smallest_detectable_gain(differ, tasks, 6) is None
