"""Locks that die with their owner: one night at a time, one daemon, one change of live files.

Trying a lock to learn whether it is held would keep a starting owner out for that instant. So a night and a daemon
have two files: owners compete for ``<name>.lock``, and only the winner also takes ``<name>.held``, which others test.
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
"""Seconds between two tries while waiting for a night to end."""
TEST_WAIT = 5.0
"""Seconds an owner waits for a process that is testing ``.held``; after that others are told that nobody holds it."""


@contextmanager
def take_lock(
    path: Path, *, wait: float = 0.0, poll: float = 0.05, advice: str = "name another folder with --data-dir"
) -> Iterator[bool]:
    """Hold a lock file; gives False when another process still holds it after ``wait`` seconds. Raises ``DiskError``.

    The lock belongs to this process, not to the file: it is gone when the process is.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  `status` takes no lock

    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(timeout=wait, poll_interval=poll)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise DiskError(f"cannot lock {path}: {error.strerror}; {advice}") from error
    try:
        yield True
    finally:
        lock.release()


def lock_night(folder: Path, *, wait: float = 0.0) -> contextlib.AbstractContextManager[bool]:
    """Hold the lock of a data folder while a night runs; gives whether it had to wait, ``wait`` seconds at most.

    Raises ``NightRunning`` when another process still holds it then, and ``DiskError``.
    """
    return _own(folder, NIGHT, wait, "another night is running (it holds {path}); wait for it, or stop it first")


def lock_daemon(folder: Path) -> contextlib.AbstractContextManager[bool]:
    """Hold the lock of a data folder while its schedule is attended.

    Raises ``NightRunning`` at once when another process holds it, and ``DiskError``.
    """
    return _own(folder, DAEMON, 0.0, "the schedule is being attended by another process (it holds {path})")


def is_locked(folder: Path) -> bool:
    """Tell whether a night is running on this data folder."""
    return is_held(folder, NIGHT)


def is_held(folder: Path, name: str) -> bool:
    """Tell whether a process owns this lock. Never delays a process that is about to take it, and writes nothing."""
    path = folder / f"{name}.held"
    if not path.exists():
        return False
    if sys.platform == "win32":
        with take_lock(path) as free:
            return not free
    import fcntl  # noqa: PLC0415  not every system has it

    try:
        tested = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise DiskError(f"cannot ask for {path}: {error.strerror}; name another folder with --data-dir") from error
    try:
        fcntl.flock(tested, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(tested)


@contextmanager
def _own(folder: Path, name: str, wait: float, refusal: str) -> Iterator[bool]:
    path = folder / f"{name}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise DiskError(f"cannot lock {path}: {error.strerror}; name another folder with --data-dir") from error
    with contextlib.ExitStack() as held:
        waited = not held.enter_context(take_lock(path))
        if waited and not held.enter_context(take_lock(path, wait=wait, poll=POLL)):
            raise NightRunning(refusal.format(path=path))
        # not getting this one only means that a process was stopped in the middle of its test
        held.enter_context(take_lock(folder / f"{name}.held", wait=TEST_WAIT, poll=0.01))
        yield waited
