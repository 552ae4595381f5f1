"""What the system is to do every night, in the words all of its schedulers share.

Files of ours among the system's: put in place together or not at all, and taken away without a trace.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import time, timedelta
from pathlib import Path
from typing import Protocol

from skillopt_sleep.errors import Refused, UsageError
from skillopt_sleep.storage.files import make_folders, missing_folders, mode_of, read_regular, remove, write_atomic

PATIENCE = 30.0
"""Seconds a system's scheduler may take to answer."""
SKIPPED = {22: 1, 23: 1, 0: 1, 1: 2, 2: 1, 3: 1}
"""Hours of the day that some zone skips where clocks are put forward, and after how many hours that is over.

America/Nuuk skips the last one of a day; Antarctica/Troll skips two, from one o'clock on.
"""


def name_of(data_dir: Path) -> str:
    """What the schedule of a data folder is called, however its path is spelled; no other folder has that name."""
    folder = str(data_dir.resolve()).encode("utf-8", "surrogateescape")
    return f"skillopt-sleep-{hashlib.sha256(folder).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waking:
    """Run ``argv`` every day at ``at``, up to ``jitter`` later, with ``environment`` added to what there is.

    ``data_dir`` is where something of the user's can be kept when it cannot be put back where it was.
    ``name`` is the schedule's own: whatever is installed carries it, and nothing without it is touched. ``home`` and
    ``config`` are the user's folders, ``env`` what the system's own programs are run with. Raises ``UsageError`` for
    a path with a control character, which no scheduler's file can hold.
    """

    name: str
    at: time
    jitter: timedelta
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    home: Path
    config: Path
    data_dir: Path
    env: Mapping[str, str]

    def __post_init__(self) -> None:
        for value in (*self.argv, *self.environment.values()):
            if any(character < " " or character == "\x7f" for character in value):
                raise UsageError(f"{value!a} cannot be written into a schedule: it holds a control character")
            if value.encode("utf-8", "replace").decode() != value:
                raise UsageError(f"{value!a} cannot be written into a schedule: it is not UTF-8")

    @property
    def mark(self) -> str:
        """What tells our own files and lines from all others."""
        return f"{self.name} (written by `skillopt-sleep schedule`, taken away by `skillopt-sleep unschedule`)"

    @property
    def times(self) -> tuple[time, ...]:
        """When to wake: at the time itself, and later where a day may lack it because clocks are put forward.

        Waking once too often does no harm: a due that has had its night is left alone.
        """
        later = SKIPPED.get(self.at.hour)
        return (self.at,) if later is None else (self.at, self.at.replace(hour=(self.at.hour + later) % 24))


class Installer(Protocol):
    """One of the system's schedulers. ``waking`` is what it is to do."""

    @property
    def waking(self) -> Waking:
        """What is asked of it."""

    def shown(self) -> Mapping[str, str]:
        """What would be written, by file or table."""

    def works(self) -> str:
        """Why it cannot be used here, "" when it can. Changes nothing."""

    def install(self) -> Mapping[str, int]:
        """Put everything in place, or nothing; how many folders were made for each file.

        Raises ``Refused`` for what is there and not ours, ``UsageError`` where the system's scheduler fails, and
        ``DiskError``.
        """

    def remove(self, folders: Mapping[str, int]) -> bool:
        """Take away what is ours, and the folders made for it; whether there was anything. Raises as ``install``."""

    def check(self) -> str:
        """What is wrong with what was installed, "" when nothing is. Changes nothing, raises nothing."""


def call(argv: Sequence[str], env: Mapping[str, str], *, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run one of the system's own programs, in English. Raises ``UsageError`` when it cannot be run at all."""
    import shutil  # noqa: PLC0415  only installing needs it

    command = shutil.which(argv[0], path=env.get("PATH"))
    if command is None:
        raise UsageError(f"{argv[0]} is not on this machine, or not on PATH")
    try:
        return subprocess.run(
            [command, *argv[1:]],
            env={**env, "LC_ALL": "C"},
            input=given,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{argv[0]} cannot be used: {error}") from error


def ours(path: Path, name: str) -> bool:
    """Whether there is a file and we wrote it. Raises ``Refused`` for one that somebody else did, and ``DiskError``."""
    found = read_regular(path)
    if found is None:
        return False
    if name.encode() not in found:
        raise Refused(f"{path} is there already and was not written by this schedule; move it away first")
    return True


def place(files: Mapping[Path, bytes], name: str, activate: Callable[[], None]) -> Mapping[str, int]:
    """Write files, then ``activate`` them; when any of it fails everything is as it was, and the error is raised.

    How many folders were made for each file is returned, for ``take_away``.
    """
    before = {path: read_regular(path) if ours(path, name) else None for path in files}
    made = {str(path): missing_folders(path) for path in files}
    try:
        for path, data in files.items():
            make_folders(path.parent, within=path.parent)
            write_atomic(path, data, mode_of(path) or 0o644)
        activate()
    except BaseException:  # also when Ctrl-C comes in between
        for path, data_before in before.items():
            if data_before is None:
                remove(path, folders=made[str(path)])
            else:
                write_atomic(path, data_before, 0o644)
        raise
    return made


def take_away(paths: tuple[Path, ...], name: str, folders: Mapping[str, int]) -> bool:
    """Remove those files that are ours, with the folders that were made for them; whether there were any."""
    found = [path for path in paths if ours(path, name)]
    for path in found:
        remove(path, folders=folders.get(str(path), 0))
    return bool(found)
