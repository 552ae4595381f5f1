"""Session files as a folder shows them: found by name and stat alone, nothing opened, no link followed.

Session files are someone else's JSON Lines: read as a stream, what is wrong with a line is counted and never raised.

They are written while we read them, by programs of any version, cut short by crashes and full disks. A night must
not end because of one line of them, and must not pass over it in silence either.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

import msgspec

from skillopt_sleep.model.session import SessionFile, Skip

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


SUFFIX = ".jsonl"


def session_files(
    root: str, skipped: Callable[[Skip], None], *, without: frozenset[str] = frozenset()
) -> Iterator[SessionFile]:
    """Every regular ``*.jsonl`` below ``root``, in order of path; folders named in ``without`` are not entered.

    ``root`` itself may be a link, the user's own choice; below it none is followed. Links, FIFOs, names that are no
    UTF-8 and folders that cannot be listed are reported to ``skipped``.
    """
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            missing = folder == root and isinstance(error, FileNotFoundError)
            skipped(Skip(path=_printable(folder), reason="no such folder" if missing else cause(error)))
            continue
        inner: list[str] = []
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                skipped(Skip(path=_printable(entry.path), reason=cause(error)))
                continue
            if stat.S_ISDIR(status.st_mode):
                inner += [entry.path] if entry.name not in without else []
            elif reason := _unfit(entry, status):
                skipped(Skip(path=_printable(entry.path), reason=reason))
            elif entry.name.endswith(SUFFIX):
                yield SessionFile(path=entry.path, size=status.st_size, mtime_ns=status.st_mtime_ns)
        folders += reversed(inner)


def _unfit(entry: os.DirEntry[str], status: os.stat_result) -> str:
    """Why an entry that looks like sessions is none; "" for session files and for what does not look like them."""
    if stat.S_ISREG(status.st_mode) and entry.path.isascii():
        return ""
    if stat.S_ISLNK(status.st_mode):
        if not os.path.exists(entry.path):  # noqa: PTH110 - hot loop over thousands of entries
            return "dangling link"
        return "link, not followed" if entry.name.endswith(SUFFIX) or entry.is_dir() else ""
    if not entry.name.endswith(SUFFIX):
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    return "" if _printable(entry.path) == entry.path else "name is not UTF-8"


def _printable(path: str) -> str:
    """The path with bytes that are no UTF-8 replaced."""
    return path.encode(errors="replace").decode()
