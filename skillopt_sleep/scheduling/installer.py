"""The interface of all installers, one for each scheduler of an operating system, and their common functions.

An installer makes the system run ``skillopt-sleep daemon --once`` every day, and can remove that without a trace. Its
files are written all together or not at all; files that this program did not write are never touched.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import time, timedelta
from pathlib import Path
from typing import Protocol

from skillopt_sleep.errors import Refused, UsageError
from skillopt_sleep.storage.files import (
    count_missing_folders,
    make_folders,
    read_mode,
    read_regular,
    remove,
    write_atomic,
)

TIMEOUT = 30.0
"""Seconds to wait for an answer of a program of the system."""
SKIPPED_HOURS = {22: 1, 23: 1, 0: 1, 1: 2, 2: 1, 3: 1}
"""Hours of the day that some time zone skips when clocks go forward, each with the hours until the gap is over.

America/Nuuk skips the last hour of a day; Antarctica/Troll skips two hours, from one o'clock on."""


def name_schedule(data_dir: Path) -> str:
    """Return the name under which the schedule of a data folder is installed, different for each folder."""
    folder = str(data_dir.resolve()).encode("utf-8", "surrogateescape")
    return f"skillopt-sleep-{hashlib.sha256(folder).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waking:
    """The command that the system is asked to run every day, with its time and environment.

    Raises ``UsageError`` for an argument or variable that no scheduler's file can contain: control characters, not
    UTF-8.
    """

    name: str
    """Name of the schedule. Everything installed contains this name, and files without it are never touched."""
    at: time
    jitter: timedelta
    """Maximum delay of the start."""
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """Variables added to the environment of the command."""
    home: Path
    config: Path
    """The user's configuration folder (``XDG_CONFIG_HOME``)."""
    data_dir: Path
    """The folder in which a user's crontab is saved when it cannot be restored."""
    env: Mapping[str, str]
    """Environment in which the programs of the system, such as ``crontab``, are run."""
    keys: tuple[str, ...] = ()
    """Names of secret variables that the schedule leaves out, so that only the scheduler can provide them."""

    def __post_init__(self) -> None:
        for value in (*self.argv, *self.environment.values()):
            if any(character < " " or character == "\x7f" for character in value):
                raise UsageError(f"{value!a} cannot be written into a schedule: it holds a control character")
            if value.encode("utf-8", "replace").decode() != value:
                raise UsageError(f"{value!a} cannot be written into a schedule: it is not UTF-8")

    @property
    def mark(self) -> str:
        """The comment that marks a file as written by this program."""
        return f"{self.name} (written by `skillopt-sleep schedule`, removed by `skillopt-sleep unschedule`)"

    @property
    def times(self) -> tuple[time, ...]:
        """The times of day at which to start: the wanted one, and a later one if some spring day may skip it.

        Starting once too often does no harm: a due whose night is over is not run again.
        """
        later = SKIPPED_HOURS.get(self.at.hour)
        return (self.at,) if later is None else (self.at, self.at.replace(hour=(self.at.hour + later) % 24))


class Installer(Protocol):
    """Installs a schedule with one scheduler of the operating system."""

    @property
    def waking(self) -> Waking:
        """The command that the system is asked to run, with its time and environment."""

    def render(self) -> Mapping[str, str]:
        """Return the texts that would be written, by the name of the file or table."""

    def find_obstacle(self) -> str:
        """Return why this scheduler cannot be used here, or "" when it can. Changes nothing."""

    def install(self) -> Mapping[str, int]:
        """Install everything or nothing; return the number of folders that were made for each file.

        Raises ``Refused`` for a file that is not ours, ``UsageError`` when the scheduler fails, and ``DiskError``.
        """

    def remove(self, folders: Mapping[str, int]) -> bool:
        """Remove our files and the folders made for them; return whether there were any. Raises like ``install``."""

    def check(self) -> str:
        """Return what is wrong with the installation, or "" when nothing is. Changes nothing, raises nothing."""

    def read_environment(self) -> Mapping[str, str]:
        """Return the variables that the scheduler gives to programs it starts. Changes nothing, raises nothing."""


def run_program(
    argv: Sequence[str], env: Mapping[str, str], *, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a program of the system, in English. Raises ``UsageError`` when it is missing or takes too long."""
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
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{argv[0]} cannot be used: {error}") from error


def read_variables(argv: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the ``NAME=value`` lines that a program of the system prints, or none when it fails."""
    try:
        done = run_program(argv, env)
    except UsageError:
        return {}
    lines = done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else []
    found = (re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*(.*)", line) for line in lines)
    return {match[1]: match[2].strip("\"'") for match in found if match}


def read_errors(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the stderr of a program on one line, or its exit status when stderr is empty."""
    return " ".join(done.stderr.decode("utf-8", "replace").split()) or f"status {done.returncode}"


def is_ours(path: Path, name: str) -> bool:
    """Tell whether a file exists and was written by this program.

    Raises ``Refused`` for a file that somebody else wrote, and ``DiskError``.
    """
    found = read_regular(path)
    if found is None:
        return False
    if name.encode() not in found:
        raise Refused(f"{path} is there already and was not written by this schedule; move it away first")
    return True


def install_files(files: Mapping[Path, bytes], name: str, activate: Callable[[], None]) -> Mapping[str, int]:
    """Write files, then call ``activate``; on any error, restore all files and raise the error.

    Returns the number of folders that were made for each file, which ``remove_files`` needs.
    """
    before = {path: read_regular(path) if is_ours(path, name) else None for path in files}
    made = {str(path): count_missing_folders(path) for path in files}
    try:
        for path, data in files.items():
            make_folders(path.parent, within=path.parent)
            write_atomic(path, data, read_mode(path) or 0o644)
        activate()
    except BaseException:  # Ctrl-C too
        for path, data_before in before.items():
            if data_before is None:
                remove(path, folders=made[str(path)])
            else:
                write_atomic(path, data_before, 0o644)
        raise
    return made


def remove_files(paths: tuple[Path, ...], name: str, folders: Mapping[str, int]) -> bool:
    """Remove those of ``paths`` that are ours, with the folders made for them; return whether there were any."""
    found = [path for path in paths if is_ours(path, name)]
    for path in found:
        remove(path, folders=folders.get(str(path), 0))
    return bool(found)
