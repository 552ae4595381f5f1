"""Old nights make room: their replies and files go by age and by size; what was learnt from them stays.

Never touched: the archive of sessions and tasks, the reports, what is live, and a proposal that waits.

Whether a night could keep what it is going to pay for: looked at before the first call is sent.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from skillopt_sleep.errors import DiskError, SleepError
from skillopt_sleep.storage.database import Database
from skillopt_sleep.storage.files import count_missing_folders, refuse_links
from skillopt_sleep.storage.repair import what_is_wrong

NEWEST = 3
"""Nights of a project that stay whatever their age and size: the last ones are looked at."""


class Pruned(Struct, frozen=True, kw_only=True):
    """The nights whose replies and files went, the bytes of those files, and why others had to stay."""

    nights: tuple[str, ...] = ()
    size: int = 0
    skipped: tuple[str, ...] = ()


def prune(
    database: Database, project: Path, *, now: datetime, days: int, size: int, waiting: frozenset[str] = frozenset()
) -> Pruned:
    """Take away what nights older than ``days`` left, and the oldest beyond ``size`` bytes of files in the project.

    A night that is not finished, is adopted, counts for the caps of this day, or is among those ``waiting`` to be
    adopted is kept whole; so is one whose folder is a link, or cannot be removed. Raises ``DiskError``.
    """
    rows = database.rows(
        "SELECT id, started_at FROM nights WHERE project = ? AND state = 'finished' ORDER BY started_at DESC",
        (str(project),),
    )
    needed = waiting | {
        row["night"]
        for row in database.rows(
            "SELECT night FROM adoptions WHERE reverted_at IS NULL UNION"
            " SELECT night FROM days WHERE day = (SELECT MAX(day) FROM days)"
        )
    }
    oldest = (now - timedelta(days=days)).isoformat()
    total, gone, freed, skipped = 0, [], 0, []
    for number, row in enumerate(rows):
        folder = project / ".skillopt-sleep" / "nights" / row["id"]
        own = _size(folder)
        total += own
        if number < NEWEST or row["id"] in needed or (row["started_at"] >= oldest and total <= size):
            continue
        if own or _has_replies(database, row["id"]):
            try:
                refuse_links(folder, within=project)
                _remove(folder)
            except SleepError as error:
                skipped.append(str(error))
                continue
            forget_replies(database, row["id"])
            gone.append(row["id"])
            freed += own
            total -= own
    with database.transaction() as connection:  # trials of the audit are no nights, and leave no report
        day = f"{now - timedelta(days=days):%Y%m%d}"
        connection.execute("DELETE FROM replies WHERE night LIKE 'audit-%' AND night < ?", (f"audit-{day}",))
    return Pruned(nights=tuple(gone), size=freed, skipped=tuple(skipped))


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DiskError(f"cannot remove the old night {folder}: {error.strerror}") from error


def _size(folder: Path) -> int:
    """Bytes of the files in a folder; of a link, none."""
    if folder.is_symlink():
        return 0
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _has_replies(database: Database, night: str) -> bool:
    return bool(database.rows("SELECT 1 FROM replies WHERE night = ? LIMIT 1", (night,)))


def forget_replies(database: Database, night: str) -> None:
    """Drop what a night was answered, and the stages made of it; its report stays."""
    with database.transaction() as connection:
        for table in ("replies", "stages", "calls"):
            connection.execute(f"DELETE FROM {table} WHERE night = ?", (night,))  # noqa: S608  our own names


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
        there = folder if folder.exists() else folder.parents[count_missing_folders(folder)]
        if not os.access(there, os.W_OK | os.X_OK):
            found.append(f"{folder} cannot be written to; make it writable")
        elif shutil.disk_usage(there).free < size:
            found.append(f"less than {size / 2**20:.0f} MB are free at {folder}; make room")
    return tuple(found)


def _take_room(folder: Path, size: int) -> None:
    """Take that much of the disk for a moment: what ``df`` says is free may belong to root, or to a quota."""
    there = folder if folder.exists() else folder.parents[count_missing_folders(folder)]
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
