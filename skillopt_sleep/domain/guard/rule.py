"""What one danger is: a name, a reason, and the words that show it."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["GuardRule"]


class GuardRule(Struct, frozen=True, kw_only=True):
    """One danger: patterns of the words that show it, and in ``unless`` those that make their sentence harmless.

    Patterns are matched whatever the case, on text with single blanks, straight quotes and plain dashes. ``negated``
    patterns begin with a negation of their own, which then forbids nothing. Those of one row of ``together`` stand in one
    sentence, in any order; the first is what is done.
    """

    name: str
    why: str
    patterns: tuple[str, ...] = ()
    negated: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    unless: str = r"(?!)"
