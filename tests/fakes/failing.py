"""Makes operations on files, statements of SQLite and standard streams of this process fail, as drawn by lot."""

from __future__ import annotations

import errno
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

EVENTS = frozenset(
    {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "os.listdir", "os.scandir"}
)
ERRORS = {
    "ENOSPC": (errno.ENOSPC, "database or disk is full"),
    "EIO": (errno.EIO, "disk I/O error"),
    "EMFILE": (errno.EMFILE, "unable to open database file"),
}
SIGNALS = {"SIGHUP": signal.SIGHUP, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT, "kill": signal.SIGKILL}
STREAMS = ("closed", "full", "broken")
KINDS = (*ERRORS, *(f"{name} from then on" for name in ERRORS), *SIGNALS, *STREAMS)
FEW, MANY = 90, 25
"""Steps from one fault to the next, at the mean: of faults that end a night, and of those that need not."""


class Failing:
    """Draws before each step whether a fault of one kind happens there; every fault is noted in a file.

    A step is an SQL statement, or an operation on a file below one of the folders.
    """

    def __init__(self, kind: str, seed: int, folders: tuple[Path, ...], log: Path) -> None:
        self._kind = kind
        self._dice = random.Random(seed)
        self._folders = tuple(map(str, folders))
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._mean = MANY if kind in ERRORS else FEW
        self._lasts = False
        self._done = False

    def arm(self) -> None:
        """Begin to count steps."""
        connect, fsync = sqlite3.connect, os.fsync

        class Connection(sqlite3.Connection):
            def execute(inner, *given: Any) -> sqlite3.Cursor:  # noqa: N805
                self._step(self._fail_in_sql)
                return super().execute(*given)

            def executemany(inner, *given: Any) -> sqlite3.Cursor:  # noqa: N805
                self._step(self._fail_in_sql)
                return super().executemany(*given)

        def sync(descriptor: int) -> None:
            self._step(self._fail_in_file)
            fsync(descriptor)

        sqlite3.connect = lambda *given, **options: connect(*given, factory=Connection, **options)
        os.fsync = sync
        sys.addaudithook(self._hear)

    def _hear(self, event: str, given: tuple[object, ...]) -> None:
        if event in EVENTS and str(given[0]).startswith(self._folders):
            self._step(self._fail_in_file)

    def _step(self, fail: Callable[[], None]) -> None:
        if self._lasts:
            fail()
        if self._done or self._dice.random() * self._mean > 1:
            return
        os.write(self._log, b".")
        name, _, lasting = self._kind.partition(" ")
        self._lasts = bool(lasting)
        if name in ERRORS:
            fail()
        self._done = True
        if name in SIGNALS:
            os.kill(os.getpid(), SIGNALS[name])
        else:
            _spoil_streams(name)

    def _fail_in_file(self) -> None:
        number = ERRORS[self._kind.partition(" ")[0]][0]
        raise OSError(number, os.strerror(number))

    def _fail_in_sql(self) -> None:
        raise sqlite3.OperationalError(ERRORS[self._kind.partition(" ")[0]][1])


def _spoil_streams(how: str) -> None:
    """Take the terminal away: close the standard streams, fill their disk, or end whoever reads them."""
    for number in (0, 1, 2):
        if how == "closed":
            os.close(number)
            continue
        reader, writer = os.pipe()
        os.close(reader)
        target = os.open("/dev/full", os.O_RDWR) if how == "full" else writer
        os.dup2(target, number)
