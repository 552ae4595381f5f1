"""Session files as a folder shows them: found by name and stat alone, nothing opened, no link followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from skillopt_sleep.domain.session import SessionFile, Skip
from skillopt_sleep.sources.jsonl import cause

__all__ = ["session_files"]

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
