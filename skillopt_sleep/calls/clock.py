"""The clock of this machine, which a stopped night can be woken through."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from skillopt_sleep.errors import Interrupted

__all__ = ["SystemClock"]


class SystemClock:
    """``ports.Clock``; once stopped, whoever sleeps wakes with ``Interrupted``."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def now(self) -> datetime:
        """The present moment."""
        return datetime.now(tz=UTC)

    def monotonic(self) -> float:
        """Seconds that only rise."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait, or raise ``Interrupted``."""
        if self._stopped.wait(seconds):
            raise Interrupted("the night was stopped")

    def stop(self) -> None:
        """Wake every sleeper."""
        self._stopped.set()
