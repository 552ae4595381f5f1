"""What gain can be shown: computed, and close to what was simulated."""

from __future__ import annotations

import pytest

from skillopt_sleep.gate.noise import RELIABLY, chance_in_pairs, pair_rates, smallest_detectable_gain
from skillopt_sleep.gate.rule import exact_error


@pytest.mark.parametrize("k", [6, 7, 8, 10])
def test_useless_edit_is_never_accepted_more_often_than_the_exact_error(k):
    """However many pairs, and with no ties at all."""
    assert exact_error(k) * 0.99 < chance_in_pairs(0.5, 0.5, k, 400) <= exact_error(k) + 1e-12


def test_more_tasks_less_noise_and_more_nights_show_smaller_gains():
    """Each of them."""
    assert smallest_detectable_gain(0.1, 12, 6) < smallest_detectable_gain(0.1, 4, 6)
    assert smallest_detectable_gain(0.1, 12, 6) < smallest_detectable_gain(0.2, 12, 6)
    assert smallest_detectable_gain(0.1, 12, 6, nights=7) < smallest_detectable_gain(0.1, 12, 6)
    assert smallest_detectable_gain(0.1, 12, 6) < smallest_detectable_gain(0.1, 12, 8)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [3, 5, 12, 40])
def test_a_week_shows_what_a_night_does(tasks):
    """And more, until a life has all its pairs."""
    tonight, week = smallest_detectable_gain(0.1, tasks, 6), smallest_detectable_gain(0.1, tasks, 6, nights=7)
    assert tonight is None or week <= tonight


def test_smallest_gain_is_the_smallest():
    """One point less is not shown reliably any more."""
    points = smallest_detectable_gain(0.1, 12, 6)
    assert chance_in_pairs(*pair_rates(0.1, points / 100), 6, 24) >= RELIABLY
    assert chance_in_pairs(*pair_rates(0.1, (points - 1) / 100), 6, 24) < RELIABLY


@pytest.mark.parametrize(
    ("base", "tonight", "week"),
    [
        ([0.5] * 12, 40, 32),
        ([0.3] * 12, 46, 34),
        ([0.0] * 6 + [0.5] * 6, 34, 24),
    ],
    ids=["half", "three-tenths", "half-of-the-tasks-never"],
)
def test_gain_that_shows_is_the_one_that_does(base, tonight, week):
    """What trials of real tasks were simulated to accept in 8 of 10 cases, within six points: from the noise alone."""
    differ = sum(2 * p * (1 - p) for p in base) / len(base)
    assert smallest_detectable_gain(differ, 12, 6) == pytest.approx(tonight, abs=6)
    assert smallest_detectable_gain(differ, 12, 6, nights=7) == pytest.approx(week, abs=6)


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


def test_week_has_the_pairs_that_a_waiting_edit_gets():
    """Half of the tasks from its second night on: 10 pairs, then 4 in each of six nights."""
    points = smallest_detectable_gain(0.42, 5, 6, nights=7)
    assert chance_in_pairs(*pair_rates(0.42, points / 100), 6, 34) >= RELIABLY
    assert chance_in_pairs(*pair_rates(0.42, (points - 1) / 100), 6, 34) < RELIABLY


@pytest.mark.parametrize(("differ", "tasks"), [(0.1, 0), (0.5, 1)])
def test_no_gain_is_large_enough(differ, tasks):
    """Without tasks, or with two pairs where six wins are needed."""
    assert smallest_detectable_gain(differ, tasks, 6) is None
