"""Model calls: prompts, replies, and what a night may spend on them.

All backends, the ledger and the budget share these values. A figure from a provider that is negative or absurd must
neither lift a cap nor end the night, so it counts as missing: tokens are then estimated from the length of the texts,
and a price is not counted.
"""

from __future__ import annotations

import enum
import math
import re
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from skillopt_sleep.errors import BackendError, BudgetSpent
from skillopt_sleep.model import Json
from skillopt_sleep.model.text import sha256

_LONE = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which is how Python represents a byte that is not UTF-8; no encoding can send it."""


class Role(enum.StrEnum):
    """The part a model plays: the target works with the documents; the optimizer mines, judges and reflects."""

    TARGET = "target"
    OPTIMIZER = "optimizer"


class Bounds(Struct, frozen=True, kw_only=True):
    """Limits of one call; None means no limit."""

    seconds: float | None = None
    """Maximum wall time in seconds."""
    usd: float | None = None

    def clip(self, seconds: float) -> float:
        """Return ``seconds``, or the time limit of these bounds if that is shorter."""
        return seconds if self.seconds is None else min(seconds, self.seconds)

    def after(self, waited: float) -> Bounds:
        """Return the bounds that remain after waiting so many seconds."""
        return Bounds(seconds=None if self.seconds is None else self.seconds - waited, usd=self.usd)


class Prompt(Struct, frozen=True, kw_only=True):
    """One request to a model."""

    system: str
    user: str
    schema: dict[str, Json] | None = None
    """JSON Schema of the object that the model must reply with; None asks for text."""
    sample: int = 0
    """Number of the repetition of a rollout, which keeps repeated replies apart in the ledger and is never sent."""
    max_output_tokens: int | None = None
    """Maximum number of output tokens, for backends that can limit it; None leaves the length to the model."""
    temperature: float | None = None
    """Sampling temperature, for backends that can set it; None leaves it to the model."""
    within: Bounds = Bounds()
    """Limits of this call, set by the night's budget."""

    def __post_init__(self) -> None:
        """Replace lone surrogates in the texts by U+FFFD, as they could not be sent; files keep their bytes."""
        for name in ("system", "user"):
            if _LONE.search(text := getattr(self, name)):
                msgspec.structs.force_setattr(self, name, _LONE.sub("\ufffd", text))

    @property
    def digest(self) -> str:
        """Hex digest of what is sent to the model: both texts and the schema, none of the other fields."""
        return sha256(msgspec.json.encode([self.system, self.user, self.schema]))


class Usage(Struct, frozen=True, kw_only=True):
    """Numbers of tokens of one call, as the provider reports them."""

    input_tokens: int = 0
    """Tokens of the request, including cached ones."""
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False
    """Whether the counts are estimates (characters / 4), as the provider reported nothing usable."""


class Reply(Struct, frozen=True, kw_only=True):
    """One answer of a model."""

    text: str
    model: str = ""
    """The model that answered, as the provider names it."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """Price of the call in dollars; None when the provider names none."""
    latency: float = 0.0
    """Time from request to reply, in seconds."""
    tools_called: tuple[str, ...] = ()
    version: str = ""
    """Version of the agent CLI that answered, as checked when the night began or was resumed."""
    answered_at: str = ""
    """Time when the reply came, ISO 8601; the chain of calls sets it."""


class Health(Struct, frozen=True, kw_only=True):
    """Whether a backend can be used, as found out without a model call."""

    ready: bool
    version: str = ""
    logged_in: bool | None = None
    """Whether the user is logged in; None when it cannot be found out."""
    detail: str = ""
    """What the user should do when the backend is not ready."""


class Attempt(Struct, frozen=True, kw_only=True):
    """One request that was sent, as the ledger records it."""

    phase: str
    """Name of the part of the night that sent the request."""
    role: Role
    number: int = 1
    """Number of this try to get the same reply, from 1."""
    error: str = ""
    """Name of the exception class that the request raised; "" when it was answered."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """Price of the attempt in dollars; None when the provider names none."""
    seconds: float = 0.0
    """Wall time of the attempt in seconds."""


class Caps(Struct, frozen=True, kw_only=True):
    """Hard limits of one night; the night stops at the first limit it reaches."""

    calls: int = 120
    tokens: int = 400_000
    """Input and output tokens together."""
    usd: float = 2.0
    minutes: float = 60.0
    """Maximum wall time from the start of the night, or from its resumption, in minutes."""


class Spend(Struct, frozen=True, kw_only=True):
    """What a night has spent."""

    calls: int = 0
    """Attempts that were sent to a provider."""
    tokens: int = 0
    """Input and output tokens together."""
    usd: float = 0.0
    """The sum of the known prices."""
    unpriced: int = 0
    """Number of calls without a known price; if there are any, reports call ``usd`` a lower bound."""
    seconds: float = 0.0


class Expected(Struct, frozen=True, kw_only=True):
    """Forecast of the number of calls in one phase, provided that no call has to be repeated."""

    phase: str
    least: int
    most: int
    usual: int = 0
    """Number of calls that a typical night makes in this phase."""


LEAST_SHARE = 0.7
"""Lower end of the forecast range, as a share of a night's usual calls; the upper end is twice the lower one."""


