"""A clock that moves only when a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """``ports.Clock``: sleeping moves it, and every sleep is recorded."""

    def __init__(self, start=datetime(2026, 3, 1, 3, 0, tzinfo=UTC)):
        self._start = start
        self.seconds = 0.0
        self.slept = []

    def now(self):
        return self._start + timedelta(seconds=self.seconds)

    def monotonic(self):
        return self.seconds

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.seconds += seconds
