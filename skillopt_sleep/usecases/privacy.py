"""Keep our own folders private: nobody else on this machine can read them, and git does not see them.

They hold words of the user's sessions. An earlier version, a copy or a loose umask may have left them open.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from skillopt_sleep.errors import DiskError, SleepError
from skillopt_sleep.storage.files import hide_from_git
from skillopt_sleep.usecases.plugins import MARKET_FOLDER
from skillopt_sleep.usecases.uninstall import OWN_FILE, OWN_WITHIN

OPEN = 0o077
"""The permissions of everybody but the owner."""
OWN_NAMES = frozenset({*OWN_WITHIN, MARKET_FOLDER, ".market-new", ".gitignore"})


def secure_folders(data_dir: Path, project: Path) -> Iterator[str]:
    """Close our folders to others, hide a data folder from the git project it lies in, and yield what was done.

    A data folder that also holds somebody else's files is left as it is, and that is said too.
    """
    reports = project / ".skillopt-sleep"
    try:
        if _is_open(reports):
            yield _close(reports)
        if not data_dir.is_dir() or data_dir.is_symlink():
            return
        shared = [path.name for path in data_dir.iterdir() if not _is_own(path)]
        if _is_open(data_dir):
            yield _close(data_dir) if not shared else _describe_shared(data_dir, shared, "others can read it")
        if any((parent / ".git").exists() for parent in (data_dir, *data_dir.parents)):
            if shared:
                yield _describe_shared(data_dir, shared, "git can see it")
            elif hide_from_git(data_dir):
                yield f"{data_dir} lies in a git project: it is hidden from git now"
    except (OSError, SleepError) as error:
        yield f"our folders could not be made private: {error}"


def _is_own(path: Path) -> bool:
    return OWN_FILE.fullmatch(path.name) is not None or path.name in OWN_NAMES


def _is_open(folder: Path) -> bool:
    """Tell whether a folder of this user's is open to others; a link is never followed, and /tmp is meant to be."""
    if sys.platform == "win32" or not os.path.lexists(folder):
        return False
    status = folder.lstat()
    is_plain = stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_ISVTX
    return is_plain and status.st_uid == os.geteuid() and bool(status.st_mode & OPEN)


def _close(folder: Path) -> str:
    mode = stat.S_IMODE(folder.lstat().st_mode)
    try:
        folder.chmod(0o700)
    except OSError as error:
        raise DiskError(f"{folder} is open to others (mode {mode:04o}): {error.strerror}") from error
    return f"{folder} was open to others (mode {mode:04o}): it is private now (0700)"


def _describe_shared(folder: Path, names: list[str], problem: str) -> str:
    return (
        f"{folder} holds our data and other files ({min(names)!r}), and {problem}: use a folder of its own as"
        " --data-dir"
    )
