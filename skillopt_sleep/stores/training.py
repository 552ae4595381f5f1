"""The folder of a training run: its files, its ledger, and what of it is finished already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skillopt_sleep.domain.report import PhaseTally
from skillopt_sleep.errors import DiskError, NightRunning
from skillopt_sleep.stores.database import Database
from skillopt_sleep.stores.files import make_folders, write_atomic
from skillopt_sleep.stores.ledger import NightLedger

__all__ = ["TrainingFolder", "training_folder"]

RUN = "train"
"""The name of the one run that a folder's ledger knows."""
SITTING = "sitting"
PAGES = 20_000
"""Pages of the log, of 4 KB, before SQLite tidies it up: every worker waits while it does, and closing does it too."""


class TrainingFolder:
    """``train.ports.RunStore`` over a folder and a database in it."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        self._database = database
        self.ledger = NightLedger(database, night=RUN, sitting=int(self.kept(SITTING) or 1))

    def tallies(self) -> tuple[PhaseTally, ...]:
        """What each stage of the whole run cost."""
        return self.ledger.tallies()

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Put a file in place whole, for its user alone: prompts and answers may hold what is nobody else's."""
        path = self.folder / name
        if not path.parent.is_dir():
            make_folders(path.parent, within=self.folder, mode=0o700)
        write_atomic(path, data, durable=durable)

    def kept(self, name: str) -> bytes | None:
        """The outcome of a piece of work that was finished before."""
        rows = self._database.rows("SELECT outcome FROM stages WHERE night = ? AND name = ?", (RUN, name))
        return bytes(rows[0]["outcome"]) if rows else None

    def keep(self, name: str, outcome: bytes) -> None:
        """Keep the outcome of a piece of work."""
        with self._database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO stages VALUES (?, ?, ?)", (RUN, name, outcome))

    def new_allowance(self) -> None:
        """The next process may spend up to the caps again."""
        self.keep(SITTING, str(int(self.kept(SITTING) or 1) + 1).encode())


@contextmanager
def training_folder(folder: Path) -> Iterator[TrainingFolder]:
    """Open a folder for one run, made if need be, held by this process alone.

    Raises ``NightRunning`` when another process trains into it, ``Refused`` for a link, and ``DiskError``.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  only a run needs it

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = FileLock(folder / "run.lock", mode=0o600).acquire(timeout=0)
    except Timeout:
        raise NightRunning(
            f"another process trains into {folder}; wait for it, or name another folder as out_root"
        ) from None
    except OSError as error:
        raise DiskError(f"cannot write to {folder}: {error.strerror}; name another folder as out_root") from error
    with held:
        database = _opened(folder)
        database.rows(f"PRAGMA wal_autocheckpoint = {PAGES}")
        try:
            yield TrainingFolder(folder, database)
        finally:
            database.close()


def _opened(folder: Path) -> Database:
    """The database of a run. Raises ``DiskError`` that says what helps here: the repair is for the user's own."""
    path = folder / "ledger.db"
    try:
        return Database(path)
    except DiskError as error:
        if "is damaged" not in str(error):
            raise
        raise DiskError(
            f"{path} is damaged, so this run cannot be gone on with; remove {folder} to begin anew"
        ) from error
