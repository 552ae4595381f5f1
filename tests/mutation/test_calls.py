"""Boundaries of the calls that a mutation run found untested."""

from __future__ import annotations

import pytest

from skillopt_sleep.calls.budget import Budget
from skillopt_sleep.calls.chain import Breaker
from skillopt_sleep.errors import BackendUnusable, BudgetSpent, Overloaded
from skillopt_sleep.model.call import Caps, Spend
from tests.fakes.clock import FakeClock


def test_breaker_ends_the_night_at_the_fourth_lost_call():
    """Three lost calls in a row pass, and an answer forgets them; the fourth ends the night."""
    breaker, error = Breaker(), Overloaded("529")
    for _ in range(2):
        for _ in range(3):
            breaker.note_loss(error)
        breaker.note_answer()
    for _ in range(3):
        breaker.note_loss(error)
    with pytest.raises(BackendUnusable, match="4 calls in a row"):
        breaker.note_loss(error)


@pytest.mark.parametrize(("seconds", "fits"), [(60.0, True), (60.5, False)])
def test_wait_that_just_fits_the_minutes(seconds, fits):
    """A wait may last until the last second of the cap on minutes, and no longer."""
    budget = Budget(Caps(minutes=2.0), Spend(seconds=60.0), FakeClock())
    if fits:
        budget.require_time(seconds)
        return
    with pytest.raises(BudgetSpent, match=r"1\.0 min spent"):
        budget.require_time(seconds)
