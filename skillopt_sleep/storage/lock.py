"""One night at a time, and one daemon: locks that die with their owner, and that can be asked about undisturbed.

Whoever asks whether a lock is held would, by trying it, keep a starting owner out for that instant. So there are two
files: owners contend for ``<name>.lock``, and only the one who has it also takes ``<name>.held``. Those who ask try the
second one; an owner that finds it tried waits for the instant it takes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skillopt_sleep.errors import DiskError, NightRunning

NIGHT = "night"
DAEMON = "daemon"
POLL = 0.2
"""Seconds between two tries of one who waits for a night to end."""
ASKERS = 5.0
"""Seconds after which an owner gives up on askers: then they are told that nobody holds the lock, no more."""


def one_night(folder: Path, *, wait: float = 0.0) -> contextlib.AbstractContextManager[bool]:
    """Hold the lock of a data folder while a night runs; whether it had to be waited for, ``wait`` seconds at most.

    Raises ``NightRunning`` when another process still holds it then, and ``DiskError``.
    """
    return _owned(folder, NIGHT, wait, "another night is running (it holds {path}); wait for it, or stop it first")


def one_daemon(folder: Path) -> contextlib.AbstractContextManager[bool]:
    """Hold the lock of a data folder while something attends its schedule.

    Raises ``NightRunning`` at once when another process holds it, and ``DiskError``.
    """
    return _owned(folder, DAEMON, 0.0, "the schedule is being attended by another process (it holds {path})")


def is_locked(folder: Path) -> bool:
    """Whether a night is running on this data folder."""
    return is_held(folder, NIGHT)


def is_held(folder: Path, name: str) -> bool:
    """Whether a process owns this lock. Takes nothing from a process that is about to, and writes nothing."""
    path = folder / f"{name}.held"
    if not path.exists():
        return False
    if sys.platform == "win32":
        from filelock import FileLock, Timeout  # noqa: PLC0415  only this system needs it here

        try:
            with FileLock(path, timeout=0):
                return False
        except Timeout:
            return True
    import fcntl  # noqa: PLC0415  not every system has it

    try:
        asked = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise DiskError(f"cannot ask for {path}: {error.strerror}; name another folder with --data-dir") from error
    try:
        fcntl.flock(asked, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(asked)


@contextmanager
def _owned(folder: Path, name: str, wait: float, taken: str) -> Iterator[bool]:
    from filelock import FileLock, Timeout  # noqa: PLC0415  only an owner needs it

    path = folder / f"{name}.lock"
    waited = False
    with contextlib.ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = FileLock(path, mode=0o600)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                waited = True
                lock.acquire(timeout=wait, poll_interval=POLL)
            held.callback(lock.release)
            shown = FileLock(folder / f"{name}.held", mode=0o600)
            with contextlib.suppress(Timeout):  # somebody was stopped in the middle of asking
                shown.acquire(timeout=ASKERS, poll_interval=0.01)
                held.callback(shown.release)
        except Timeout:
            raise NightRunning(taken.format(path=path)) from None
        except OSError as error:
            raise DiskError(f"cannot lock {path}: {error.strerror}; name another folder with --data-dir") from error
        yield waited
