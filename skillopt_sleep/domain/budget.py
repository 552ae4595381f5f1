"""What a night may spend, what it has spent, and which cap stands in the way of the next call."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Allowance", "Caps", "Expected", "Spend", "blocking_cap"]


class Caps(Struct, frozen=True, kw_only=True):
    """Hard limits of one night; the first one hit stops it. ``minutes`` is wall time of one sitting."""

    calls: int = 120
    tokens: int = 400_000
    usd: float = 2.0
    minutes: float = 60.0


class Spend(Struct, frozen=True, kw_only=True):
    """What was spent: attempts sent to a provider, tokens in and out, dollars where a price is known, seconds.

    ``unpriced`` counts the calls whose provider named no price: ``usd`` is then a lower bound, and said to be.
    """

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0


class Expected(Struct, frozen=True, kw_only=True):
    """Calls of one phase, at least, as a rule, and at most, when every call is answered at once."""

    phase: str
    least: int
    most: int
    usual: int = 0


class Allowance(Struct, frozen=True, kw_only=True):
    """What the nights of a day may spend together, and what they had spent when this one began or went on."""

    caps: Caps
    spent: Spend = Spend()

    def after(self, spent: Spend) -> Spend:
        """What they have spent when this night has spent so much more."""
        return Spend(
            calls=self.spent.calls + spent.calls,
            tokens=self.spent.tokens + spent.tokens,
            usd=self.spent.usd + spent.usd,
            unpriced=self.spent.unpriced + spent.unpriced,
        )


def blocking_cap(
    caps: Caps, spend: Spend, *, in_flight: int, tokens_per_call: float, usd_per_call: float
) -> str | None:
    """Name the cap that one more call could overspend, or None when it may be sent.

    Calls in flight are counted as if each came back at the expected size, so parallel work cannot jointly run over
    what a serial night would have kept to. ``tokens_per_call`` and ``usd_per_call`` are the expectation for one call.
    """
    ahead = in_flight + 1
    if spend.calls + ahead > caps.calls:
        return "calls"
    if spend.tokens + ahead * tokens_per_call > caps.tokens:
        return "tokens"
    if spend.usd + ahead * usd_per_call > caps.usd:
        return "usd"
    if spend.seconds >= caps.minutes * 60.0:
        return "minutes"
    return None
