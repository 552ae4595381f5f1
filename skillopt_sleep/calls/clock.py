"""The clock of this machine, which a stopped night can be woken through.

The time zone of this machine, as the system's own scheduler sees it.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta, tzinfo

from skillopt_sleep.errors import Interrupted


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


def system_zone() -> tzinfo:
    """The zone of this machine as it is set now, also when it was changed while this process ran."""
    if hasattr(time, "tzset"):
        time.tzset()
    return SystemZone()


class SystemZone(tzinfo):
    """Local wall time by the C library, daylight saving included."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        """How far a wall time is ahead of UTC; ``fold`` tells the two equal ones apart."""
        return None if when is None else when.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, when: datetime | None) -> timedelta | None:  # noqa: ARG002
        """Not known apart from the rest."""
        return None

    def tzname(self, when: datetime | None) -> str | None:
        """The zone's abbreviation at that time."""
        return None if when is None else when.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, when: datetime) -> datetime:
        """The wall time of a moment."""
        return datetime.fromtimestamp(when.replace(tzinfo=UTC).timestamp()).replace(tzinfo=self)  # noqa: DTZ006  wall time is asked for
