"""Words from sessions, models and file names, made fit to be shown.

A report is read in a terminal and in a browser. What it quotes was written by others, so nothing quoted may drive the
terminal, hide from the reader, or break a file that must stay UTF-8.
"""

from __future__ import annotations

import json
import re

import msgspec

from skillopt_sleep.domain.words import excerpt

__all__ = ["plain", "plain_lines", "to_json"]

_CSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]{0,40}[ -/]{0,8}[@-~]")
"""Colours and cursor movements, taken out whole; of any other escape the control characters are, the rest is shown."""

_JOINERS = "\u200c\u200d"
"""Invisible, but part of how Persian, Indic scripts and emoji are spelled."""


def plain(text: str, limit: int | None = None) -> str:
    """``text`` on one line without control, bidirectional and other unprintable characters, cut to ``limit``."""
    line = " ".join(_printable(text).split())
    return line if limit is None else excerpt(line, limit)


def plain_lines(text: str) -> list[str]:
    """The lines of ``text`` with their indentation, each without unprintable characters."""
    return [_printable(line.expandtabs(4)).rstrip() for line in text.rstrip("\n").split("\n")]


def to_json(value: msgspec.Struct) -> bytes:
    """JSON of one value on one line. A file name that is no UTF-8 (a lone surrogate in Python) gets question marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode(errors="replace")


def _printable(text: str) -> str:
    text = _CSI.sub("", text)
    return "".join(c if c.isprintable() or c in _JOINERS else " " if c.isspace() else "" for c in text)
