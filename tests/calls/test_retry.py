"""Retry: waits that grow up to a bound, a provider's own wait, and the breaker that ends a night."""

from __future__ import annotations

import random

import pytest

from skillopt_sleep.calls.chain import ATTEMPTS, Breaker, Retried
from skillopt_sleep.errors import BackendUnusable, Overloaded, TooLong
from skillopt_sleep.model.call import Prompt
from tests.fakes.backend import ScriptedBackend
from tests.fakes.clock import FakeClock

PROMPT = Prompt(system="be brief", user="say hello")


def retry(*replies, **options):
    """A retried backend that gives these replies, with its clock."""
    backend, clock = ScriptedBackend(*replies), FakeClock()
    return Retried(send=lambda prompt, **_: backend.complete(prompt), clock=clock, **options), clock


@pytest.fixture
def jitters(monkeypatch):
    """The bounds that each jitter was drawn from; every jitter is 1."""
    drawn = []
    monkeypatch.setattr(random, "uniform", lambda low, high: drawn.append((low, high)) or 1.0)
    return drawn


def test_wait_doubles_with_every_attempt(jitters):
    """From the first wait on, each with a jitter of half to one and a half."""
    ask, clock = retry(Overloaded("529"), first_wait=3.0)
    with pytest.raises(Overloaded):
        ask(PROMPT, phase="train")
    assert clock.slept == [3.0, 6.0, 12.0]
    assert jitters == [(0.5, 1.5)] * (ATTEMPTS - 1)


@pytest.mark.usefixtures("jitters")
def test_wait_is_at_most_a_minute():
    """However many attempts there were."""
    ask, clock = retry(Overloaded("529"), first_wait=20.0)
    with pytest.raises(Overloaded):
        ask(PROMPT, phase="train")
    assert clock.slept == [20.0, 40.0, 60.0]


@pytest.mark.parametrize(("asked", "slept"), [(None, 4.0), (0.0, 4.0), (2.0, 4.0), (7.0, 7.0), (90.0, 90.0)])
@pytest.mark.usefixtures("jitters")
def test_provider_can_lengthen_the_wait_and_not_shorten_it(asked, slept):
    """A provider may ask for more than a minute."""
    ask, clock = retry(Overloaded("529", retry_after=asked), "hello", first_wait=4.0)
    assert ask(PROMPT, phase="train").text == "hello"
    assert clock.slept == [slept]


@pytest.mark.usefixtures("jitters")
def test_wait_is_announced_before_it_begins():
    """What the announcement raises ends the call without a wait."""
    announced = []
    ask, clock = retry(Overloaded("529"), "hello", before_wait=announced.append)
    ask(PROMPT, phase="train")
    assert announced == clock.slept == [1.0]


@pytest.mark.parametrize("alive", ["hello", TooLong("250000 tokens")], ids=["an answer", "a prompt that is too long"])
def test_sign_of_life_resets_the_breaker(alive):
    """Only losses in a row end the night; a service that refuses a long prompt is alive."""
    breaker = Breaker(limit=3)
    lost, _ = retry(Overloaded("529"), breaker=breaker)
    living, _ = retry(alive, breaker=breaker)
    for _ in range(2):
        with pytest.raises(Overloaded):
            lost(PROMPT, phase="train")
    if isinstance(alive, str):
        living(PROMPT, phase="train")
    else:
        with pytest.raises(TooLong):
            living(PROMPT, phase="train")
    for _ in range(2):
        with pytest.raises(Overloaded):
            lost(PROMPT, phase="train")
    with pytest.raises(BackendUnusable, match="3 calls in a row failed"):
        lost(PROMPT, phase="train")
