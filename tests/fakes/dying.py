"""Kills this process at a chosen step, so that a test sees exactly what was on disk at that moment."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys


class Dying:
    """Kills this process right before its n-th SQL statement or change of the disk; 0 only counts the steps."""

    def __init__(self, at: int, events: frozenset[str]) -> None:
        self.at = at
        self.events = events
        self.steps = 0

    def step(self, *_: object) -> None:
        """Count one step, or die at it."""
        self.steps += 1
        if self.steps == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Count the statements of a connection."""
        connection.set_trace_callback(self.step)
        return connection

    def arm(self) -> None:
        """Count changes of the disk, and the statements of every connection made from now on."""
        connect = sqlite3.connect
        sqlite3.connect = lambda *given, **options: self.watch(connect(*given, **options))
        sys.addaudithook(lambda event, _: self.step() if event in self.events else None)
