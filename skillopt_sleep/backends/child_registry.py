"""Who is still running: the children of a night that was killed are found by the next command, by identity, and ended.

While this program has children, or a throwaway folder, one file in the user's own data says so. Every child carries a
mark in its environment, which what it starts inherits, and every folder has it in its name. A file whose writer is no
longer alive is therefore enough to find all that it left. Nothing else is ever ended or removed, and a file that cannot
be understood is set aside, by name, for somebody to look at.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import DiskError

if TYPE_CHECKING:
    import psutil

MARK = "SKILLOPT_CHILD_OF"
"""The variable in the environment of every child: the mark of the process that started it, a dot, and a number."""
SAME_MOMENT = 2.0
"""Seconds by which two readings of when a process began may differ, for a note that has no ``identity``."""
GRACE = 0.4
"""Seconds between the polite signal and the one that cannot be ignored."""
ROUNDS = 5
"""How often one looks again for what has been started while the others were being ended."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
MOST_PID = 2**31 - 1
_MARKS = re.compile(r"[0-9A-Za-z_-]{1,64}")


class Note(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a file. The first is of the process that writes it, with its ``mark``, and where folders are made.

    The others are of its children, or of what else is to be put right should it be killed: ``kind`` says what, and
    ``paths`` where. ``identity`` tells a process from any other that was ever given its number; see there.
    """

    pid: int = 0
    created: float = 0.0
    identity: str = ""
    mark: str = ""
    temp: str = ""
    kind: str = ""
    paths: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether it can be acted on."""
        words = (self.mark, self.temp, *self.paths)
        return (
            0 <= self.pid <= MOST_PID
            and not any("\0" in each for each in words)
            and (not self.mark or _MARKS.fullmatch(self.mark) is not None)
            and (self.kind != "login" or len(self.paths) == 2)  # noqa: PLR2004  the link and the login
        )


class Reaped(Struct, frozen=True, kw_only=True):
    """What was put right: processes ended, folders removed.

    ``damaged``: files that could not be understood or dealt with, where they are now.
    """

    processes: int = 0
    folders: int = 0
    damaged: tuple[str, ...] = ()


class Register:
    """The file of this process in a folder ("" = none is kept). Safe for several threads."""

    def __init__(self, folder: str = "") -> None:
        self.mark = secrets.token_hex(6)
        self._path = Path(folder) / f"{self.mark}.jsonl" if folder else None
        self._lock = threading.Lock()
        self._users = 0
        self._runs = 0

    def mark_of_run(self) -> str:
        """The value of ``MARK`` for one more child, which no other has."""
        with self._lock:
            self._runs += 1
            return f"{self.mark}.{self._runs}"

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
                self.note(Note(pid=pid, created=psutil.Process(pid).create_time(), identity=identity(pid)))

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

        own = Note(
            pid=os.getpid(),
            created=psutil.Process().create_time(),
            identity=identity(os.getpid()),
            mark=self.mark,
            temp=tempfile.gettempdir(),
        )
        unseen = self._path.with_suffix(".new")  # nobody may find the file without its first line
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            unseen.touch(mode=0o600)
            unseen.write_bytes(msgspec.json.encode(own) + b"\n")
            unseen.replace(self._path)
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
    folder when there is nothing to do. Raises nothing: what cannot be dealt with is set aside and named.
    """
    try:
        with os.scandir(folder) as entries:
            paths = [Path(entry.path) for entry in entries if entry.name.endswith(".jsonl")]
    except FileNotFoundError:
        return Reaped()
    except OSError:
        return Reaped(damaged=(str(folder),))
    found = [_reaped(path, prefix) for path in sorted(paths)]
    return Reaped(
        processes=sum(each.processes for each in found),
        folders=sum(each.folders for each in found),
        damaged=tuple(path for each in found for path in each.damaged),
    )


def _reaped(path: Path, prefix: str) -> Reaped:
    """What became of one file."""
    try:
        notes, whole = _notes(path)
    except FileNotFoundError:  # its owner has just ended
        return Reaped()
    except OSError:
        return Reaped(damaged=(_set_aside(path),))
    if whole and not notes:
        path.unlink(missing_ok=True)  # empty: whoever made it has started nothing
        return Reaped()
    if not notes or not notes[0].mark:  # without its first line nobody can say whose it is
        return Reaped(damaged=(_set_aside(path),))
    owner = notes[0]
    if _alive(owner):
        return Reaped()
    left = _family(notes[1:], owner.mark)
    _end(left)
    folders = 0
    try:
        others = (each for note in notes if note.kind == "temp" for each in note.paths)
        for temp in dict.fromkeys((owner.temp, *others)):
            for throwaway in list(Path(temp).glob(f"{prefix}-{owner.mark}-*")):
                folders += _remove(throwaway, notes)
        if whole:
            path.unlink(missing_ok=True)
    except OSError:
        whole = False
    return Reaped(
        processes=len(left),
        folders=folders,
        damaged=() if whole else (_set_aside(path),),
    )


def _notes(path: Path) -> tuple[tuple[Note, ...], bool]:
    """What the lines of a file say, up to the first that cannot be, and whether that is all; the last may be cut."""
    notes: list[Note] = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            note = msgspec.json.decode(line, type=Note)
        except (msgspec.DecodeError, ValueError):  # the latter for what is no text at all
            return tuple(notes), False
        if not note.sound:
            return tuple(notes), False
        notes.append(note)
    return tuple(notes), True


def _set_aside(path: Path) -> str:
    """Give a file a name that nobody looks for; its path then, the old one where that cannot be done."""
    aside = path.with_suffix(".damaged")
    try:
        path.rename(aside)
    except OSError:
        return str(path)
    return str(aside)


def identity(pid: int) -> str:
    """What tells a process from any other that is ever given its number, "" where there is none or it has ended.

    On Linux the boot, and the ticks from there to its start, as the kernel counts them: no setting of the clock, which
    moves what is computed from them, changes these. Elsewhere when it began, as the system has noted it then.
    """
    if sys.platform != "linux":
        import psutil  # noqa: PLC0415  only for those who start children

        with contextlib.suppress(psutil.Error):
            return f"{psutil.Process(pid).create_time():.2f}"
        return ""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        state, ticks = fields[0], fields[19]
        return "" if state in {b"Z", b"X"} else f"{BOOT.read_text().strip()}/{ticks.decode()}"
    except (OSError, IndexError):
        return ""


def _alive(note: Note) -> psutil.Process | None:
    """The process a note speaks of, where it is still that one, and no other that was given its number."""
    import psutil  # noqa: PLC0415  only when there is something to look for

    with contextlib.suppress(psutil.Error):
        if note.pid == 0:
            return None
        process = psutil.Process(note.pid)
        if note.identity:
            return process if identity(note.pid) == note.identity else None
        same = abs(process.create_time() - note.created) <= SAME_MOMENT
        if same and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def end_marked(mark: str) -> None:
    """End, at once, every process whose ``MARK`` is exactly this, wherever it has gone; a few times over."""
    for _ in range(ROUNDS):
        found = _marked(mark.__eq__)
        if not found:
            return
        _kill(found)


def _marked(ours: Callable[[str], bool]) -> list[psutil.Process]:
    """Every process whose ``MARK`` is one of ``ours``; those of other users show none."""
    import psutil  # noqa: PLC0415  only when there is something to look for

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and ours(process.environ().get(MARK, "")):
                found.append(process)
    return found


def _family(notes: tuple[Note, ...], mark: str) -> list[psutil.Process]:
    """Every process that carries the mark, every noted child, and all that descend from these."""
    import psutil  # noqa: PLC0415  only when there is something to look for

    roots = [process for process in map(_alive, notes) if process]
    roots += _marked(lambda value: value.partition(".")[0] == mark)
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
    _kill(deaf)


def _kill(processes: list[psutil.Process]) -> None:
    import psutil  # noqa: PLC0415  only when there is something to end

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, timeout=GRACE)


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
