"""Run an agent CLI as a child that outlives neither its deadline nor this program, nor leaves anything behind.

Agent CLIs start processes of their own, and some never return when the network hangs. So every child leads a session
of its own and is ended with all it started. It reads its prompt from a file and writes into files: a pipe would keep
us waiting for any grandchild that holds it open.

How long an agent CLI at work may go on without a word, when only its own calls can be waited for.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from skillopt_sleep.backends.child_registry import MARK, Register, end_marked, register_in
from skillopt_sleep.errors import DiskError, NotInstalled, Overloaded, TimedOut
from skillopt_sleep.model.session import OWN_RUN_MARKER

if TYPE_CHECKING:
    import psutil

OUTPUT_LIMIT = 16 * 2**20
"""Bytes of output after which a child is ended: hundreds of times the longest answer of a model."""
GRACE = 0.4
"""Seconds between the polite signal and the one that cannot be ignored; twice this is still within a second."""
TICK = 0.25
"""Seconds between two looks at what a child has written."""
PATIENCE = 2.0
"""Seconds a child may wait before it tries again by itself; a longer wait is ours, and no child is kept for it."""

Waits = Callable[[str], float]
"""From what a child has printed so far: the seconds it says that it will wait before it tries again, 0 for none.

Or, as ``patience``, the seconds that it may go on without printing anything.
"""


class Ended(Struct, frozen=True, kw_only=True):
    """How a child ended. ``status`` is its exit status, or minus the signal that killed it.

    ``timed_out`` and ``flooded`` say that we ended it, at the deadline or for writing more than ``OUTPUT_LIMIT``, and
    ``waiting`` that it was about to wait for so many seconds. ``silent`` says of one that was ``timed_out`` that it had
    been quiet for longer than it may, which came before the deadline. ``seconds`` is wall time.
    """

    status: int = 0
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    flooded: bool = False
    waiting: float = 0.0
    silent: bool = False


class _Cut(Struct, frozen=True, kw_only=True):
    """Why a child was not left to end by itself; see ``Ended``."""

    timed_out: bool = False
    flooded: bool = False
    waiting: float = 0.0
    silent: bool = False


class Children:
    """The children of one backend. Safe to use from several threads.

    ``record``: the folder where running children are noted, so that the next command can end those of a process that
    was killed; "" = they are not.
    """

    def __init__(self, record: str = "") -> None:
        self._register = register_in(record) if record else Register()
        self._lock = threading.Lock()
        self._live: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    @property
    def register(self) -> Register:
        """Where what must be put right after a kill can be noted."""
        return self._register

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """An empty folder, removed afterwards, also after a kill; see ``throwaway``."""
        with self._register.open(), throwaway(self._register.mark) as folder:
            yield folder

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        seconds: float,
        stdin: str = "",
        waits: Waits | None = None,
        patience: Waits | None = None,
    ) -> Ended:
        """Run a command to its end, or to its deadline ``seconds`` from now, and end whatever it leaves running.

        What it started is found by its session, as a descendant, and by the mark that its environment hands on, also
        where it has left its parents. Only who takes the mark out of its own environment too, on purpose, stays.
        A child that ``waits`` longer than ``PATIENCE`` is ended too, and one that has printed nothing for longer than
        ``patience`` says it may, as if its deadline had come. Raises ``NotInstalled`` when the command cannot be
        executed, ``Overloaded`` when this machine cannot start another process, ``DiskError`` when it cannot be noted,
        and ``TimedOut`` when the children are or were closed.
        """
        with (
            self._register.open(),
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin.encode("utf-8", "replace"))
            given.seek(0)
            started = time.monotonic()
            mark = self._register.mark_of_run()
            child = self._start(argv, given, out, err, env={**env, MARK: mark}, cwd=cwd)
            try:
                self._register.child(child.pid)
                cut = _watch(child, started + seconds, (out, err), waits, patience)
            finally:  # also when Ctrl-C comes in between
                _end((child,))
                end_marked(mark)
                with self._lock:
                    self._live.discard(child)
            if self._closed:
                raise TimedOut(f"{argv[0]} was ended: this backend has been closed")
            return Ended(
                status=child.returncode,
                stdout=_read(out),
                stderr=_read(err),
                seconds=time.monotonic() - started,
                timed_out=cut.timed_out,
                flooded=cut.flooded,
                waiting=cut.waiting,
                silent=cut.silent,
            )

    def close(self) -> None:
        """End every child within a second; calls under way and later ones raise ``TimedOut``. Idempotent."""
        with self._lock:
            self._closed = True
            live = tuple(self._live)
        _end(live)

    def _start(
        self,
        argv: Sequence[str],
        given: IO[bytes],
        out: IO[bytes],
        err: IO[bytes],
        *,
        env: Mapping[str, str],
        cwd: Path,
    ) -> subprocess.Popen[bytes]:
        with self._lock:  # or a child could start after ``close`` has looked
            if self._closed:
                raise TimedOut(f"{argv[0]} was not started: this backend has been closed")
            try:
                child = subprocess.Popen(
                    argv,
                    stdin=given,
                    stdout=out,
                    stderr=err,
                    env=env,
                    cwd=cwd,
                    start_new_session=True,
                )
            except OSError as error:
                if error.errno in {errno.ENOENT, errno.EACCES, errno.ENOEXEC}:
                    raise NotInstalled(f"{argv[0]} cannot be executed: {error.strerror}") from error
                raise Overloaded(f"{argv[0]} cannot be started now: {error.strerror}") from error
            self._live.add(child)
            return child


def find_command(command: str, env: Mapping[str, str], *, install: str) -> str:
    """The path of a command on the PATH of ``env``. Raises ``NotInstalled``; ``install`` says how to get it."""
    path = shutil.which(command, path=env.get("PATH", ""))
    if path is None:
        raise NotInstalled(f"{command} is not installed, or not on PATH: {install}")
    return path


@contextlib.contextmanager
def throwaway(mark: str = "") -> Iterator[Path]:
    """An empty folder, removed afterwards; its name tells every harvest that a session in it is our own, and by whose.

    Raises ``DiskError`` for whatever cannot be written there.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=folder_prefix(mark), ignore_cleanup_errors=True) as folder:
            yield Path(folder)
    except OSError as error:
        raise DiskError(f"a throwaway folder cannot be used: {error}") from error


