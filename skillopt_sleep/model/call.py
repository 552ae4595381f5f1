"""What is sent to a model and what comes back, in values every backend shares.

What a night may spend, what it has spent, and which cap stands in the way of the next call.
"""

from __future__ import annotations

import enum
import re

import msgspec
from msgspec import Struct, field

from skillopt_sleep.model import Json
from skillopt_sleep.model.text import sha256

_LONE = re.compile("[\ud800-\udfff]")
"""Half a character: a byte of a document that is no UTF-8, as Python reads it. No encoding can send it."""


class Role(enum.StrEnum):
    """Target: the model whose skill improves. Optimizer: the one that mines, judges and reflects."""

    TARGET = "target"
    OPTIMIZER = "optimizer"


class Bounds(Struct, frozen=True, kw_only=True):
    """What is left for one call when it is sent: seconds, and dollars; None = as much as it likes."""

    seconds: float | None = None
    usd: float | None = None

    def clip(self, seconds: float) -> float:
        """A deadline of so many seconds, or what is left where that is less."""
        return seconds if self.seconds is None else min(seconds, self.seconds)

    def after(self, waited: float) -> Bounds:
        """What is left once so many seconds have passed."""
        return Bounds(seconds=None if self.seconds is None else self.seconds - waited, usd=self.usd)


class Prompt(Struct, frozen=True, kw_only=True):
    """One request. ``schema`` asks for a JSON object of that shape ("" text otherwise).

    ``sample`` keeps repeated rollouts of one prompt apart in the ledger; a real model never sees it. A backend that
    can honours ``max_output_tokens`` and ``temperature``; None leaves them to the model. ``within`` is set by the
    night's budget.
    """

    system: str
    user: str
    schema: dict[str, Json] | None = None
    sample: int = 0
    max_output_tokens: int | None = None
    temperature: float | None = None
    within: Bounds = Bounds()

    def __post_init__(self) -> None:
        """Show what is no character as one that says so: a file keeps its bytes, whoever reads of it needs text."""
        for name in ("system", "user"):
            if _LONE.search(text := getattr(self, name)):
                msgspec.structs.force_setattr(self, name, _LONE.sub("\ufffd", text))

    @property
    def digest(self) -> str:
        """Hex digest of the words and the schema that the model is sent; the other fields are no part of it."""
        return sha256(msgspec.json.encode([self.system, self.user, self.schema]))


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one call as the provider reports them; ``input_tokens`` includes cached ones.

    ``estimated`` is True when the provider reports nothing and the figures are characters / 4.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False


class Reply(Struct, frozen=True, kw_only=True):
    """One answer. ``cost_usd`` is None when the provider names no price. ``latency`` is in seconds."""

    text: str
    model: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    latency: float = 0.0
    tools_called: tuple[str, ...] = ()


class Health(Struct, frozen=True, kw_only=True):
    """What a probe found out without a model call. ``detail`` says what to do when not ``ready``."""

    ready: bool
    version: str = ""
    logged_in: bool | None = None
    detail: str = ""


class Attempt(Struct, frozen=True, kw_only=True):
    """One request that was sent, for the account. ``error`` is the class of what went wrong, "" when it was answered.

    ``number`` counts the tries for one reply from 1; ``seconds`` is wall time.
    """

    phase: str
    role: Role
    number: int = 1
    error: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    seconds: float = 0.0


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


class PhaseTally(Struct, frozen=True, kw_only=True):
    """What one phase of the night cost. ``reused`` replies were already paid for in this night.

    ``seconds`` adds up the time of the calls, which overlap; ``cost_usd`` is None when no call named a price.
    """

    phase: str
    calls: int = 0
    reused: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
