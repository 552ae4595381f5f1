"""Frozen values and pure rules: no I/O, no clock, no environment.

A value is ``class X(Struct, frozen=True, kw_only=True)``: immutable, compared by content, built by keyword, and ready
for the one codec library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
else:
    Json = __import__("typing").Any  # msgspec reads annotations at run time and knows no recursive alias