def find_range(usual: int, cap: int) -> tuple[int, int]:
    """Return the lower and upper end of the forecast of a night's calls; the upper end is at most twice the lower one.

    A night postpones its remaining trials when it reaches the upper end, and the next night continues them
    (`TrialRunner.calls_left`).
    """
    most = min(2 * math.ceil(usual * LEAST_SHARE), cap)
    return math.ceil(most / 2), most


class Allowance(Struct, frozen=True, kw_only=True):
    """What all nights of one day may spend together."""

    caps: Caps
    spent: Spend = Spend()
    """What the nights of the day had spent when this night began or was resumed."""

    def after(self, spent: Spend) -> Spend:
        """Return what all nights of the day have spent, given that this night has spent ``spent``."""
        return Spend(
            calls=self.spent.calls + spent.calls,
            tokens=self.spent.tokens + spent.tokens,
            usd=self.spent.usd + spent.usd,
            unpriced=self.spent.unpriced + spent.unpriced,
        )


def find_blocking_cap(
    caps: Caps, spend: Spend, *, in_flight: int, tokens_per_call: float, usd_per_call: float
) -> str | None:
    """Return the name of the cap that one more call could exceed, or None when the call may be sent.

    Every call in flight counts with its expected size, so that parallel calls together cannot exceed a cap that serial
    calls would have kept. ``tokens_per_call`` and ``usd_per_call`` are the expected size of one call.
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
    """What one phase of the night cost."""

    phase: str
    calls: int = 0
    reused: int = 0
    """Number of replies that this night had already paid for."""
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """Sum of the known prices in dollars; None when no call named a price."""
    seconds: float = 0.0
    """Sum of the calls' durations in seconds; parallel calls overlap."""
    errors: dict[str, int] = field(default_factory=dict)
    """Number of failed attempts by the name of the exception class."""


MAX_TOKENS = 100_000_000
"""The highest number of tokens of one call that is believed, ten times the tokens of an agent's longest run."""
MAX_USD = 10_000.0
"""The highest price of one call that is believed, in dollars."""
CHARACTERS_PER_TOKEN = 4
LONGEST_NUMBER = 20
"""Maximum length of a number that a provider sends as text, in characters."""

R = TypeVar("R", bound=Reply)


def read_count(value: Json) -> int | None:
    """Return a number of tokens, also one sent as text; 0 for null, and None for anything that is not a valid count."""
    if value is None:
        return 0
    number = _read_number(value, MAX_TOKENS)
    return None if number is None or number != int(number) else int(number)


def read_price(value: Json) -> float | None:
    """Return a price in dollars, or None when there is none or the value cannot be a price."""
    return None if value is None else _read_number(value, MAX_USD)


def make_usage(*, given: list[Json], written: list[Json], cached: Json = None) -> Usage | None:
    """Return the usage of one call from its counts of tokens, or None when one of them cannot be a count."""
    given_counts, written_counts = [read_count(value) for value in given], [read_count(value) for value in written]
    if None in given_counts or None in written_counts:
        return None
    usage = Usage(
        input_tokens=sum(count or 0 for count in given_counts),
        output_tokens=sum(count or 0 for count in written_counts),
        cached_tokens=read_count(cached) or 0,
    )
    return usage if is_believable(usage) else None


def is_believable(usage: Usage) -> bool:
    """Return whether every count of a usage is possible for one call."""
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    return all(count is not None and read_count(count) is not None for count in counts)


def estimate_usage(prompt: Prompt, text: str) -> Usage:
    """Return an estimate of the tokens of a prompt and its answer, by their length."""
    sizes = [-(-len(part) // CHARACTERS_PER_TOKEN) for part in (prompt.system, prompt.user, text)]
    return Usage(input_tokens=sizes[0] + sizes[1], output_tokens=sizes[2], estimated=True)


def correct_reply(reply: R, prompt: Prompt) -> R:
    """Return the reply with impossible token counts replaced by an estimate, and an impossible price by None."""
    usage = reply.usage if is_believable(reply.usage) else estimate_usage(prompt, reply.text)
    return msgspec.structs.replace(reply, usage=usage, cost_usd=read_price(reply.cost_usd))


def correct_error(error: BackendError | BudgetSpent, prompt: Prompt) -> None:
    """Replace impossible token counts of an error by an estimate, and an impossible price by None."""
    if not is_believable(Usage(input_tokens=error.input_tokens, output_tokens=error.output_tokens)):
        usage = estimate_usage(prompt, "")
        error.input_tokens, error.output_tokens = usage.input_tokens, usage.output_tokens
    error.cost_usd = read_price(error.cost_usd)


def _read_number(value: Json, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        if len(value) > LONGEST_NUMBER:
            return None
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if math.isfinite(value) and 0 <= value <= most else None
