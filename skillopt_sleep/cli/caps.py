"""The caps of a training or an evaluation, in the words of the command line."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["CAPS", "GO_ON", "caps_told", "default_cap"]

CAPS = {"max_calls": "calls", "max_tokens": "tokens", "max_usd": "USD", "max_minutes": "minutes"}
GO_ON = "; the same command goes on, and nothing is paid twice"
"""What to do after an interruption."""
ROOM = 1.25
"""The cap on calls where none is given, as a multiple of the price: retries cost calls too."""
RETRIES = 16
"""Calls above the price that there are at least: a service that is down is to be told of by its own error."""


def default_cap(config: Any, calls: int) -> int | None:  # noqa: ANN401  whatever has the four caps
    """The cap on calls of what takes so many at most; None where a cap of any kind is given."""
    if any(getattr(config, cap) is not None for cap in CAPS):
        return None
    return max(math.ceil(calls * ROOM), calls + RETRIES)


def caps_told(config: Any, calls: int) -> str:  # noqa: ANN401  as above
    """The caps that hold, the default one too."""
    given = [f"{value:,g} {unit}" for cap, unit in CAPS.items() if (value := getattr(config, cap)) is not None]
    return ", ".join(given) or f"{default_cap(config, calls):,} calls"
