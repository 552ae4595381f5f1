"""Text written by others, put into a prompt as data: it can end neither its tag nor begin one of ours."""

from __future__ import annotations

import functools
import hashlib
import re

__all__ = ["disarm", "seal"]

BRACKET = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
"""Looks like the bracket it stands for, and opens no tag."""


def disarm(text: str, *tags: str) -> str:
    """The text with nothing in it that could be taken for one of ``tags``, opening or closing, however spaced."""
    return _opening(tags).sub(BRACKET, text)


def seal(*texts: str) -> str:
    """Sixteen hex digits that depend on all of the texts: for a tag's name, which none of them can know beforehand."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:16]


@functools.cache
def _opening(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=[\s/]*(?:{'|'.join(map(re.escape, tags))})\b)", re.IGNORECASE)
