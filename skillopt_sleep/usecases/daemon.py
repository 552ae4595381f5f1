"""What the daemon needs of this user's disk: opened for each use, since it runs for months and the file may change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_sleep.scheduling.due import Attempt, DaemonState, Schedule
from skillopt_sleep.scheduling.store import AttemptStore, load_schedule, save_daemon, schedule_path
from skillopt_sleep.storage import staging
from skillopt_sleep.storage.database import Database

if TYPE_CHECKING:
    from skillopt_sleep.usecases.workspace import Workspace


class KeptSchedule:
    """The schedule as it is now, read again only when the file is another one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: tuple[int, int, int] | None = None
        self._schedule: Schedule | None = None

    def __call__(self) -> Schedule | None:
        """The schedule, None when there is none. Raises ``DiskError``."""
        try:
            found = schedule_path(self._folder).stat()
        except FileNotFoundError:
            self._seen = None
            return None
        seen = (found.st_ino, found.st_size, found.st_mtime_ns)
        if seen != self._seen:
            self._schedule = load_schedule(self._folder)
            self._seen = seen
        return self._schedule


class KeptAttempts:
    """``attend.Attempts`` over the user's database."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "sleep.db"

    @contextmanager
    def _store(self) -> Iterator[AttemptStore]:
        with closing(Database(self._path, extra_schema=staging.SCHEMA)) as database:
            yield AttemptStore(database)

    def known(self, projects: tuple[str, ...]) -> Mapping[tuple[str, str], Attempt]:
        """The latest attempts, by project and label of due."""
        with self._store() as store:
            return store.known(projects)

    def keep(self, attempt: Attempt) -> None:
        """Keep an attempt, in place of what was known of it."""
        with self._store() as store:
            store.keep(attempt)

    def drop(self, attempt: Attempt) -> None:
        """Forget an attempt: nothing was begun."""
        with self._store() as store:
            store.drop(attempt)

    def has_finished_night(self, project: str, since: datetime) -> bool:
        """Whether a night of the project has come to its end since then, whoever ran it."""
        with self._store() as store:
            return store.has_finished_night(project, since)


class DaemonLine:
    """What ``status`` is told of a daemon, kept as long as it lives."""

    def __init__(self, workspace: Workspace, *, once: bool) -> None:
        self._folder = workspace.data_dir
        self._since = workspace.clock.now()
        self._once = once
        self._last: DaemonState | None = None

    def __call__(self, following: datetime | None, doing: str, held: str) -> None:
        """How things stand; written when it is something else than before. Raises ``DiskError``."""
        state = DaemonState(pid=os.getpid(), since=self._since, next=following, doing=doing, held=held, once=self._once)
        if state != self._last:
            save_daemon(self._folder, state)
            self._last = state
