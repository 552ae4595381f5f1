"""Who is still running: the children of a night that was killed are found by the next command, by identity, and ended.

While this program has children, or a throwaway folder, one file in the user's own data says so. Every child carries a
mark in its environment, which what it starts inherits, and every folder has it in its name. A file whose writer is no
longer alive is therefore enough to find all that it left. Nothing else is ever ended or removed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import DiskError

if TYPE_CHECKING:
    import psutil

__all__ = ["MARK", "Note", "Reaped", "Register", "give_back", "reap", "register_in"]

MARK = "SKILLOPT_CHILD_OF"
"""The variable in the environment of every child; its value is the mark of the process that started it."""
SAME_MOMENT = 2.0
"""Seconds by which two readings of when a process began may differ: the system's clock may be set in between."""
GRACE = 0.4
"""Seconds between the polite signal and the one that cannot be ignored."""


class Note(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a file. The first is of the process that writes it, with its ``mark``, and where folders are made.

    The others are of its children, or of what else is to be put right should it be killed: ``kind`` says what, and
    ``paths`` where.
    """

    pid: int = 0
    created: float = 0.0
    mark: str = ""
    temp: str = ""
    kind: str = ""
    paths: tuple[str, ...] = ()


class Reaped(Struct, frozen=True, kw_only=True):
    """What was put right: processes ended, folders removed; and notes of other things that were left."""

    processes: int = 0
    folders: int = 0
    notes: tuple[Note, ...] = ()


class Register:
    """The file of this process in a folder ("" = none is kept). Safe for several threads."""

    def __init__(self, folder: str = "") -> None:
        self.mark = secrets.token_hex(6)
        self._path = Path(folder) / f"{self.mark}.jsonl" if folder else None
        self._lock = threading.Lock()
        self._users = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Keep the file while the body runs. Raises ``DiskError``."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._begin()
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0 and self._path is not None:
                    self._path.unlink(missing_ok=True)

    def child(self, pid: int) -> None:
        """Note a child that has just been started."""
        if self._path is not None:
            import psutil  # noqa: PLC0415  only for those who start children

            with contextlib.suppress(psutil.Error):  # it has ended already
                self.note(Note(pid=pid, created=psutil.Process(pid).create_time()))

    def note(self, note: Note) -> None:
        """Add a line, while the file is kept."""
        if self._path is None:
            return
        with self._lock, self._path.open("ab") as file:
            file.write(msgspec.json.encode(note) + b"\n")

    def _begin(self) -> None:
        if self._path is None:
            return
        import psutil  # noqa: PLC0415  only for those who start children

        own = Note(pid=os.getpid(), created=psutil.Process().create_time(), mark=self.mark, temp=tempfile.gettempdir())
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            self._path.write_bytes(msgspec.json.encode(own) + b"\n")
        except OSError as error:
            self._users -= 1
            raise DiskError(f"running children cannot be noted in {self._path.parent}: {error.strerror}") from error


@functools.cache
def register_in(folder: str) -> Register:
    """The one register that this process keeps in a folder."""
    return Register(folder)


def reap(folder: Path, prefix: str) -> Reaped:
    """End what processes that are no longer alive have left running, and remove their folders.

    ``folder`` holds the registers; folders to remove begin with ``prefix`` and the mark. Costs one look into the
    folder when there is nothing to do.
    """
    try:
        paths = [Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(".jsonl")]
    except OSError:
        return Reaped()
    return _reap(paths, prefix) if paths else Reaped()


def _reap(paths: list[Path], prefix: str) -> Reaped:
    processes, folders, others = 0, 0, []
    for path in paths:
        notes = tuple(_notes(path))
        if not notes or not notes[0].mark:
            path.unlink(missing_ok=True)  # killed before it could write a line: it has started nothing
            continue
        owner = notes[0]
        if _alive(owner):
            continue
        left = _family(notes[1:], owner.mark)
        _end(left)
        processes += len(left)
        others += [note for note in notes if note.kind]
        for throwaway in Path(owner.temp).glob(f"{prefix}-{owner.mark}-*"):
            folders += _remove(throwaway, notes)
        path.unlink(missing_ok=True)
    return Reaped(processes=processes, folders=folders, notes=tuple(others))


def _notes(path: Path) -> Iterator[Note]:
    """The whole lines of a file; the last one may have been cut."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:  # its owner has just ended
        return
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line, type=Note)


def _alive(note: Note) -> psutil.Process | None:
    """The process a note speaks of, where it is still that one, and no other that was given its number."""
    import psutil  # noqa: PLC0415  only when there is something to look for

    with contextlib.suppress(psutil.Error):
        process = psutil.Process(note.pid)
        same = abs(process.create_time() - note.created) <= SAME_MOMENT
        if same and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _family(notes: tuple[Note, ...], mark: str) -> list[psutil.Process]:
    """Every process that carries the mark, every noted child, and all that descend from these."""
    import psutil  # noqa: PLC0415  only when there is something to look for

    roots = [process for process in map(_alive, notes) if process]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # another user's, or gone
            if process.environ().get(MARK) == mark:
                roots.append(process)
    found = {process.pid: process for process in roots}
    for process in roots:
        with contextlib.suppress(psutil.Error):
            found |= {each.pid: each for each in process.children(recursive=True)}
    found.pop(os.getpid(), None)
    return list(found.values())


def _end(processes: list[psutil.Process]) -> None:
    """Politely first; psutil signals no process that has taken another's number."""
    import psutil  # noqa: PLC0415  only when there is something to end

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, deaf = psutil.wait_procs(processes, timeout=GRACE)
    for process in deaf:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(deaf, timeout=GRACE)


def _remove(folder: Path, notes: tuple[Note, ...]) -> bool:
    """Remove a throwaway folder; a login in it that was renewed is given back first."""
    import shutil  # noqa: PLC0415  only when there is something to remove

    if folder.is_symlink() or not folder.is_dir():
        return False
    for note in notes:
        if note.kind == "login":
            give_back(Path(note.paths[0]), Path(note.paths[1]))
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def give_back(link: Path, login: Path) -> None:
    """Should a Codex have replaced the link to its login by a file, the login in it is the only valid one: keep it."""
    if link.is_symlink() or not link.exists():
        return
    fresh = login.with_name(f"{login.name}.renewed")
    fresh.touch(mode=0o600)
    fresh.write_bytes(link.read_bytes())
    fresh.replace(login)
    link.unlink()
