"""What is sent to a model and what comes back, in values every backend shares."""

from __future__ import annotations

import enum
import re

import msgspec
from msgspec import Struct

from skillopt_sleep.domain import Json
from skillopt_sleep.domain.digest import sha256

__all__ = ["Attempt", "Bounds", "Health", "Prompt", "Reply", "Role", "Usage"]


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
