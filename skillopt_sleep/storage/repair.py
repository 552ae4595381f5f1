"""A damaged database: what can still be read of it goes into a new one, and the old one is kept beside it.

A copy is made after every night, so that what a damaged file has lost of the past can come from there.

What the entries of the database are, and which of them are not: one check for whoever asks whether it is whole.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import DiskError
from skillopt_sleep.gate.pending import ClosedEdit, PendingEdit
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.model.rollout import Trajectory
from skillopt_sleep.model.session import Session
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.night.report import NightReport, NightState, SealedTest
from skillopt_sleep.storage.atomic_replace import Swap
from skillopt_sleep.storage.database import Database
from skillopt_sleep.storage.files import write_atomic
from skillopt_sleep.storage.live_files import AdoptedEdit
from skillopt_sleep.storage.staging import Manifest, ProposalStatus

Reader = Callable[[object], object]


def _json(kind: object) -> Reader:
    return partial(msgspec.json.decode, type=kind)


def _value(kind: object) -> Reader:
    return partial(msgspec.convert, type=kind)


CONTENT: tuple[tuple[str, str, Reader], ...] = (
    ("adoptions", "edits", _json(list[AdoptedEdit])),
    ("adoptions", "kind", _value(DocumentKind)),
    ("proposals", "manifest", _json(Manifest)),
    ("proposals", "status", _value(ProposalStatus)),
    ("swaps", "swap", partial(msgspec.msgpack.decode, type=Swap)),
    ("nights", "report", _json(NightReport)),
    ("nights", "state", _value(NightState)),
    ("stages", "outcome", _json(object)),  # its stage knows its type, and is gone through again when it is another
    ("tasks", "data", _json(TaskRecord)),
    ("sessions", "data", _json(Session)),
    ("replies", "reply", _json(Trajectory)),
    ("pending_edits", "data", _json(PendingEdit)),
    ("rejected_edits", "data", _json(AppliedEdit)),
    ("closed_edits", "data", _json(ClosedEdit)),
    ("sealed_tests", "outcome", _json(SealedTest)),
    ("tried_lives", "verdict", _value(Verdict)),
    ("tried_edits", "verdict", _value(Verdict)),
    ("attempts", "started_at", _value(datetime)),
    ("attempts", "ended_at", _value(datetime)),
)
"""Where a table keeps what must be read as something, and how it is read; NULL is nothing, where it is allowed."""


class DamagedEntry(Struct, frozen=True, kw_only=True):
    """A row with a column that cannot be read; ``row`` is all of it, ``key`` what names it."""

    table: str
    column: str
    key: dict[str, object]
    row: dict[str, object]
    why: str

    @property
    def where(self) -> str:
        """The condition that finds it by its key."""
        return " AND ".join(f"{name} IS ?" for name in self.key)


def what_is_wrong(database: Database) -> str:
    """The first thing that a repair would mend in a file whose pages are whole, "" when there is none."""
    if missing := missing_tables(database):
        return f"table {missing[0]} is missing"
    first = next(damaged_entries(database), None)
    return f"an entry of {first.table}: {first.why}" if first else ""


def missing_tables(database: Database) -> tuple[str, ...]:
    """Tables of the schema it was opened with that are not there."""
    there = {row["name"] for row in database.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return tuple(name for name in database.tables if name not in there)


def damaged_entries(database: Database) -> Iterator[DamagedEntry]:
    """Every entry that is not what its column holds, each row once. Tables that are missing have none."""
    missing, seen = missing_tables(database), set()
    for table, column, read in CONTENT:
        if table in missing or table not in database.tables:
            continue
        key = _key_of(database, table)
        for row in database.iterate(f"SELECT * FROM {table} WHERE {column} IS NOT NULL"):  # noqa: S608  our own names
            why = _unreadable(read, row[column])
            name = (table, *(row[each] for each in key))
            if why and name not in seen:
                seen.add(name)
                yield _entry(table, column, key, row, why)


def _entry(table: str, column: str, key: tuple[str, ...], row: sqlite3.Row, why: str) -> DamagedEntry:
    names = {name: row[name] for name in key}
    return DamagedEntry(table=table, column=column, key=names, row=dict(row), why=why)


def _unreadable(read: Reader, content: object) -> str:
    try:
        read(content)
    except (ValueError, TypeError) as error:  # msgspec's errors and those of an encoding are ValueErrors
        return str(error) or type(error).__name__
    return ""


def unreadable_columns(table: str, row: Mapping[str, object]) -> tuple[str, ...]:
    """The columns of a row that are not what they should hold."""
    return tuple(
        column
        for name, column, read in CONTENT
        if name == table and row[column] is not None and _unreadable(read, row[column])
    )


def _key_of(database: Database, table: str) -> tuple[str, ...]:
    return tuple(row["name"] for row in database.rows(f"PRAGMA table_info({table})") if row["pk"])


BACKUP = "sleep.db.copy"
"""The database as the last night left it."""

PAST = ("adoptions", "adopted_how", "proposals", "nights", "tried_edits", "tried_lives", "tasks", "sessions", "turns")
"""Tables that are taken from the copy too where the damaged file lacks their rows; the others tell of the present."""

SAME = {"adoptions": ("night", "project", "path"), "proposals": ("project",)}
"""What a row of the copy must agree in, beside its key, to be the same entry: numbers are given out again."""


class Salvaged(Struct, frozen=True, kw_only=True):
    """What a repair came to: rows saved by table, tables that gave not all, and where the damaged file lies now.

    A file that is whole but for some entries stays: then ``damaged`` is "". ``mended`` counts entries that could not be
    read; those that the copy had whole came ``from_copy``, the others are kept in the file ``aside``, "" when there are
    none. ``remade`` are tables that were missing.
    """

    path: str
    damaged: str = ""
    rows: dict[str, int] = {}
    incomplete: tuple[str, ...] = ()
    from_copy: int = 0
    mended: int = 0
    aside: str = ""
    remade: tuple[str, ...] = ()


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
    gone = not _has_tables(path)
    if gone and not copy.exists() and (not path.exists() or _whole(path)):
        return None
    if not gone and _whole(path):
        found = _mend(path, extra_schema, now)
        return found if found.mended or found.remade else None
    fresh = path.with_name(f".{path.name}.skillopt-new")
    for leftover in _parts(fresh):
        leftover.unlink(missing_ok=True)
    database = Database(fresh, extra_schema=extra_schema)
    try:
        rows, incomplete = _pour(path, database, tables=None) if path.exists() else ({}, ())
        wanted = PAST if any(rows.values()) else tuple(each for each in database.tables if each != "swaps")
        from_copy = sum(_pour(copy, database, tables=wanted)[0].values()) if copy.exists() else 0
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
    found = _mend(path, extra_schema, now)
    return replace(found, damaged=str(aside), rows=rows, incomplete=incomplete, from_copy=from_copy + found.from_copy)


def _parts(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]


def _mend(path: Path, extra_schema: str, now: datetime) -> Salvaged:
    """Make the tables that are missing, and put entries that cannot be read right.

    Each comes from the copy where that has it whole. Of the others, what is left is kept in a file before they go.
    """
    copy = path.with_name(BACKUP)
    with closing(Database(path, extra_schema=extra_schema)) as database:
        remade, poured = missing_tables(database), 0
        if remade:
            database.make_tables()
            wanted = tuple(each for each in remade if each in PAST)
            poured = sum(_pour(copy, database, tables=wanted)[0].values()) if copy.exists() else 0
        damaged = list(damaged_entries(database))
        lost = [each for each in damaged if not _from_copy(database, copy, each)]
        aside = _put_aside(path.with_name(f"damaged-entries-{now:%Y%m%d-%H%M%S}.jsonl"), lost)
        for entry in lost:
            _take_out(database, entry)
        if "sessions" in {*remade, *(each.table for each in damaged)}:
            with database.transaction() as connection:
                connection.execute("DELETE FROM files")  # what sessions told is read again
    saved = poured + len(damaged) - len(lost)
    return Salvaged(path=str(path), mended=len(damaged), from_copy=saved, aside=aside, remade=remade)


def _put_aside(path: Path, lost: Sequence[DamagedEntry]) -> str:
    """Keep what is left of entries, a line of JSON each, bytes as base64; the file, "" when there are none."""
    if not lost:
        return ""
    lines = [msgspec.json.encode({"table": each.table, "column": each.column, "row": each.row}) for each in lost]
    before = path.read_bytes() if path.exists() else b""
    write_atomic(path, before + b"".join(line + b"\n" for line in lines), 0o600)
    return str(path)


def _from_copy(database: Database, copy: Path, entry: DamagedEntry) -> bool:
    """Put the copy's row in the place of a damaged one; False when the copy has none, or not that one whole."""
    if entry.table == "swaps" or not copy.exists():  # changes of another time are long done
        return False
    names = list(entry.row)
    query = f"SELECT {', '.join(names)} FROM {entry.table} WHERE {entry.where}"  # noqa: S608  our own names
    found, _ = _rows(copy, query, tuple(entry.key.values()))
    if len(found) != 1:
        return False
    row = dict(zip(names, found[0], strict=True))
    if unreadable_columns(entry.table, row) or any(row[each] != entry.row[each] for each in SAME.get(entry.table, ())):
        return False
    with database.transaction(durable=True) as connection:
        marks = ", ".join("?" * len(names))
        into = f"{entry.table} ({', '.join(names)})"
        connection.execute(f"INSERT OR REPLACE INTO {into} VALUES ({marks})", found[0])  # noqa: S608
    return True


