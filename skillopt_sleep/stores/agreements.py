"""Store: to whom the user has agreed that sessions are sent. In the user's own data, never in a project."""

from __future__ import annotations

from skillopt_sleep.ports import Clock
from skillopt_sleep.stores.database import Database

__all__ = ["Agreements"]


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
