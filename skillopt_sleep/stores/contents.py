"""What the entries of the database are, and which of them are not: one check for whoever asks whether it is whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial

import msgspec
from msgspec import Struct

from skillopt_sleep.domain.assignment import Trajectory
from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.edit import AppliedEdit
from skillopt_sleep.domain.pending import ClosedEdit, PendingEdit
from skillopt_sleep.domain.report import NightReport, NightState
from skillopt_sleep.domain.sealed import SealedTest
from skillopt_sleep.domain.session import Session
from skillopt_sleep.domain.task import TaskRecord
from skillopt_sleep.domain.verdict import Verdict
from skillopt_sleep.stores.adoption import AdoptedEdit
from skillopt_sleep.stores.database import Database
from skillopt_sleep.stores.staging import Manifest, ProposalStatus
from skillopt_sleep.stores.swaps import Swap

__all__ = ["DamagedEntry", "damaged_entries", "missing_tables", "unreadable_columns", "what_is_wrong"]

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
        for row in database.each(f"SELECT * FROM {table} WHERE {column} IS NOT NULL"):  # noqa: S608  our own names
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
