"""A damaged database: what can still be read of it goes into a new one, and the old one is kept beside it.

A copy is made after every night, so that what a damaged file has lost of the past can come from there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from skillopt_sleep.errors import DiskError
from skillopt_sleep.stores.database import Database

__all__ = ["BACKUP", "Salvaged", "keep_copy", "salvage"]

BACKUP = "sleep.db.copy"
"""The database as the last night left it."""

PAST = ("adoptions", "adopted_how", "proposals", "nights", "tried_edits", "tasks", "sessions", "turns")
"""Tables that are taken from the copy too where the damaged file lacks their rows; the others tell of the present."""


class Salvaged(Struct, frozen=True, kw_only=True):
    """What a repair came to: rows saved by table, tables that gave not all, and where the damaged file lies now."""

    path: str
    damaged: str
    rows: dict[str, int]
    incomplete: tuple[str, ...] = ()
    from_copy: int = 0


def keep_copy(database: Database) -> None:
    """Put a copy of the database beside it, whole or not at all. Raises ``DiskError``."""
    target = database.path.with_name(BACKUP)
    temporary = target.with_name(f".{BACKUP}.skillopt-new")
    try:
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(sqlite3.connect(temporary)) as copy:
            database.copy_into(copy)
        temporary.replace(target)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            temporary.unlink()
        raise DiskError(f"cannot keep a copy of the database at {target}: {error}") from error


def salvage(path: Path, *, extra_schema: str, now: datetime) -> Salvaged | None:
    """Mend a damaged database; None when it is whole, or not there.

    The damaged file is only moved aside once the new one is complete. Raises ``DiskError``.
    """
    if not path.exists() or _whole(path):
        return None
    fresh = path.with_name(f".{path.name}.skillopt-new")
    for leftover in (fresh, *(fresh.with_name(fresh.name + end) for end in ("-wal", "-shm"))):
        leftover.unlink(missing_ok=True)
    database = Database(fresh, extra_schema=extra_schema)
    try:
        rows, incomplete = _pour(path, database, tables=None)
        copy = path.with_name(BACKUP)
        from_copy = sum(_pour(copy, database, tables=PAST)[0].values()) if copy.exists() else 0
    finally:
        database.close()
    aside = path.with_name(f"{path.name}.damaged-{now:%Y%m%d-%H%M%S}")
    try:
        for end in ("", "-wal", "-shm"):
            part = path.with_name(path.name + end)
            if part.exists():
                part.replace(aside.with_name(aside.name + end))
        fresh.replace(path)
    except OSError as error:
        raise DiskError(f"cannot put the mended database at {path}: {error.strerror}; it is {fresh}") from error
    return Salvaged(path=str(path), damaged=str(aside), rows=rows, incomplete=incomplete, from_copy=from_copy)


def _whole(path: Path) -> bool:
    try:
        with _reading(path) as connection:
            return connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
    except sqlite3.DatabaseError:
        return False


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        yield connection


def _pour(source: Path, into: Database, tables: tuple[str, ...] | None) -> tuple[dict[str, int], tuple[str, ...]]:
    """Copy every row that can be read and is not there yet; rows by table, and the tables that broke off."""
    counts: dict[str, int] = {}
    broken: list[str] = []
    names = [row["name"] for row in into.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for name in names if tables is None else [each for each in names if each in tables]:
        rows, whole = _rows(source, f"SELECT * FROM {name}")  # noqa: S608  our own schema's names
        if not whole:
            broken.append(name)
            rows += _rows(source, f"SELECT * FROM {name} ORDER BY rowid DESC")[0] if name in PAST else []  # noqa: S608
        with into.transaction() as connection:
            counts[name] = sum(_put(connection, name, row) for row in rows)
    return counts, tuple(broken)


def _rows(source: Path, query: str) -> tuple[list[tuple[object, ...]], bool]:
    """As many rows as can be read before the first damaged page, and whether these are all."""
    rows: list[tuple[object, ...]] = []
    try:
        with _reading(source) as connection:
            for row in connection.execute(query):
                rows.append(row)  # noqa: PERF402  those before an error count
    except sqlite3.DatabaseError:
        return rows, False
    return rows, True


def _put(connection: sqlite3.Connection, name: str, row: tuple[object, ...]) -> int:
    marks = ", ".join("?" * len(row))
    return connection.execute(f"INSERT OR IGNORE INTO {name} VALUES ({marks})", row).rowcount  # noqa: S608
