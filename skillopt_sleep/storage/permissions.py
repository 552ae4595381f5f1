"""Remembers what the user has allowed: which provider sessions may go to, and which commands may be run as checks.

It is kept in the user's own database, never in a project.
"""

from __future__ import annotations

from datetime import datetime

from skillopt_sleep.model.ports import Clock
from skillopt_sleep.model.rollout import CheckCommand
from skillopt_sleep.storage.database import Database


class Agreements:
    """To which provider the sessions of which source may be sent. Every method raises ``DiskError`` only."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def all(self) -> frozenset[tuple[str, str]]:
        """Return every pair of a source and a provider the user has agreed to."""
        rows = self._database.rows("SELECT source, provider FROM agreements")
        return frozenset((row["source"], row["provider"]) for row in rows)

    def agree(self, source: str, provider: str) -> None:
        """Record that the user has agreed."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO agreements VALUES (?, ?, ?)", (source, provider, self._clock.now().isoformat())
            )


class Approvals:
    """Which commands may be run for a project, by its folder. Every method raises ``DiskError`` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, project: str) -> tuple[CheckCommand, ...]:
        """Return the approved commands of a project, in the order they were approved."""
        rows = self._database.rows(
            "SELECT line, seconds FROM approved_commands WHERE project = ? ORDER BY rowid", (project,)
        )
        return tuple(CheckCommand(line=row["line"], seconds=row["seconds"]) for row in rows)

    def approve(self, project: str, command: CheckCommand, now: datetime) -> None:
        """Allow a command; approving it again changes its time limit."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO approved_commands VALUES (?, ?, ?, ?)"
                " ON CONFLICT (project, line) DO UPDATE SET seconds = excluded.seconds",
                (project, command.line, command.seconds, now.isoformat()),
            )

    def remove(self, project: str, line: str) -> None:
        """Forbid a command again."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM approved_commands WHERE project = ? AND line = ?", (project, line))
