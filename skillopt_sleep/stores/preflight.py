"""Whether a night could keep what it is going to pay for: looked at before the first call is sent."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path

from skillopt_sleep.errors import DiskError
from skillopt_sleep.stores.contents import what_is_wrong
from skillopt_sleep.stores.database import Database
from skillopt_sleep.stores.files import missing_folders

__all__ = ["NEEDS", "check_disk", "disk_problems"]

NEEDS = 16 * 2**20
"""Bytes that must be free where data is kept, several times what a night of some hundred calls writes."""


def check_disk(database: Database, project: Path) -> None:
    """Prove that data and project can be written to, and that the database is whole.

    Raises ``DiskError`` naming the folder or file, what is wrong, and what helps.
    """
    _take_room(database.path.parent, NEEDS)
    _take_room(project, NEEDS // 4)
    said = " ".join(str(row[0]) for row in database.rows("PRAGMA quick_check(1)"))
    what = " ".join(said.split()) if said != "ok" else what_is_wrong(database)
    if what:
        raise DiskError(f"{database.path} is damaged ({what}); nothing was spent; try: skillopt-sleep doctor --repair")


def disk_problems(data_dir: Path, project: Path) -> tuple[str, ...]:
    """What stands in the way of a night on disk, as far as it can be told without writing; a line each."""
    found = []
    for folder, size in ((data_dir, NEEDS), (project, NEEDS // 4)):
        there = folder if folder.exists() else folder.parents[missing_folders(folder)]
        if not os.access(there, os.W_OK | os.X_OK):
            found.append(f"{folder} cannot be written to; make it writable")
        elif shutil.disk_usage(there).free < size:
            found.append(f"less than {size / 2**20:.0f} MB are free at {folder}; make room")
    return tuple(found)


def _take_room(folder: Path, size: int) -> None:
    """Take that much of the disk for a moment: what ``df`` says is free may belong to root, or to a quota."""
    there = folder if folder.exists() else folder.parents[missing_folders(folder)]
    try:
        with tempfile.TemporaryFile(dir=there) as file:  # without a name where the system can, so a kill leaves nothing
            _allocate(file.fileno(), size)
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        what = f"less than {size / 2**20:.0f} MB are free" if full else os.strerror(error.errno or 0)
        cure = "make room" if full else "make it writable"
        raise DiskError(f"cannot write to {folder}: {what}; nothing was spent: {cure} and run again") from error


def _allocate(handle: int, size: int) -> None:
    with contextlib.suppress(AttributeError):  # macOS and Windows have no such call
        try:
            os.posix_fallocate(handle, 0, size)
        except OSError as error:
            if error.errno not in {errno.EOPNOTSUPP, errno.EINVAL}:
                raise
        else:
            return
    zeros = bytes(2**20)
    for _ in range(size // len(zeros)):
        os.write(handle, zeros)
