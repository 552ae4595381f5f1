"""What gain can be shown: computed, and the same as when it is played out."""

from __future__ import annotations

import random

import pytest

from skillopt_sleep.domain.detect import RELIABLY, accepted_tonight, accepted_within, detectable
from skillopt_sleep.domain.paired import Result, Tally, decide, exact_error, follow, go_on_tonight, next_pairs
from skillopt_sleep.domain.verdict import Verdict


def draw(luck, win, loss):
    drawn = luck.random()
    return Result.WIN if drawn < win else Result.LOSS if drawn < win + loss else Result.TIE


def night(luck, win, loss, k, tasks):
    """One night as a trial runs it."""
    tally, pairs = Tally(), 0
    while True:
        left = tasks
        while size := next_pairs(tally, k, pairs_tonight=pairs, left=left):
            tally = follow([draw(luck, win, loss) for _ in range(size)], k, tally)
            pairs, left = pairs + size, left - size
        if decide(tally, k) is not Verdict.UNDECIDED or not go_on_tonight(tally, pairs):
            return decide(tally, k)


@pytest.mark.parametrize("k", [6, 8])
@pytest.mark.parametrize("tasks", [1, 4, 12, 40])
@pytest.mark.parametrize(("win", "loss"), [(0.5, 0.05), (0.3, 0.1), (0.25, 0.25)])
def test_night_is_computed_as_it_is_played(win, loss, tasks, k):
    """Rounds, pairs at once, pauses and caps: the chance is that of the trial itself, within four standard errors."""
    luck = random.Random(f"{win} {loss} {tasks} {k}")
    nights = 3000
    played = sum(night(luck, win, loss, k, tasks) is Verdict.ACCEPT for _ in range(nights)) / nights
    chance = accepted_tonight(win, loss, k, tasks)
    assert played == pytest.approx(chance, abs=4 * max(chance * (1 - chance), 1e-3) ** 0.5 / nights**0.5)


@pytest.mark.parametrize("k", [6, 7, 8, 10])
def test_useless_edit_gets_the_exact_error_in_the_end(k):
    """Pairs without number and no ties: never above the sum of the formula, and just below it."""
    chance = accepted_within(0.5, 0.5, k, 400)
    assert exact_error(k) * 0.99 < chance <= exact_error(k) + 1e-12


def test_more_tasks_less_noise_and_more_nights_show_smaller_gains():
    """Each of them."""
    assert detectable(0.1, 12, 6) < detectable(0.1, 4, 6)
    assert detectable(0.1, 12, 6) < detectable(0.2, 12, 6)
    assert detectable(0.1, 12, 6, nights=7) < detectable(0.1, 12, 6)
    assert detectable(0.1, 12, 6) < detectable(0.1, 12, 8)


def test_smallest_gain_is_the_smallest():
    """One point less is not shown reliably any more."""
    points = detectable(0.1, 12, 6)
    assert accepted_tonight(0.05 + points / 100, 0.05, 6, 12) >= RELIABLY
    assert accepted_tonight(0.05 + (points - 1) / 100, 0.05, 6, 12) < RELIABLY


@pytest.mark.parametrize(("differ", "tasks"), [(0.1, 0), (1.0, 12)])
def test_no_gain_is_large_enough(differ, tasks):
    """Without tasks, or where replays are coins."""
    assert detectable(differ, tasks, 6) is None
