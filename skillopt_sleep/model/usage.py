"""Read the token counts and prices that a provider reports: believed within bounds, otherwise unknown.

A provider may report anything. A negative or absurd figure must neither lift a cap nor end the night, so it is treated
as missing: tokens are then estimated from the length of the texts, and a price is not counted.
"""

from __future__ import annotations

import math
from typing import TypeVar

import msgspec

from skillopt_sleep.errors import BackendError, BudgetSpent
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Prompt, Reply, Usage

MAX_TOKENS = 100_000_000
"""The most tokens of one call that are believed; the longest run of an agent takes a tenth of it."""
MAX_USD = 10_000.0
"""The highest price of one call that is believed."""
CHARACTERS_PER_TOKEN = 4
LONGEST_NUMBER = 20
"""Characters of a number that is sent as text."""

R = TypeVar("R", bound=Reply)


def read_count(value: Json) -> int | None:
    """Return a number of tokens, also one sent as text; 0 for null, None for anything that is no valid count."""
    if value is None:
        return 0
    number = _read_number(value, MAX_TOKENS)
    return None if number is None or number != int(number) else int(number)


def read_price(value: Json) -> float | None:
    """Return a price in dollars, None when there is none or it cannot be one."""
    return None if value is None else _read_number(value, MAX_USD)


def make_usage(*, given: list[Json], written: list[Json], cached: Json = None) -> Usage | None:
    """Return the usage of one call from its counts; None when one of them cannot be a count."""
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
    """Tell whether every count is one that a call can have."""
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    return all(count is not None and read_count(count) is not None for count in counts)


def estimate_usage(prompt: Prompt, text: str) -> Usage:
    """Estimate the tokens of a prompt and its answer by their length."""
    sizes = [-(-len(part) // CHARACTERS_PER_TOKEN) for part in (prompt.system, prompt.user, text)]
    return Usage(input_tokens=sizes[0] + sizes[1], output_tokens=sizes[2], estimated=True)


def correct_reply(reply: R, prompt: Prompt) -> R:
    """Return a reply whose tokens and price can be counted."""
    usage = reply.usage if is_believable(reply.usage) else estimate_usage(prompt, reply.text)
    return msgspec.structs.replace(reply, usage=usage, cost_usd=read_price(reply.cost_usd))


def correct_error(error: BackendError | BudgetSpent, prompt: Prompt) -> None:
    """Replace impossible token counts and prices of an error by figures that can be counted."""
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
