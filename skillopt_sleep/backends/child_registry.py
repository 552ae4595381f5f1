"""Record the running child processes of this process, so that the next command can end those of a killed process.

While this program has children or a temporary folder, one file in the user's data says so. Every child carries a
mark in its environment, which its descendants inherit, and every folder has the mark in its name. So the file of a
writer that is dead suffices to find all that the writer left. Nothing else is ever ended or removed, and a file that
cannot be understood is renamed for somebody to look at.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import psutil
from msgspec import Meta, Struct

from skillopt_sleep.errors import DiskError

MARK = "SKILLOPT_CHILD_OF"
"""Environment variable of every child; its value is the mark of the process that started the child, a dot, a number."""
SAME_MOMENT = 2.0
"""Seconds by which two readings of a process's start time may differ, for a note without ``identity``."""
GRACE = 0.4
"""Seconds between SIGTERM and SIGKILL; two such waits stay within one second."""
ROUNDS = 5
"""Number of searches for processes that were started while others were being ended."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
WithoutNul = Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]


class Note(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a registry file: first the process that writes the file, then its children and what to restore."""

    pid: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    created: float = 0.0
    """Start time of the process, in seconds since 1970."""
    identity: str = ""
    """Text that distinguishes the process from any other with the same pid; see ``read_identity``."""
    mark: Annotated[str, Meta(pattern=r"\A[0-9A-Za-z_-]{0,64}\Z")] = ""
    """The mark of the process that writes the file."""
    temp: WithoutNul = ""
    """The folder in which the process that writes the file makes its temporary folders."""
    kind: str = ""
    """What to restore: "login" for a linked login, "temp" for a further folder with temporary folders."""
    paths: tuple[WithoutNul, ...] = ()
    """The paths to restore: the link and the login, or the folder with temporary folders."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a login without both paths, so that the note is safe to act on."""
        if self.kind == "login" and len(self.paths) != 2:  # noqa: PLR2004  the link and the login
            raise ValueError("a login needs the paths of the link and of the login")


class Reaped(Struct, frozen=True, kw_only=True):
    """Counts of what ``reap`` cleaned up, and the files it could not handle."""

    processes: int = 0
    """Number of processes that were ended."""
    folders: int = 0
    """Number of folders that were removed."""
    damaged: tuple[str, ...] = ()
    """Paths of files that could not be understood or handled, after renaming."""


class ChildRegistry:
    """The file in ``folder`` that records this process's children; "" records nothing. Safe for several threads."""

    def __init__(self, folder: str = "") -> None:
        self.mark = secrets.token_hex(6)
        self._path = Path(folder) / f"{self.mark}.jsonl" if folder else None
        self._lock = threading.Lock()
        self._users = 0
        self._runs = 0

    def make_run_mark(self) -> str:
        """Return a new, unique value of ``MARK`` for the next child."""
        with self._lock:
            self._runs += 1
            return f"{self.mark}.{self._runs}"

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """On entering, write the file; on leaving the last open context, delete it. Raises ``DiskError``."""
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

    def note_child(self, pid: int) -> None:
        """Record a child process that has just been started."""
        if self._path is not None:
            with contextlib.suppress(psutil.Error):  # it has ended already
                self.note(Note(pid=pid, created=psutil.Process(pid).create_time(), identity=read_identity(pid)))

    def note(self, note: Note) -> None:
        """Append a note to the file, if there is one."""
        if self._path is None:
            return
        with self._lock, self._path.open("ab") as file:
            file.write(msgspec.json.encode(note) + b"\n")

    def _begin(self) -> None:
        if self._path is None:
            return
        own = Note(
            pid=os.getpid(),
            created=psutil.Process().create_time(),
            identity=read_identity(os.getpid()),
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
            raise DiskError(f"running children cannot be recorded in {self._path.parent}: {error.strerror}") from error


@functools.cache
def open_child_registry(folder: str) -> ChildRegistry:
    """Return the registry that this process keeps in a folder, the same object every time."""
    return ChildRegistry(folder)


def reap(folder: Path, prefix: str) -> Reaped:
    """End the processes that dead processes of ours left running, and remove their temporary folders.

    ``folder`` contains the registry files; names of folders to remove begin with ``prefix`` and the mark. When nothing
    was left, this only lists ``folder``. Raises nothing: a file that cannot be handled is renamed and reported.
    """
    try:
        with os.scandir(folder) as entries:
            paths = [Path(entry.path) for entry in entries if entry.name.endswith(".jsonl")]
    except FileNotFoundError:
        return Reaped()
    except OSError:
        return Reaped(damaged=(str(folder),))
    found = [_reap_file(path, prefix) for path in sorted(paths)]
    return Reaped(
        processes=sum(reaped.processes for reaped in found),
        folders=sum(reaped.folders for reaped in found),
        damaged=tuple(path for reaped in found for path in reaped.damaged),
    )


def read_identity(pid: int) -> str:
    """Return a text that distinguishes a process from any other with the same pid; "" when no such process is alive.

    On Linux the text consists of the boot id and the clock ticks from boot to the start of the process, which no change
    of the clock moves. Elsewhere it is the start time, as the system recorded it.
    """
    if sys.platform != "linux":
        with contextlib.suppress(psutil.Error):
            return f"{psutil.Process(pid).create_time():.2f}"
        return ""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        state, ticks = fields[0], fields[19]
        return "" if state in {b"Z", b"X"} else f"{BOOT.read_text().strip()}/{ticks.decode()}"
    except (OSError, IndexError):
        return ""


def kill_marked(mark: str) -> None:
    """Kill every process whose ``MARK`` has this value, even one that left its parents; search several times."""
    for _ in range(ROUNDS):
        found = _find_marked(mark.__eq__)
        if not found:
            return
        kill_processes(found)


def kill_processes(processes: Iterable[psutil.Process]) -> None:
    """Kill processes, except one whose pid now belongs to another process."""
    if processes := list(processes):
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=GRACE)


