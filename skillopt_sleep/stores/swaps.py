"""Live files changed all together or not at all, whatever happens in between.

What every file holds and is to hold is in the database before the first one is written, and leaves it in the same
transaction that records the change. Whoever finds it there later, with nobody at work on it, puts the files back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import DiskError, Refused, SleepError
from skillopt_sleep.stores.database import Database
from skillopt_sleep.stores.files import (
    drop_temporaries,
    make_folders,
    mode_of,
    read_regular,
    refuse_links,
    remove,
    write_atomic,
)

__all__ = ["Swap", "carry_out", "one_change", "undo_unfinished"]

NEW_FILE_MODE = 0o644
PATIENCE = 10.0
"""Seconds to wait for another adopt or revert; one takes milliseconds."""


class Swap(Struct, frozen=True, kw_only=True):
    """One live file from its old content to a new one; None is no file.

    ``within`` is the project: no link below it is followed. ``mode`` holds the permission bits a new file gets, None
    for the usual ones. ``folders`` counts the parents that go with the file when it goes.
    """

    path: str
    within: str
    old: bytes | None
    new: bytes | None
    mode: int | None = None
    folders: int = 0

    @property
    def live(self) -> bytes | None:
        """What the file holds now. Raises ``Refused`` and ``DiskError``."""
        refuse_links(Path(self.path), within=Path(self.within))
        return read_regular(Path(self.path))

    def there(self) -> None:
        """Put the new content in place of the old. Raises ``Refused`` when neither was there."""
        if self.live != self.old:
            raise Refused(f"{self.path} was changed by somebody else this moment; try again")
        self._write(self.new)

    def back(self) -> bool:
        """Put the old content in place of the new; False when somebody else has changed the file since."""
        live = self.live
        drop_temporaries(Path(self.path))
        if live == self.new:
            self._write(self.old)
        elif self.old is None and live is None:
            remove(Path(self.path), folders=self.folders)
        return live in {self.old, self.new}

    def _write(self, content: bytes | None) -> None:
        path = Path(self.path)
        if content is None:
            remove(path, folders=self.folders)
        elif self.old != self.new:
            make_folders(path.parent, within=Path(self.within))
            write_atomic(path, content, mode_of(path) or self.mode or NEW_FILE_MODE)


@contextmanager
def one_change(database: Database) -> Iterator[None]:
    """Hold the right to change live files, which dies with its owner; what somebody left half done is undone first.

    Raises ``Refused`` when another adopt or revert does not come to its end, and ``DiskError``.
    """
    with _lock(database.path.parent / "adopt.lock", PATIENCE) as held:
        if not held:
            raise Refused("another adopt or revert is at work on these files; try again in a moment")
        _undo(database)
        yield


def carry_out(
    database: Database, what: str, swaps: Sequence[Swap], record: Callable[[sqlite3.Connection], None]
) -> None:
    """Change every file and record it, or do neither; inside of ``one_change`` only.

    Raises what changing and recording raise, after the files have been put back. If even that fails, the error says
    so, and the next command tries again.
    """
    with database.transaction(durable=True) as connection:
        rows = [(what, msgspec.msgpack.encode(swap)) for swap in swaps]
        connection.executemany("INSERT INTO swaps (what, swap) VALUES (?, ?)", rows)
    try:
        for swap in swaps:
            swap.there()
        with database.transaction(durable=True) as connection:
            record(connection)
            connection.execute("DELETE FROM swaps")
    except BaseException as error:
        try:
            _undo(database)
        except SleepError as second:
            raise DiskError(
                f"half of this is done ({error}), and it could not be undone: {second}; mend that, and any next"
                " command puts the files back"
            ) from error
        raise


def undo_unfinished(database: Database) -> tuple[str, ...]:
    """Put back what an adopt or revert that was killed has left half done; what there is to say of it.

    Does nothing while its owner is still at work. Raises ``DiskError`` and ``Refused`` when a file cannot be put back.
    """
    if not database.rows("SELECT 1 FROM swaps LIMIT 1"):
        return ()
    with _lock(database.path.parent / "adopt.lock", 0) as held:
        return _undo(database) if held else ()


def _undo(database: Database) -> tuple[str, ...]:
    rows = database.rows("SELECT id, what, swap FROM swaps ORDER BY id DESC")
    said = [f"{row['what']} was cut short and has been undone" for row in rows[:1]]
    for row in rows:
        swap = msgspec.msgpack.decode(row["swap"], type=Swap)
        if not swap.back():
            said.append(f"{swap.path} was changed since by somebody else and stays as it is")
        with database.transaction(durable=True) as connection:
            connection.execute("DELETE FROM swaps WHERE id = ?", (row["id"],))
    return tuple(said)


@contextmanager
def _lock(path: Path, patience: float) -> Iterator[bool]:
    """Hold a lock file; False when somebody else does. It stays held by a process only, never by a file."""
    from filelock import FileLock, Timeout  # noqa: PLC0415  `status` opens the database and locks nothing

    lock = FileLock(path, timeout=patience)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    except OSError as error:
        raise DiskError(f"cannot lock {path}: {error.strerror}; name another folder with --data-dir") from error
    try:
        yield True
    finally:
        lock.release()
