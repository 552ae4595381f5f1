"""What is undecided, the account of everything that was tried, and what the replays say of the measurement itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from skillopt_sleep.gate.account import Account, Tried, add_up
from skillopt_sleep.gate.pending import PendingEdit
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.storage.database import Database, convert_value, decode_json

if TYPE_CHECKING:
    from skillopt_sleep.gate.audit import BaseReplay, Position
    from skillopt_sleep.night.report import SealedTest


class TrialStore:
    """``ports.Trials`` over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self, project: str) -> tuple[PendingEdit, ...]:
        """The undecided edits, in the order they were first tried."""
        rows = self._database.rows("SELECT data FROM pending_edits WHERE project = ? ORDER BY rowid", (project,))
        return tuple(decode_json(row["data"], PendingEdit) for row in rows)

    def conclude(
        self, project: str, pending: Sequence[PendingEdit], tried: Sequence[Tried], *, settled: Iterable[str] = ()
    ) -> None:
        """All in one transaction; repeating it changes nothing."""
        with self._database.transaction() as connection:
            connection.executemany(
                "DELETE FROM pending_edits WHERE project = ? AND id = ?", [(project, id_) for id_ in sorted(settled)]
            )
            connection.executemany(
                "INSERT OR REPLACE INTO pending_edits VALUES (?, ?, ?)",
                [(project, each.id, msgspec.json.encode(each)) for each in pending],
            )
            connection.executemany(
                "INSERT INTO tried_lives VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (project, id, night) DO UPDATE SET verdict = excluded.verdict",
                [(project, each.id, each.night, each.k, each.verdict) for each in tried],
            )

    def account(self, project: str) -> Account:
        """Everything tried, added up; what an earlier version noted counts where nothing newer is known of it."""
        rows = self._database.rows(
            "SELECT * FROM tried_lives WHERE project = :project UNION ALL SELECT * FROM tried_edits AS older"
            " WHERE project = :project AND NOT EXISTS (SELECT 1 FROM tried_lives AS newer WHERE"
            " newer.project = older.project AND newer.id = older.id AND newer.night = older.night)",
            {"project": project},
        )
        return add_up(
            [
                Tried(id=row["id"], night=row["night"], k=row["k"], verdict=convert_value(row["verdict"], Verdict))
                for row in rows
            ]
        )

    def note(self, project: str, night: str, replays: Sequence[BaseReplay], position: Position) -> None:
        """Keep what was measured of live documents, and which place won; repeating it changes nothing."""
        with self._database.transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO base_replays VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (project, night, each.task, each.base, each.model, each.phase, each.sample, each.hard, each.soft)
                    for each in replays
                ],
            )
            connection.execute(
                "INSERT OR REPLACE INTO judged_pairs VALUES (?, ?, ?, ?, ?)",
                (project, night, position.first, position.second, position.ties),
            )

    def replays(self, project: str) -> tuple[BaseReplay, ...]:
        """All replays of live documents that were kept."""
        from skillopt_sleep.gate.audit import BaseReplay  # noqa: PLC0415  `status` reads this module, and audits nothing

        rows = self._database.rows("SELECT * FROM base_replays WHERE project = ?", (project,))
        return tuple(BaseReplay(**{name: row[name] for name in BaseReplay.__struct_fields__}) for row in rows)

    def position(self, project: str) -> Position:
        """Which place won, over all nights."""
        from skillopt_sleep.gate.audit import Position  # noqa: PLC0415

        row = self._database.rows(
            "SELECT TOTAL(first) AS first, TOTAL(second) AS second, TOTAL(ties) AS ties FROM judged_pairs"
            " WHERE project = ?",
            (project,),
        )[0]
        return Position(first=int(row["first"]), second=int(row["second"]), ties=int(row["ties"]))

    def attempt(self, project: str, change: str, night: str) -> int:
        """Count a night's try to score an adopted change on sealed tasks; how many there were."""
        with self._database.transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO sealed_tests VALUES (?, ?, ?, NULL)", (project, change, night))
        return self.attempts(project, change)

    def attempts(self, project: str, change: str) -> int:
        """How many nights have tried."""
        rows = self._database.rows(
            "SELECT COUNT(*) AS count FROM sealed_tests WHERE project = ? AND change_night = ?", (project, change)
        )
        return int(rows[0]["count"])

    def scored(self, project: str, test: SealedTest) -> None:
        """Keep the outcome of a sealed test."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO sealed_tests VALUES (?, ?, ?, ?)",
                (project, test.change, test.night, msgspec.json.encode(test)),
            )

    def sealed(self, project: str) -> tuple[SealedTest, ...]:
        """The changes that were scored, the latest first."""
        from skillopt_sleep.night.report import SealedTest  # noqa: PLC0415

        rows = self._database.rows(
            "SELECT outcome FROM sealed_tests WHERE project = ? AND outcome IS NOT NULL ORDER BY rowid DESC",
            (project,),
        )
        return tuple(decode_json(row["outcome"], SealedTest) for row in rows)