def _take_out(database: Database, entry: DamagedEntry) -> None:
    key = tuple(entry.key.values())
    with database.transaction(durable=True) as connection:
        if (entry.table, entry.column) == ("nights", "report"):  # it was held, whatever became of its report
            connection.execute(f"UPDATE nights SET report = NULL WHERE {entry.where}", key)  # noqa: S608
        else:
            connection.execute(f"DELETE FROM {entry.table} WHERE {entry.where}", key)  # noqa: S608


def _has_tables(path: Path) -> bool:
    """False for a file that is not there, holds no table at all, or cannot be asked."""
    try:
        with _reading(path) as connection:
            return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
    except sqlite3.DatabaseError:
        return False


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


def _rows(source: Path, query: str, values: tuple[object, ...] = ()) -> tuple[list[tuple[object, ...]], bool]:
    """As many rows as can be read before the first damaged page, and whether these are all."""
    rows: list[tuple[object, ...]] = []
    try:
        with _reading(source) as connection:
            for row in connection.execute(query, values):
                rows.append(row)  # noqa: PERF402  those before an error count
    except sqlite3.DatabaseError:
        return rows, False
    return rows, True


def _put(connection: sqlite3.Connection, name: str, row: tuple[object, ...]) -> int:
    marks = ", ".join("?" * len(row))
    return connection.execute(f"INSERT OR IGNORE INTO {name} VALUES ({marks})", row).rowcount  # noqa: S608
