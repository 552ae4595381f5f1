"""Runs work in parallel: a pool of threads, and a limit on the calls in flight.

The limit falls when the provider is overloaded, or when this machine runs short of memory: an agent CLI is a process of
a few hundred megabytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from skillopt_sleep.calls.budget import SendOnce
from skillopt_sleep.errors import Awaiting, BudgetSpent, FatalBackend, Overloaded, RateLimited
from skillopt_sleep.model.call import Prompt, Reply
from skillopt_sleep.model.ports import Clock, Progress

T = TypeVar("T")
R = TypeVar("R")

RESERVE = 256 * 2**20
"""Bytes of free memory that calls leave to other programs on the machine."""
LIMIT, USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
"""Files with a container's memory limit and the memory that the container uses."""
CALM = 10
"""Number of answers in a row after which the limit on calls in flight rises by one."""
GROWING = 3.0
"""Seconds in which a new process takes its memory; until then, the limiter treats that memory as taken."""


class Pool:
    """A ``ports.Parallel`` with at most ``workers`` threads.

    When the work on one item raises an error, no other item is started; running ones finish, because their replies are
    paid for and stored. Then the most serious error is raised, or that of the earliest item. Only ``Awaiting`` ends
    nothing: all items are worked on, and the error that counts most missing answers is raised at the end. An interrupt
    of the waiting thread calls ``on_interrupt``, which must end the running items, and is passed on.
    """

    def __init__(
        self, workers: int, *, on_interrupt: Callable[[], None] = lambda: None, progress: Progress | None = None
    ) -> None:
        self._workers = workers
        self._progress = progress
        self._on_interrupt = on_interrupt

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply ``work`` to every item and return the results in the order of the items."""
        if not items:
            return []
        stop = threading.Event()
        awaited: list[Awaiting] = []

        def run(item: T) -> R | None:
            if stop.is_set():
                return None
            try:
                result = work(item)
            except Awaiting as error:  # the other items are to ask their questions as well
                awaited.append(error)
                return None
            except BaseException:
                stop.set()  # here, not by the waiting thread: this one would begin the next item before that
                raise
            if self._progress is not None:
                self._progress.step()
            return result

        if self._progress is not None:
            self._progress.begin(len(items))
        executor = ThreadPoolExecutor(max_workers=min(self._workers, len(items)), thread_name_prefix="night")
        futures: list[Future[R | None]] = [executor.submit(run, item) for item in items]
        try:
            wait(futures)
        except BaseException:
            stop.set()
            self._on_interrupt()
            raise
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
        _raise_first([error for error in (future.exception() for future in futures) if error is not None], awaited)
        return [future.result() for future in futures]  # type: ignore[misc]  # None only after an error


def read_free_memory() -> int:
    """Return the bytes that new processes could use without swapping, within the limit of a container."""
    import psutil  # noqa: PLC0415  only for those who start children

    free = int(psutil.virtual_memory().available)
    try:
        return min(free, int(LIMIT.read_text()) - int(USED.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit, which says "max"
        return free


class Limiter:
    """Allows 1 to ``most`` calls in flight: half as many after an overload, one more after ``CALM`` answers in a row.

    Each call takes ``footprint`` bytes of memory on this machine; only as many run as fit into the ``free`` memory, but
    always one. ``before_wait`` is called with the seconds of each wait before the wait begins; its errors are passed
    on.
    """

    def __init__(
        self,
        most: int,
        clock: Clock,
        *,
        footprint: int = 0,
        free: Callable[[], int] = read_free_memory,
        before_wait: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._most = self._allowed = most
        self._clock = clock
        self._footprint = footprint
        self._free = free
        self._before_wait = before_wait
        self._entered: list[float] = []
        self._in_flight = 0
        self._calm = 0
        self._not_before = 0.0
        self._changed = threading.Condition()

    def enter(self) -> None:
        """Wait for a slot, and until a provider's retry-after has passed."""
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
            self._before_wait(wait)
            self._clock.sleep(wait)

    def leave(self, error: BaseException | None) -> None:
        """Free the slot, and adapt the limit to how the call ended."""
        with self._changed:
            self._in_flight -= 1
            if isinstance(error, RateLimited | Overloaded):
                self._allowed = max(1, self._allowed // 2)
                self._calm = 0
                if error.retry_after:
                    self._not_before = max(self._not_before, self._clock.monotonic() + error.retry_after)
            elif error is None:
                self._calm += 1
                if self._calm >= CALM and self._allowed < self._most:
                    self._allowed += 1
                    self._calm = 0
            self._changed.notify()

    def _has_room(self) -> bool:
        """Tell whether the memory for one more call is free, after what recently started calls will still take."""
        if not self._footprint or not self._in_flight:
            return True
        now = self._clock.monotonic()
        self._entered = [entered for entered in self._entered if now - entered < GROWING]
        growing = min(len(self._entered), self._in_flight)
        return self._free() >= RESERVE + (growing + 1) * self._footprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """Sends a call while the call occupies a slot of the limiter."""

    limiter: Limiter
    send: SendOnce
    admit: Callable[[Prompt], Prompt] = lambda prompt: prompt
    """Prepares the prompt for being sent now; its errors are passed on."""

    def __call__(self, prompt: Prompt, *, phase: str, number: int) -> Reply:
        """Wait for a slot, then send the prompt and return the reply."""
        self.limiter.enter()
        error: BaseException | None = None
        try:
            return self.send(self.admit(prompt), phase=phase, number=number)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.limiter.leave(error)


def _raise_first(errors: Sequence[BaseException], awaited: Sequence[Awaiting]) -> None:
    """Raise the error that ended the work; an awaited answer comes before a spent cap, which will be met again."""
    capped = all(isinstance(error, BudgetSpent) for error in errors)
    if errors and not (capped and awaited):
        raise next((error for error in errors if isinstance(error, FatalBackend)), errors[0])
    if awaited:
        raise max(awaited, key=lambda error: error.missing)
