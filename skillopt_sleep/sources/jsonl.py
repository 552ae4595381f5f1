"""Session files are someone else's JSON Lines: read as a stream, what is wrong with a line is counted and never raised.

They are written while we read them, by programs of any version, cut short by crashes and full disks. A night must
not end because of one line of them, and must not pass over it in silence either.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from functools import partial
from typing import BinaryIO

import msgspec

from skillopt_sleep.domain.session import Skip

__all__ = ["FAULTS", "MAX_LINE", "cause", "feed"]

MAX_LINE = 32 * 2**20
"""Bytes. What stands in a session once was part of one request to a model, and those end at 32 MB."""

FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a line may raise; anything else is a bug of ours."""

_BUFFER = 2**18
_EXTRA_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_ESCAPED = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def feed(path: str, take: Callable[[bytes], None], skipped: Callable[[Skip], None]) -> None:
    """Hand each line of a file to ``take``, which raises one of ``FAULTS`` before it has made use of a bad line.

    Memory is bounded by ``MAX_LINE``; a longer line is never held. A last line without its newline that cannot be
    read is being written just now, so it is passed over. A lone surrogate is replaced, and counted. Everything else
    that was not read is reported to ``skipped``, once for each reason, with the first line and the number of lines.
    """
    tally = _Tally(path)
    try:
        with _regular(path) as stream:
            for number, line in enumerate(iter(partial(stream.readline, MAX_LINE + 1), b""), start=1):
                if len(line) > MAX_LINE and not line.endswith(b"\n"):
                    tally.add(f"line over {MAX_LINE // 2**20} MB", number)
                    _drop_line(stream)
                    continue
                try:
                    take(line)
                except FAULTS as fault:
                    if line.endswith(b"\n") and not line.isspace():
                        _take_mended(line, number, fault, take, tally)
    except OSError as error:
        tally.add(cause(error))
    tally.report(skipped)


def cause(error: OSError) -> str:
    """Why a file could not be read, in words for the report."""
    if isinstance(error, FileNotFoundError):
        return "vanished"
    return (error.strerror or str(error)).lower()


class _Tally:
    """The skips of one file: for each reason, the first line and how many there were."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._first: dict[str, int] = {}
        self._count: dict[str, int] = {}

    def add(self, reason: str, line: int = 0) -> None:
        self._first.setdefault(reason, line)
        self._count[reason] = self._count.get(reason, 0) + 1

    def report(self, skipped: Callable[[Skip], None]) -> None:
        for reason, line in self._first.items():
            skipped(Skip(path=self._path, reason=reason, line=line, count=self._count[reason]))


def _regular(path: str) -> BinaryIO:
    """Open a regular file: a FIFO, link or device that took its place is never opened."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError("not a regular file")
    return open(path, "rb", buffering=_BUFFER, opener=lambda name, flags: os.open(name, flags | _EXTRA_FLAGS))


def _drop_line(stream: BinaryIO) -> None:
    """Read on to the end of the line at hand, holding none of it."""
    while (rest := stream.readline(_BUFFER)) and not rest.endswith(b"\n"):
        pass


def _take_mended(line: bytes, number: int, fault: Exception, take: Callable[[bytes], None], tally: _Tally) -> None:
    """Try a faulty line again without its lone surrogates: JavaScript leaves them where it cuts a text in two."""
    mended = _ESCAPED.sub(lambda match: rb"\ufffd" if match["lone"] else match[0], line)
    if mended == line:
        tally.add(_reason(fault, line), number)
        return
    try:
        take(mended)
    except FAULTS as again:
        tally.add(_reason(again, line), number)
    else:
        tally.add("lone surrogate replaced", number)


def _reason(fault: Exception, line: bytes) -> str:
    match fault:
        case RecursionError():
            return "nested too deep"
        case UnicodeDecodeError():
            return "invalid UTF-8"
        case msgspec.ValidationError():
            return "not a session record"
        case _:
            return "NUL bytes" if b"\0" in line else "malformed JSON"
