"""The schedule as a file in the user's data folder, and the account of what became of each night that was due."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from skillopt_sleep.errors import DiskError
from skillopt_sleep.night.report import NightState
from skillopt_sleep.scheduling.due import Attempt, DaemonState, Schedule
from skillopt_sleep.storage.database import Database, understood
from skillopt_sleep.storage.files import remove, write_atomic

KNOWN = 14
"""Attempts of a project that are looked at, the latest: a clock may be put back by two weeks."""


def schedule_path(folder: Path) -> Path:
    """Where the schedule of a data folder lies."""
    return folder / "schedule.json"


def load_schedule(folder: Path) -> Schedule | None:
    """The schedule of a data folder, None when there is none. Raises ``DiskError`` for one that cannot be read."""
    path = schedule_path(folder)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DiskError(f"cannot read the schedule {path}: {error.strerror}") from error
    try:
        schedule = msgspec.json.decode(data, type=Schedule)
    except msgspec.DecodeError as error:
        raise DiskError(
            f"the schedule {path} cannot be understood ({error}); `skillopt-sleep unschedule` takes it away"
        ) from error
    if schedule.schema_version != Schedule().schema_version:
        raise DiskError(f"the schedule {path} was written by a newer version of this program")
    return schedule


def save_schedule(folder: Path, schedule: Schedule | None) -> None:
    """Put a schedule in place, or take it away. Raises ``DiskError``."""
    path = schedule_path(folder)
    if schedule is None:
        remove(path)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise DiskError(f"cannot make the folder {folder}: {error.strerror}") from error
    write_atomic(path, encode_schedule(schedule))


def encode_schedule(schedule: Schedule) -> bytes:
    """The file's bytes, to be read by a person too."""
    return msgspec.json.format(msgspec.json.encode(schedule), indent=2) + b"\n"


def load_daemon(folder: Path) -> DaemonState | None:
    """What the daemon last said of itself; to be believed while it holds its lock. None when it said nothing."""
    try:
        return msgspec.json.decode((folder / "daemon.json").read_bytes(), type=DaemonState)
    except (OSError, msgspec.DecodeError):
        return None  # a line of `status`, which says then what it knows from the lock


def save_daemon(folder: Path, state: DaemonState) -> None:
    """Say it. Raises ``DiskError``."""
    write_atomic(folder / "daemon.json", msgspec.json.encode(state))


class AttemptStore:
    """What became of each due, by project and label. Raises ``DiskError`` only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def known(self, projects: tuple[str, ...]) -> Mapping[tuple[str, str], Attempt]:
        """The latest attempts of some projects."""
        return {
            (each.project, each.due): each for project in projects for each in reversed(self.of(project, limit=KNOWN))
        }

    def of(self, project: str, *, limit: int) -> tuple[Attempt, ...]:
        """The attempts of a project, the one that was begun last first."""
        rows = self._database.rows(
            "SELECT * FROM attempts WHERE project = ? ORDER BY started_at DESC, due DESC LIMIT ?", (project, limit)
        )
        return tuple(
            Attempt(
                project=row["project"],
                due=row["due"],
                started_at=understood(row["started_at"], datetime),
                starts=row["starts"],
                ended_at=understood(row["ended_at"], datetime) if row["ended_at"] else None,
                code=row["code"],
            )
            for row in rows
        )

    def keep(self, attempt: Attempt) -> None:
        """Keep an attempt, in place of what was known of it; it outlives a power cut."""
        with self._database.transaction(durable=True) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?)",
                (
                    attempt.project,
                    attempt.due,
                    attempt.started_at.isoformat(),
                    attempt.starts,
                    attempt.ended_at.isoformat() if attempt.ended_at else None,
                    attempt.code,
                ),
            )

    def finished(self, project: str, since: datetime) -> bool:
        """Whether a night of the project has come to its end since then, whoever ran it."""
        rows = self._database.rows(
            "SELECT 1 FROM nights WHERE project = ? AND state = ? AND started_at >= ? LIMIT 1",
            (project, NightState.FINISHED, since.astimezone(UTC).isoformat(timespec="seconds")),
        )
        return bool(rows)

    def drop(self, attempt: Attempt) -> None:
        """Forget an attempt: nothing was begun."""
        with self._database.transaction(durable=True) as connection:
            connection.execute("DELETE FROM attempts WHERE project = ? AND due = ?", (attempt.project, attempt.due))