def folder_prefix(mark: str) -> str:
    """How the names of folders begin that the process of this mark makes."""
    return f"{OWN_RUN_MARKER}-{mark}-" if mark else f"{OWN_RUN_MARKER}-"


def _watch(
    child: subprocess.Popen[bytes],
    deadline: float,
    outputs: Collection[IO[bytes]],
    waits: Waits | None,
    patience: Waits | None,
) -> _Cut:
    """Wait for the end of a child, or for what ends our waiting."""
    seen, heard = 0, time.monotonic()
    allowed = patience("") if patience else math.inf
    while (left := deadline - time.monotonic()) > 0:
        try:
            child.wait(min(left, TICK))
        except subprocess.TimeoutExpired:
            written = sum(map(_written, outputs))
            if any(_written(output) > OUTPUT_LIMIT for output in outputs):
                return _Cut(flooded=True)
            if written == seen:
                if time.monotonic() - heard > allowed:
                    return _Cut(timed_out=True, silent=True)
                continue
            seen, heard = written, time.monotonic()
            printed = "\n".join(_peek(output) for output in outputs) if waits or patience else ""
            if waits and (waiting := waits(printed)) > PATIENCE:
                return _Cut(waiting=waiting)
            allowed = patience(printed) if patience else math.inf
        else:
            return _Cut(flooded=any(_written(output) > OUTPUT_LIMIT for output in outputs))
    return _Cut(timed_out=True)


def _end(children: Collection[subprocess.Popen[bytes]]) -> None:
    """End children and all they started, politely first; nothing of a child that ended by itself is left either."""
    alive = [child for child in children if child.poll() is None]
    family = [process for child in alive for process in _descendants(child.pid)]
    for child in alive:
        _signal_session(child, force=False)
    deadline = time.monotonic() + GRACE
    for child in alive:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(max(0.0, deadline - time.monotonic()))
    for child in children:
        _signal_session(child, force=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
    _kill(family)


def _descendants(pid: int) -> list[psutil.Process]:
    import psutil  # noqa: PLC0415  only when something must be ended

    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill(processes: Sequence[psutil.Process]) -> None:
    """Kill those that lead a session of their own; one that has ended is recognised, whoever has its number now."""
    if processes:
        import psutil  # noqa: PLC0415  only when something must be ended

        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=GRACE)


def _signal_session(child: subprocess.Popen[bytes], *, force: bool) -> None:
    """Signal every process of the session the child leads, also after the child itself has ended."""
    if sys.platform == "win32":
        child.terminate()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL if force else signal.SIGTERM)


def _written(output: IO[bytes]) -> int:
    return os.fstat(output.fileno()).st_size


def _peek(output: IO[bytes]) -> str:
    """What has been written up to now, without moving where the child, which shares the offset, goes on writing."""
    if sys.platform == "win32":
        return ""
    return os.pread(output.fileno(), OUTPUT_LIMIT, 0).decode("utf-8", "replace")


def _read(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read(OUTPUT_LIMIT).decode("utf-8", "replace")


STARTING, SLACK = 15.0, 0.5
"""Seconds that it may take to start on a busy machine, and to say by itself that a call has timed out."""
USED_UP = 0.8
"""The part of a call's deadline after which a call that is lost has had all of it: there is no time for another."""


class Patience:
    """``process.Waits`` for one run: the seconds that it may be quiet, by what it has printed so far.

    As long as it likes while a tool of its own runs (``at_work``), else as long as a call to the model may take. A CLI
    that ``tries_again`` by itself after a call that has taken that long already gets nothing more: trying again is our
    business. Both are asked of all that was printed.
    """

    def __init__(
        self,
        call_seconds: float,
        *,
        at_work: Callable[[str], bool],
        tries_again: Callable[[str], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._call_seconds = call_seconds
        self._at_work = at_work
        self._tries_again = tries_again
        self._now = now
        self._heard: float | None = None

    def __call__(self, printed: str) -> float:
        """The seconds from now on."""
        if not printed:
            return self._call_seconds + STARTING
        now = self._now()
        silence = 0.0 if self._heard is None else now - self._heard  # the time to start is no call's
        self._heard = now
        if self._at_work(printed):
            return math.inf
        if silence > USED_UP * self._call_seconds and self._tries_again(printed):
            return 0.0
        return self._call_seconds + SLACK
