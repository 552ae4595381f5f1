"""One night at a time: a lock that dies with its owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skillopt_sleep.errors import DiskError, NightRunning

__all__ = ["is_locked", "one_night"]


@contextmanager
def one_night(folder: Path) -> Iterator[None]:
    """Hold the lock of a data folder.

    Raises ``NightRunning`` at once when another process holds it, and ``DiskError``.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  only a night needs it

    path = folder / "night.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = FileLock(path).acquire(timeout=0)
    except Timeout:
        raise NightRunning(f"another night is running (it holds {path}); wait for it, or stop it first") from None
    except OSError as error:
        raise DiskError(f"cannot lock {path}: {error.strerror}; name another folder with --data-dir") from error
    with held:
        yield


def is_locked(folder: Path) -> bool:
    """Whether a night is running on this data folder."""
    if not (folder / "night.lock").exists():
        return False
    try:
        with one_night(folder):
            return False
    except NightRunning:
        return True
