"""Old nights make room: their replies and files go by age and by size; what was learnt from them stays.

Never touched: the archive of sessions and tasks, the reports, what is live, and a proposal that waits.
"""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from skillopt_sleep.errors import DiskError, SleepError
from skillopt_sleep.stores.database import Database
from skillopt_sleep.stores.files import refuse_links

__all__ = ["Pruned", "forget_replies", "prune"]

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