def restore_login(link: Path, login: Path) -> None:
    """Move a login file that Codex wrote over our link back to the user's home, as it is then the only valid login."""
    if link.is_symlink() or not link.exists():
        return
    fresh = login.with_name(f"{login.name}.renewed")
    fresh.touch(mode=0o600)
    fresh.write_bytes(link.read_bytes())
    fresh.replace(login)
    link.unlink()


def _reap_file(path: Path, prefix: str) -> Reaped:
    try:
        notes, is_whole = _read_notes(path)
    except FileNotFoundError:  # its owner has just ended
        return Reaped()
    except OSError:
        return Reaped(damaged=(_set_aside(path),))
    if is_whole and not notes:
        path.unlink(missing_ok=True)  # empty: whoever made it has started nothing
        return Reaped()
    if not notes or not notes[0].mark:  # without its first line nobody can tell whose it is
        return Reaped(damaged=(_set_aside(path),))
    owner = notes[0]
    if _find_alive(owner):
        return Reaped()
    left = _find_family(notes[1:], owner.mark)
    _end(left)
    folders = 0
    try:
        others = (path for note in notes if note.kind == "temp" for path in note.paths)
        for temp in dict.fromkeys((owner.temp, *others)):
            for folder in list(Path(temp).glob(f"{prefix}-{owner.mark}-*")):
                folders += _remove(folder, notes)
        if is_whole:
            path.unlink(missing_ok=True)
    except OSError:
        is_whole = False
    return Reaped(processes=len(left), folders=folders, damaged=() if is_whole else (_set_aside(path),))


def _read_notes(path: Path) -> tuple[tuple[Note, ...], bool]:
    """Return the lines before the first unreadable one, and whether there is none; ignore an unfinished last line."""
    notes: list[Note] = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            note = msgspec.json.decode(line, type=Note)
        except (msgspec.DecodeError, ValueError):  # the latter when it is not text at all
            return tuple(notes), False
        notes.append(note)
    return tuple(notes), True


def _set_aside(path: Path) -> str:
    """Rename a file so that nobody reads it again; return its new path, or the old one when renaming fails."""
    aside = path.with_suffix(".damaged")
    try:
        path.rename(aside)
    except OSError:
        return str(path)
    return str(aside)


def _find_alive(note: Note) -> psutil.Process | None:
    """Return the process that a note describes, or None when it is dead, even if its pid has a new process."""
    with contextlib.suppress(psutil.Error):
        if note.pid == 0:
            return None
        process = psutil.Process(note.pid)
        if note.identity:
            return process if read_identity(note.pid) == note.identity else None
        is_same = abs(process.create_time() - note.created) <= SAME_MOMENT
        if is_same and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _find_marked(is_ours: Callable[[str], bool]) -> list[psutil.Process]:
    """Return every other process whose ``MARK`` satisfies ``is_ours``; other users' processes do not show theirs."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and is_ours(process.environ().get(MARK, "")):
                found.append(process)
    return found


def _find_family(notes: tuple[Note, ...], mark: str) -> list[psutil.Process]:
    """Return every process that carries the mark, every recorded child, and all their descendants."""
    roots = [process for process in map(_find_alive, notes) if process]
    roots += _find_marked(lambda value: value.partition(".")[0] == mark)
    found = {process.pid: process for process in roots}
    for process in roots:
        with contextlib.suppress(psutil.Error):
            found |= {child.pid: child for child in process.children(recursive=True)}
    found.pop(os.getpid(), None)
    return list(found.values())


def _end(processes: list[psutil.Process]) -> None:
    """Terminate processes; kill those that are still alive after ``GRACE`` seconds."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=GRACE)
    kill_processes(alive)


def _remove(folder: Path, notes: tuple[Note, ...]) -> bool:
    """Remove a temporary folder, after restoring a renewed login from it; return whether the folder is gone."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    for note in notes:
        if note.kind == "login":
            restore_login(Path(note.paths[0]), Path(note.paths[1]))
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
