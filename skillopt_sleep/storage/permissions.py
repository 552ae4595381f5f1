"""Store: to whom the user has agreed that sessions are sent. In the user's own data, never in a project.

Commands the user has approved as checks: kept in the user's own data, never in a project.
"""

from __future__ import annotations

from datetime import datetime

from skillopt_sleep.model.ports import Clock
from skillopt_sleep.model.rollout import CheckCommand
from skillopt_sleep.storage.database import Database


class Agreements:
    """Sources and providers, each pair agreed to once. Raises ``DiskError`` only."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def all(self) -> frozenset[tuple[str, str]]:
        """Every pair of a source and a provider."""
        rows = self._database.rows("SELECT source, provider FROM agreements")
        return frozenset((row["source"], row["provider"]) for row in rows)

    def agree(self, source: str, provider: str) -> None:
        """Keep that the user has agreed."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO agreements VALUES (?, ?, ?)", (source, provider, self._clock.now().isoformat())
            )


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
