"""The clock and the time zone of this machine."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta, tzinfo

from skillopt_sleep.errors import Interrupted


class SystemClock:
    """``ports.Clock`` of this machine; stopping it wakes every sleeper with ``Interrupted``."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def now(self) -> datetime:
        """Return the present moment."""
        return datetime.now(tz=UTC)

    def monotonic(self) -> float:
        """Return seconds that only increase."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait. Raises ``Interrupted`` once the clock is stopped."""
        if self._stopped.wait(seconds):
            raise Interrupted("the night was stopped")

    def stop(self) -> None:
        """Wake every sleeper."""
        self._stopped.set()


def find_system_zone() -> tzinfo:
    """Return the zone this machine is set to now, even if it was changed while this process ran."""
    if hasattr(time, "tzset"):
        time.tzset()
    return SystemZone()


class SystemZone(tzinfo):
    """Local wall time by the C library, daylight saving included."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        """Return how far a wall time is ahead of UTC; ``fold`` tells the two equal ones apart."""
        return None if when is None else when.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, when: datetime | None) -> timedelta | None:  # noqa: ARG002
        """Return None: the C library does not tell daylight saving apart."""
        return None

    def tzname(self, when: datetime | None) -> str | None:
        """Return the zone's abbreviation at that time."""
        return None if when is None else when.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, when: datetime) -> datetime:
        """Return the wall time of a moment."""
        return datetime.fromtimestamp(when.replace(tzinfo=UTC).timestamp()).replace(tzinfo=self)  # noqa: DTZ006  wall time is asked for
