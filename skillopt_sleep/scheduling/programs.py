"""The environment of a scheduled night, and the agents' programs in it, found again when they have moved.

Version managers keep a program in a folder that is named after a version, so an upgrade takes it away from the PATH
that was recorded when the nights were scheduled.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from skillopt_sleep.scheduling.due import Schedule

SCHEDULED = "SKILLOPT_SCHEDULED"
"""The variable that tells a night that the schedule started it."""
VERSION = re.compile(r"v?\d+(\.\d+)*([-+].*)?")
"""The name of a folder that holds one version of a program."""
USUAL_FOLDERS = (
    ".local/bin",
    ".claude/local",
    ".npm-global/bin",
    ".volta/bin",
    ".bun/bin",
    ".local/share/mise/shims",
    ".asdf/shims",
    ".nvm/versions/node/*/bin",
    "bin",
)
"""Folders of the user's home in which installers put programs."""
SYSTEM_FOLDERS = ("/usr/local/bin", "/opt/homebrew/bin", "/usr/bin")


def record_programs(commands: Iterable[str], path: str) -> dict[str, str]:
    """Return each command that is found on a PATH, with the path it has there."""
    found = {command: shutil.which(command, path=path) for command in commands}
    return {command: str(Path(place).absolute()) for command, place in found.items() if place}


def build_environment(schedule: Schedule, env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the environment of a night whose scheduler gives it ``env``, and a note on each program that has moved.

    The folders of programs that were found again come first in its PATH.
    """
    given = {**env, **schedule.environment, SCHEDULED: "1"}
    notes = []
    for command, recorded in schedule.programs.items():
        if shutil.which(command, path=given.get("PATH", "")) is None and (
            found := find_moved(command, recorded, given)
        ):
            given["PATH"] = os.pathsep.join(filter(None, (str(Path(found).parent), given.get("PATH", ""))))
            notes.append(f"{command} is no longer {recorded}, and was found again: {found}")
    return given, tuple(notes)


def find_moved(command: str, recorded: str, env: Mapping[str, str]) -> str:
    """Return where a program is now, "" when it is nowhere.

    Other versions of its own folder come first, the newest of them, then the folders in which installers put programs.
    Only a program of this user or of root counts, since a night will run it.
    """
    siblings = sorted(_list_siblings(Path(recorded)), key=lambda path: path.lstat().st_mtime, reverse=True)
    home = Path(env.get("HOME") or Path.home())
    usual = (path for folder in USUAL_FOLDERS for path in sorted(home.glob(f"{folder}/{command}"), reverse=True))
    system = (Path(folder) / command for folder in SYSTEM_FOLDERS)
    return next((str(path) for path in (*siblings, *usual, *system) if _is_own_program(path)), "")


def _list_siblings(recorded: Path) -> Iterator[Path]:
    """Yield the files that differ from a path in one part, a folder named after a version."""
    for place, part in enumerate(recorded.parts[:-1]):
        if VERSION.fullmatch(part):
            yield from Path(*recorded.parts[:place]).glob(f"*/{Path(*recorded.parts[place + 1 :])}")


def _is_own_program(path: Path) -> bool:
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    mine = os.getuid() if hasattr(os, "getuid") else owner
    return path.is_file() and os.access(path, os.X_OK) and owner in {0, mine}
