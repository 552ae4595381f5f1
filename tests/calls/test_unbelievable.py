"""What a backend claims can never lift a cap, and a call it crashes on is counted like any lost call."""

from __future__ import annotations

import pytest

from skillopt_sleep.calls.budget import Budget
from skillopt_sleep.calls.chain import Recorded
from skillopt_sleep.errors import BadReply, EmptyReply, TimedOut
from skillopt_sleep.model.call import Caps, Prompt, Reply, Role, Spend, Usage
from tests.fakes.clock import FakeClock

PROMPT = Prompt(system="s" * 40, user="u" * 40)
ODD = [-1, -(10**30), 10**30, 10**9, 1.5, float("nan"), float("inf"), "7x", None, [1]]


class Claims:
    """A backend that reports or raises what it is given."""

    name, model, sees = "claims", "m", "nobody"

    def __init__(self, outcome: Reply | Exception) -> None:
        self.outcome = outcome

    def complete(self, prompt: Prompt) -> Reply:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Kept:
    """A ledger that keeps the attempts."""

    def __init__(self) -> None:
        self.attempts = []

    def record(self, attempt) -> None:
        self.attempts.append(attempt)

    def commit(self, role, prompt, model, reply, attempt) -> None:
        self.attempts.append(attempt)


def ask(outcome):
    """Send once; return the reply and the recorded attempt."""
    ledger = Kept()
    send = Recorded(role=Role.TARGET, model="m", backend=Claims(outcome), ledger=ledger, clock=FakeClock())
    try:
        reply = send(PROMPT, phase="val", number=1)
    except (BadReply, EmptyReply) as error:
        reply = error
    (attempt,) = ledger.attempts
    return reply, attempt


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("field", ["input_tokens", "output_tokens", "cached_tokens"])
def test_usage(field, odd):
    """Tokens that cannot be are estimated, in the reply and in the record."""
    reply, attempt = ask(Reply(text="hello", usage=Usage(**{field: odd})))
    assert reply.usage == attempt.usage == Usage(input_tokens=20, output_tokens=2, estimated=True)


@pytest.mark.parametrize("odd", [odd for odd in ODD if odd not in (None, 1.5)], ids=repr)
def test_price(odd):
    """A price that cannot be is unknown; so it is for an error."""
    reply, attempt = ask(Reply(text="hello", cost_usd=10**9 if odd == 10**9 else odd))
    assert reply.cost_usd is attempt.cost_usd is None
    error = EmptyReply("nothing")
    error.cost_usd, error.input_tokens = odd, -5
    _, attempt = ask(error)
    assert (attempt.cost_usd, attempt.usage.input_tokens) == (None, 20)


@pytest.mark.parametrize(
    "crash", [RecursionError(), OverflowError(), ValueError("x"), UnicodeError(), ZeroDivisionError()]
)
def test_reply_that_crashes_a_backend(crash):
    """A crash while a reply is read is a lost call, recorded, and ends no night."""
    error, attempt = ask(crash)
    assert isinstance(error, BadReply)
    assert attempt.error == "BadReply"


def test_spend_only_rises():
    """Nothing that is settled lowers what was spent."""
    budget = Budget(Caps(), Spend(), FakeClock())
    lost = TimedOut("late")
    lost.input_tokens, lost.cost_usd = -500, -5.0
    for reply, error in ((Reply(text="a", usage=Usage(input_tokens=-9), cost_usd=-1.0), None), (None, lost)):
        before = budget.spent
        budget.settle(budget.reserve(PROMPT), PROMPT, reply, error)
        after = budget.spent
        assert after.calls == before.calls + 1
        assert (after.tokens, after.usd) >= (before.tokens, before.usd)
