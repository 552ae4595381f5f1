"""A damaged database: what can still be read of it goes into a new one, and the old one is kept beside it.

A copy is made after every night, so that what a damaged file has lost of the past can come from there.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import DiskError
from skillopt_sleep.stores.database import Database

__all__ = ["BACKUP", "Salvaged", "keep_copy", "salvage"]

BACKUP = "sleep.db.copy"
"""The database as the last night left it."""

PAST = ("adoptions", "adopted_how", "proposals", "nights", "tried_edits", "tried_lives", "tasks", "sessions", "turns")
"""Tables that are taken from the copy too where the damaged file lacks their rows; the others tell of the present."""


CONTENT = (
    *(("nights", "report"), ("stages", "outcome"), ("tasks", "data"), ("sessions", "data"), ("replies", "reply")),
    *(("pending_edits", "data"), ("rejected_edits", "data"), ("proposals", "manifest"), ("adoptions", "edits")),
)
"""Where a table keeps JSON."""


class Salvaged(Struct, frozen=True, kw_only=True):
    """What a repair came to: rows saved by table, tables that gave not all, and where the damaged file lies now.

    ``mended`` counts entries taken out of a file that is whole but for them; then nothing else was done.
    """

    path: str
    damaged: str
    rows: dict[str, int]
    incomplete: tuple[str, ...] = ()
    from_copy: int = 0
    mended: int = 0


def keep_copy(database: Database) -> None:
    """Put a copy of the database beside it, whole or not at all. Raises ``DiskError``."""
    target = database.path.with_name(BACKUP)
    temporary = target.with_name(f".{BACKUP}.skillopt-new")
    try:
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(sqlite3.connect(temporary)) as copy:
            database.copy_into(copy)
            if copy.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
                raise DiskError(f"{database.path} is damaged; the copy before is kept; skillopt-sleep doctor --repair")
        temporary.replace(target)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            temporary.unlink()
        raise DiskError(f"cannot keep a copy of the database at {target}: {error}") from error


def salvage(path: Path, *, extra_schema: str, now: datetime) -> Salvaged | None:
    """Mend a damaged database; None when it is whole, or there never was one.

    The new one takes the place of the damaged file in one step, and the damaged file stays beside it. Raises
    ``DiskError``.
    """
    copy = path.with_name(BACKUP)
    if not path.exists() and not copy.exists():
        return None
    if path.exists() and _whole(path):
        mended = _take_out_damaged(path, extra_schema)
        return Salvaged(path=str(path), damaged="", rows={}, mended=mended) if mended else None
    fresh = path.with_name(f".{path.name}.skillopt-new")
    for leftover in _parts(fresh):
        leftover.unlink(missing_ok=True)
    database = Database(fresh, extra_schema=extra_schema)
    try:
        rows, incomplete = _pour(path, database, tables=None) if path.exists() else ({}, ())
        from_copy = sum(_pour(copy, database, tables=PAST)[0].values()) if copy.exists() else 0
        database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        database.close()
    aside = path.with_name(f"{path.name}.damaged-{now:%Y%m%d-%H%M%S}")
    try:
        for part in _parts(path)[1:]:  # a log would be played into the new file
            if part.exists():
                part.replace(aside.with_name(aside.name + part.name.removeprefix(path.name)))
        if path.exists():
            shutil.copy2(path, aside)
        fresh.replace(path)
    except OSError as error:
        raise DiskError(f"cannot put the mended database at {path}: {error.strerror}; it is {fresh}") from error
    _take_out_damaged(path, extra_schema)
    return Salvaged(path=str(path), damaged=str(aside), rows=rows, incomplete=incomplete, from_copy=from_copy)


def _parts(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]


def _take_out_damaged(path: Path, extra_schema: str) -> int:
    """Take out entries whose content is no JSON any more; how many. What sessions told is harvested again."""
    database = Database(path, extra_schema=extra_schema)
    count = 0
    try:
        for table, column in CONTENT:
            query = f"SELECT rowid AS id, {column} AS content FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608
            for row in database.rows(query):
                try:
                    msgspec.json.decode(row["content"])
                except (msgspec.DecodeError, UnicodeDecodeError):
                    count += 1
                    with database.transaction() as connection:
                        if table == "nights":  # the night itself was held, whatever became of its report
                            connection.execute("UPDATE nights SET report = NULL WHERE rowid = ?", (row["id"],))
                            continue
                        connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row["id"],))  # noqa: S608
                        if table == "sessions":
                            connection.execute("DELETE FROM files")
    finally:
        database.close()
    return count


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
