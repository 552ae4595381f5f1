"""Bound what is in flight; slow down by itself when the provider says so, or when memory runs short.

How many agent CLIs this machine has room for: each is a process of a few hundred megabytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from skillopt_sleep.calls.send import SendOnce
from skillopt_sleep.errors import Overloaded, RateLimited
from skillopt_sleep.model.call import Prompt, Reply
from skillopt_sleep.model.ports import Clock

RESERVE = 256 * 2**20
"""Bytes that are left to everything else."""
LIMIT, USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
"""Where a container's own limit stands."""


def free_memory() -> int:
    """Bytes that new processes could take without anything being swapped out, the limit of a container included."""
    import psutil  # noqa: PLC0415  only for those who start children

    free = int(psutil.virtual_memory().available)
    try:
        return min(free, int(LIMIT.read_text()) - int(USED.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit, which says "max"
        return free


CALM = 10
"""Answers in a row after which one more call may be in flight again."""
GROWING = 3.0
"""Seconds in which a new process takes what memory it will need: until then it counts as if it had none yet."""


class Limiter:
    """Additive increase, multiplicative decrease of the calls in flight, between 1 and ``most``.

    ``footprint``: bytes of memory that each takes on this machine; there are never more than fit into what is ``free``,
    but always one. ``wait_for``: told each wait in seconds before it is begun; what it raises goes on up.
    """

    def __init__(
        self,
        most: int,
        clock: Clock,
        *,
        footprint: int = 0,
        free: Callable[[], int] = free_memory,
        wait_for: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._most = self._allowed = most
        self._clock = clock
        self._footprint = footprint
        self._free = free
        self._wait_for = wait_for
        self._entered: list[float] = []
        self._in_flight = 0
        self._calm = 0
        self._not_before = 0.0
        self._changed = threading.Condition()

    def enter(self) -> None:
        """Wait for a slot, and for a provider's retry-after to pass."""
        while True:
            with self._changed:
                wait = self._not_before - self._clock.monotonic()
                if wait <= 0 and self._in_flight < self._allowed and self._has_room():
                    self._in_flight += 1
                    self._entered.append(self._clock.monotonic())
                    return
                if wait <= 0:
                    self._changed.wait(timeout=1.0)
                    continue
            self._wait_for(wait)
            self._clock.sleep(wait)

    def _has_room(self) -> bool:
        """Whether one more fits into memory beside those that still grow."""
        if not self._footprint or not self._in_flight:
            return True
        now = self._clock.monotonic()
        self._entered = [entered for entered in self._entered if now - entered < GROWING]
        growing = min(len(self._entered), self._in_flight)
        return self._free() >= RESERVE + (growing + 1) * self._footprint

    def leave(self, error: BaseException | None) -> None:
        """Free the slot and learn from how the call ended."""
        with self._changed:
            self._in_flight -= 1
            if isinstance(error, RateLimited | Overloaded):
                self._allowed = max(1, self._allowed // 2)
                self._calm = 0
            elif error is None:
                self._calm += 1
                if self._calm >= CALM and self._allowed < self._most:
                    self._allowed += 1
                    self._calm = 0
            if isinstance(error, RateLimited | Overloaded) and error.retry_after:
                self._not_before = max(self._not_before, self._clock.monotonic() + error.retry_after)
            self._changed.notify()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """Send while holding a slot. ``admit``: makes the prompt ready to be sent now; what it raises goes on up."""

    limiter: Limiter
    send: SendOnce
    admit: Callable[[Prompt], Prompt] = lambda prompt: prompt

    def __call__(self, prompt: Prompt, *, phase: str, number: int) -> Reply:
        """Send once, when there is room."""
        self.limiter.enter()
        error: BaseException | None = None
        try:
            return self.send(self.admit(prompt), phase=phase, number=number)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.limiter.leave(error)
