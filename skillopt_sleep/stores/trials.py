"""What is undecided, and the account of everything that was tried."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from skillopt_sleep.domain.account import Account, Tried, add_up
from skillopt_sleep.domain.pending import PendingEdit
from skillopt_sleep.domain.verdict import Verdict
from skillopt_sleep.stores.database import Database

__all__ = ["TrialStore"]


class TrialStore:
    """``ports.Trials`` over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self, project: str) -> tuple[PendingEdit, ...]:
        """The undecided edits, in the order they were first tried."""
        rows = self._database.rows("SELECT data FROM pending_edits WHERE project = ? ORDER BY rowid", (project,))
        return tuple(msgspec.json.decode(row["data"], type=PendingEdit) for row in rows)

    def conclude(self, project: str, pending: Sequence[PendingEdit], tried: Sequence[Tried]) -> None:
        """Both in one transaction; repeating it changes nothing."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM pending_edits WHERE project = ?", (project,))
            connection.executemany(
                "INSERT INTO pending_edits VALUES (?, ?, ?)",
                [(project, each.id, msgspec.json.encode(each)) for each in pending],
            )
            connection.executemany(
                "INSERT INTO tried_edits VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (project, id) DO UPDATE SET verdict = excluded.verdict",
                [(project, each.id, each.night, each.k, each.verdict) for each in tried],
            )

    def account(self, project: str) -> Account:
        """Everything tried, added up."""
        rows = self._database.rows("SELECT * FROM tried_edits WHERE project = ? ORDER BY rowid", (project,))
        return add_up(
            [Tried(id=row["id"], night=row["night"], k=row["k"], verdict=Verdict(row["verdict"])) for row in rows]
        )
