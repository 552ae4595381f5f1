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
from skillopt_sleep.model.document import Document, DocumentKind, region, with_region
from skillopt_sleep.storage.database import REPAIR, Database
from skillopt_sleep.storage.files import (
    drop_temporaries,
    make_folders,
    mode_of,
    read_regular,
    refuse_links,
    remove,
    write_atomic,
)

NEW_FILE_MODE = 0o644
PATIENCE = 10.0
"""Seconds to wait for another adopt or revert; one takes milliseconds."""


class Swap(Struct, frozen=True, kw_only=True):
    """One live file from its old content to a new one; None is no file.

    ``within`` is the project: no link below it is followed. ``mode`` holds the permission bits a new file gets, None
    for the usual ones. ``folders`` counts the parents that go with the file when it goes. ``kind`` and ``whole`` say
    which part of it is ours.
    """

    path: str
    within: str
    old: bytes | None
    new: bytes | None
    mode: int | None = None
    folders: int = 0
    kind: DocumentKind = DocumentKind.MEMORY
    whole: bool = False

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
        """Put the old content in place of the new; False when somebody else has changed our part of it since.

        Of a file that was changed around our part, only that part goes back.
        """
        live = self.live
        drop_temporaries(Path(self.path))
        if live == self.new:
            self._write(self.old)
        elif self.old is None and live is None:
            remove(Path(self.path), folders=self.folders)
        elif live is not None and live != self.old and self.new is not None:
            if self._region(live) != self._region(self.new):
                return self._region(live) == self._region(self.old)
            self._write(with_region(self._document(live), self._region(self.old)).content)
        return True

    def _document(self, content: bytes | None) -> Document:
        return Document(kind=self.kind, path=self.path, content=content, whole=self.whole)

    def _region(self, content: bytes | None) -> str:
        return region(self._document(content))

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
    with change_lock(database.path.parent):
        _undo(database)
        yield


@contextmanager
def change_lock(folder: Path) -> Iterator[None]:
    """Hold that right alone, and do nothing. Raises ``Refused`` and ``DiskError``."""
    with _lock(folder / "adopt.lock", PATIENCE) as held:
        if not held:
            raise Refused("another adopt or revert is at work on these files; try again in a moment")
        yield


def carry_out(
    database: Database, what: str, swaps: Sequence[Swap], record: Callable[[sqlite3.Connection], None]
) -> None:
    """Change every file and record it, or do neither; inside of ``one_change`` only.

    Raises what changing and recording raise, after the files have been put back. If even that fails, the error says
    so, and the next command tries again. Raises ``Refused`` for a file that an earlier change has left half done.
    """
    left = {swap.path: told for _, told, swap in _unfinished(database)}
    for swap in swaps:
        if swap.path in left:
            raise Refused(
                f"{left[swap.path]} was cut short and {swap.path} is not put back yet; see skillopt-sleep status"
            )
    with database.transaction(durable=True) as connection:
        ids = [
            connection.execute(
                "INSERT INTO swaps (what, swap) VALUES (?, ?)", (what, msgspec.msgpack.encode(swap))
            ).lastrowid
            for swap in swaps
        ]
    try:
        for swap in swaps:
            swap.there()
        with database.transaction(durable=True) as connection:
            record(connection)
            connection.executemany("DELETE FROM swaps WHERE id = ?", [(each,) for each in ids])
    except BaseException as error:
        said = _undo(database)
        if any(each in ids for each, _, _ in _unfinished(database)):
            raise DiskError(
                f"half of this is done ({error}), and it could not be undone: {said[-1]}; mend that, and any next"
                " command puts the files back"
            ) from error
        raise


def undo_unfinished(database: Database) -> tuple[str, ...]:
    """Put back what an adopt or revert that was killed has left half done; what there is to say of it.

    Does nothing while its owner is still at work. A file that cannot be put back is said, and stops nothing else: the
    next command tries again.
    """
    if not database.rows("SELECT 1 FROM swaps LIMIT 1"):
        return ()
    with _lock(database.path.parent / "adopt.lock", 0) as held:
        return _undo(database) if held else ()


def give_up_unfinished(database: Database) -> tuple[str, ...]:
    """Leave half-done files as they are, their old bytes beside the database; what there is to say of it.

    For files that cannot be put back, whatever one does. Raises ``DiskError``.
    """
    said = []
    for number, what, swap in _unfinished(database):
        kept = database.path.parent / f"unfinished-{number}-{Path(swap.path).name}"
        write_atomic(kept, swap.old or b"")
        with database.transaction(durable=True) as connection:
            connection.execute("DELETE FROM swaps WHERE id = ?", (number,))
        said.append(f"{what}: {swap.path} stays as it is; what it held before is in {kept}")
    return tuple(said)


def _unfinished(database: Database) -> list[tuple[int, str, Swap]]:
    rows = database.rows("SELECT id, what, swap FROM swaps ORDER BY id DESC")
    try:
        return [(row["id"], row["what"], msgspec.msgpack.decode(row["swap"], type=Swap)) for row in rows]
    except (ValueError, TypeError) as error:
        raise DiskError(f"an unfinished change in {database.path} is damaged ({error}); {REPAIR}") from error


def _undo(database: Database) -> tuple[str, ...]:
    said: list[str] = []
    for number, what, swap in _unfinished(database):
        try:
            whole = swap.back()
        except SleepError as error:
            said.append(f"{what} was cut short, and {swap.path} cannot be put back: {error}")
            continue
        if not whole:
            said.append(f"{swap.path} was changed since by somebody else and stays as it is")
        with database.transaction(durable=True) as connection:
            connection.execute("DELETE FROM swaps WHERE id = ?", (number,))
        if f"{what} was cut short and has been undone" not in said:
            said.insert(0, f"{what} was cut short and has been undone")
    if any("cannot be put back" in each for each in said):
        said.append(
            "mend that and run any command again, or leave the files as they are: skillopt-sleep doctor --repair"
        )
    return tuple(said)


@contextmanager
def _lock(path: Path, patience: float) -> Iterator[bool]:
    """Hold a lock file; False when somebody else does. It stays held by a process only, never by a file."""
    from filelock import FileLock, Timeout  # noqa: PLC0415  `status` opens the database and locks nothing

    lock = FileLock(path, timeout=patience, mode=0o600)
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
