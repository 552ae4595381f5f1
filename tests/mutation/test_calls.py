"""Boundaries of the calls that a mutation run found untested."""

from __future__ import annotations

import random

import pytest

from skillopt_sleep.calls.budget import Budget
from skillopt_sleep.calls.chain import Breaker, Retried
from skillopt_sleep.errors import BackendUnusable, BudgetSpent, Overloaded
from skillopt_sleep.model.call import Caps, Prompt, Spend
from tests.fakes.backend import ScriptedBackend
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


def test_jitter_lengthens_a_wait(monkeypatch):
    """A wait is the first wait times the jitter, so calls that failed together do not come back together."""
    monkeypatch.setattr(random, "uniform", lambda *_: 1.5)
    backend, clock = ScriptedBackend(Overloaded("529"), "hello"), FakeClock()
    ask = Retried(send=lambda prompt, **_: backend.complete(prompt), clock=clock, first_wait=4.0)
    assert ask(Prompt(system="", user="hello"), phase="train").text == "hello"
    assert clock.slept == [6.0]


def test_minutes_in_the_message_of_a_cap():
    """The message that a cap is reached tells the minutes that were spent."""
    budget = Budget(Caps(calls=1), Spend(calls=1, seconds=1800.0), FakeClock())
    with pytest.raises(BudgetSpent, match=r"30\.0 min spent"):
        budget.reserve(Prompt(system="", user="hello"))
