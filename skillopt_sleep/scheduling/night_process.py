"""A night as a process of its own, ``skillopt-sleep run``: whoever attends the schedule stays small, and can end it.

What the daemon says: into a log that rotates in the user's data folder, and to whoever watches it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, TextIO

from skillopt_sleep.errors import DiskError
from skillopt_sleep.scheduling.due import Schedule, Step

ORDERLY = 3.0
"""Seconds a night is given to end its children and to write down where it stands; it needs less than one."""
AT_ONCE = 1.0
"""Seconds for those that are killed to be gone."""
TAIL = 2000
"""Bytes of what a night says on stderr that go to the log."""


def arguments_of(schedule: Schedule, step: Step, data_dir: Path) -> tuple[str, ...]:
    """The arguments of ``run`` for one night of the schedule; what the user asked for stands last and so wins."""
    shared = schedule.shared
    return (
        "run",
        f"--max-calls-day={shared.calls}",
        f"--max-tokens-day={shared.tokens}",
        f"--max-usd-day={shared.usd}",
        *step.project.arguments,
        f"--project={step.project.project}",
        f"--data-dir={data_dir}",
    )


class NightProcess:
    """``attend.Night``. ``start`` is the command that starts this program; ``env`` what the process is given.

    Safe to be stopped from another thread.
    """

    def __init__(
        self, start: Sequence[str], env: Mapping[str, str], data_dir: Path, say: Callable[[str], None]
    ) -> None:
        self._start = tuple(start)
        self._env = env
        self._data_dir = data_dir
        self._say = say
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def __call__(self, schedule: Schedule, step: Step) -> int:
        """Run it to its end. Raises ``DiskError`` when this machine cannot start a process now."""
        command = [*self._start, *arguments_of(schedule, step, self._data_dir)]
        try:
            with tempfile.TemporaryFile() as stderr:
                code = self._run(command, {**self._env, **schedule.environment}, stderr)
                self._repeat(stderr)
        except OSError as error:
            raise DiskError(f"cannot start {command[0]}: {error.strerror}") from error
        return code

    def _run(self, command: Sequence[str], env: Mapping[str, str], stderr: IO[bytes]) -> int:
        with self._lock:  # or it could start after ``stop`` has looked
            if self._stopped:
                return 128 + signal.SIGTERM
            self._child = subprocess.Popen(
                command,
                env=dict(env),
                cwd=self._data_dir,  # not the project, whose files must not be taken for modules
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            return self._child.wait()
        finally:
            self._child = None

    def _repeat(self, stderr: IO[bytes]) -> None:
        """Say what the night said last."""
        length = stderr.seek(0, os.SEEK_END)
        stderr.seek(max(0, length - TAIL))
        for line in stderr.read().decode("utf-8", "replace").splitlines()[-5:]:
            self._say(line)

    def stop(self) -> bool:
        """End the night that runs, orderly, then whatever is left of it; whether one did. None is begun any more."""
        with self._lock:
            self._stopped = True
        child = self._child
        if child is None or child.poll() is not None:
            return False
        import psutil  # noqa: PLC0415  only when something must be ended

        family: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(child.pid).children(recursive=True)
        child.terminate()
        deadline = time.monotonic() + ORDERLY
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        for process in family:  # recognised by more than its number, so nobody else is hit
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(family, timeout=AT_ONCE)
        return True


MOST_BYTES = 2**20
BACKUPS = 3
"""So the log never holds more than four megabytes, which is years of nights."""


class _Private(RotatingFileHandler):
    """A log nobody else may read."""

    def _open(self) -> io.TextIOWrapper:
        handle = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return open(handle, "a", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123  a descriptor, no path


@contextmanager
def logged(folder: Path, stream: TextIO | None, *, most: int = MOST_BYTES) -> Iterator[Callable[[str], None]]:
    """A function that logs one line to ``daemon.log`` in a folder, and to ``stream``. Raises ``DiskError``."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handlers: list[logging.Handler] = [
            _Private(folder / "daemon.log", maxBytes=most, backupCount=BACKUPS, encoding="utf-8")
        ]
    except OSError as error:
        raise DiskError(f"cannot write the log {folder / 'daemon.log'}: {error.strerror}") from error
    if stream is not None:
        handlers.append(logging.StreamHandler(stream))
    form = logging.Formatter("%(asctime)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z")
    form.converter = time.localtime
    logger = logging.getLogger("skillopt_sleep.daemon")
    logger.setLevel(logging.INFO)
    logger.propagate = False  # whoever else logs in this process has no part in it
    for handler in handlers:
        handler.setFormatter(form)
        logger.addHandler(handler)
    try:
        yield logger.info
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
