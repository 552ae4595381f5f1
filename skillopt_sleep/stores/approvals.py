"""Commands the user has approved as checks: kept in the user's own data, never in a project."""

from __future__ import annotations

from datetime import datetime

from skillopt_sleep.domain.assignment import CheckCommand
from skillopt_sleep.stores.database import Database

__all__ = ["Approvals"]


class Approvals:
    """What may be run for a project, by the project's own folder. Raises ``DiskError`` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, project: str) -> tuple[CheckCommand, ...]:
        """The approved commands of a project, in the order they were approved."""
        rows = self._database.rows(
            "SELECT line, seconds FROM approved_commands WHERE project = ? ORDER BY rowid", (project,)
        )
        return tuple(CheckCommand(line=row["line"], seconds=row["seconds"]) for row in rows)

    def approve(self, project: str, command: CheckCommand, now: datetime) -> None:
        """Let a command be run; approving it again sets its time limit."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO approved_commands VALUES (?, ?, ?, ?)"
                " ON CONFLICT (project, line) DO UPDATE SET seconds = excluded.seconds",
                (project, command.line, command.seconds, now.isoformat()),
            )

    def remove(self, project: str, line: str) -> None:
        """Let it be run no more."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM approved_commands WHERE project = ? AND line = ?", (project, line))
