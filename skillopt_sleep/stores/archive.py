"""Tasks mined so far, and the edits a gate turned down: what one night leaves for the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from skillopt_sleep.domain.edit import AppliedEdit
from skillopt_sleep.domain.pending import ClosedEdit
from skillopt_sleep.domain.session import Session, SessionKey
from skillopt_sleep.domain.task import Split, TaskRecord
from skillopt_sleep.stores.database import Database, decoded

if TYPE_CHECKING:
    from skillopt_sleep.domain.split import Past

__all__ = ["RejectedEditStore", "TaskArchive"]

RECALLED = 24
"""Rejected edits shown to a reflection; more would crowd out the failures it is to learn from."""


class TaskArchive:
    """``ports.Archive`` over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def tasks(self, scope: str) -> tuple[TaskRecord, ...]:
        """Fresh ones first, then the most recently seen."""
        rows = self._database.rows(
            "SELECT data FROM tasks WHERE scope = ? ORDER BY fresh DESC, seen_at DESC, id", (scope,)
        )
        return tuple(decoded(row["data"], TaskRecord) for row in rows)

    def fresh(self, scope: str) -> frozenset[str]:
        """Ids of the tasks no concluded night has used."""
        rows = self._database.rows("SELECT id FROM tasks WHERE scope = ? AND fresh", (scope,))
        return frozenset(row["id"] for row in rows)

    def commit(self, scope: str, tasks: Sequence[TaskRecord], mined: Sequence[SessionKey]) -> None:
        """Enter tasks and take sessions out of the inbox in one transaction; repeating it changes nothing."""
        with self._database.transaction() as connection:
            for task in tasks:
                data = msgspec.json.encode(task)
                seen_at = max((origin.at for origin in task.origins), default="")
                connection.execute(
                    "INSERT INTO tasks VALUES (?, ?, 1, ?, ?) ON CONFLICT (scope, id) DO UPDATE SET"
                    " fresh = CASE WHEN data = excluded.data THEN fresh ELSE 1 END,"
                    " seen_at = excluded.seen_at, data = excluded.data",
                    (scope, task.id, seen_at, data),
                )
            for key in mined:
                connection.execute(
                    "UPDATE sessions SET waiting = ? WHERE source = ? AND path = ?",
                    (self._turn_after(key), key.source, key.path),
                )

    def _turn_after(self, key: SessionKey) -> str:
        """The first turn filed since the session was taken up for mining, "" when there is none."""
        rows = self._database.rows("SELECT data FROM sessions WHERE source = ? AND path = ?", (key.source, key.path))
        ids = [turn.id for turn in decoded(rows[0]["data"], Session).turns]
        return next(iter(ids[ids.index(key.last_turn) + 1 :]), "")

    def past(self, scope: str) -> Past:
        """The fresh ones, and the nights as val of every task that served."""
        from skillopt_sleep.domain.split import Past  # noqa: PLC0415  `status` reads this module and deals nothing

        rows = self._database.rows(
            "SELECT task, SUM(split = ?) AS nights FROM services WHERE scope = ? AND split != ? GROUP BY task",
            (Split.VAL, scope, Split.TEST),
        )
        return Past(fresh=self.fresh(scope), as_val={row["task"]: row["nights"] for row in rows})

    def used(self, scope: str, night: str, dealt: Mapping[Split, Sequence[str]]) -> None:
        """Mark tasks as used; a night that says so again changes nothing."""
        with self._database.transaction() as connection:
            for split, ids in dealt.items():
                connection.executemany(
                    "INSERT OR REPLACE INTO services VALUES (?, ?, ?, ?)", [(scope, id_, night, split) for id_ in ids]
                )
                connection.executemany(
                    "UPDATE tasks SET fresh = 0 WHERE scope = ? AND id = ?", [(scope, id_) for id_ in ids]
                )


class RejectedEditStore:
    """``ports.RejectedEdits`` over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def recall(self, project: str) -> tuple[AppliedEdit, ...]:
        """The latest ``RECALLED``."""
        rows = self._database.rows(
            "SELECT data FROM rejected_edits WHERE project = ? ORDER BY rowid DESC LIMIT ?", (project, RECALLED)
        )
        return tuple(decoded(row["data"], AppliedEdit) for row in rows)

    def closed(self, project: str) -> tuple[ClosedEdit, ...]:
        """All of them, the first ones first."""
        rows = self._database.rows("SELECT data FROM closed_edits WHERE project = ? ORDER BY rowid", (project,))
        return tuple(decoded(row["data"], ClosedEdit) for row in rows)

    def remember(
        self, project: str, night: str, edits: Sequence[AppliedEdit], closed: Sequence[ClosedEdit] = ()
    ) -> None:
        """Keep each edit once, with the latest reason; of a closed one, the night that ended it first."""
        with self._database.transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO rejected_edits VALUES (?, ?, ?, ?)",
                [(project, rejected.edit.id, night, msgspec.json.encode(rejected)) for rejected in edits],
            )
            connection.executemany(
                "INSERT OR IGNORE INTO closed_edits VALUES (?, ?, ?, ?, ?)",
                [(project, each.base, each.edit.id, each.night, msgspec.json.encode(each)) for each in closed],
            )
