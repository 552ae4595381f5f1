"""A name that nobody knows is answered with the one that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, to be put after what was said about the name; "" when nothing known is near it."""
    import difflib  # noqa: PLC0415  only a mistake needs it

    nearest = difflib.get_close_matches(name, [str(each) for each in known], n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
