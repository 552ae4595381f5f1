"""Frozen values and pure rules: no I/O, no clock, no environment.

A value is ``class X(Struct, frozen=True, kw_only=True)``: immutable, compared by content, built by keyword, and ready
for the one codec library.
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Json"]

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
