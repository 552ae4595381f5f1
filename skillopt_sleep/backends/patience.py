"""How long an agent CLI at work may go on without a word, when only its own calls can be waited for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

__all__ = ["Patience"]

STARTING, SLACK = 15.0, 0.5
"""Seconds that it may take to start on a busy machine, and to say by itself that a call has timed out."""
USED_UP = 0.8
"""The part of a call's deadline after which a call that is lost has had all of it: there is no time for another."""


class Patience:
    """``process.Waits`` for one run: the seconds that it may be quiet, by what it has printed so far.

    As long as it likes while a tool of its own runs (``at_work``), else as long as a call to the model may take. A CLI
    that ``tries_again`` by itself after a call that has taken that long already gets nothing more: trying again is our
    business. Both are asked of all that was printed.
    """

    def __init__(
        self,
        call_seconds: float,
        *,
        at_work: Callable[[str], bool],
        tries_again: Callable[[str], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._call_seconds = call_seconds
        self._at_work = at_work
        self._tries_again = tries_again
        self._now = now
        self._heard: float | None = None

    def __call__(self, printed: str) -> float:
        """The seconds from now on."""
        if not printed:
            return self._call_seconds + STARTING
        now = self._now()
        silence = 0.0 if self._heard is None else now - self._heard  # the time to start is no call's
        self._heard = now
        if self._at_work(printed):
            return math.inf
        if silence > USED_UP * self._call_seconds and self._tries_again(printed):
            return 0.0
        return self._call_seconds + SLACK
