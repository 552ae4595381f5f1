"""Immutable values and pure functions: no I/O, no clock, no environment.

Each value is a ``class X(Struct, frozen=True, kw_only=True)``: immutable, compared by content, built by keyword, and
encoded or decoded by msgspec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
else:
    Json = __import__("typing").Any  # msgspec reads annotations at run time and knows no recursive alias
