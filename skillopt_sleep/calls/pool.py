"""Independent work in parallel: results in the order of the items, the first failure ends the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from skillopt_sleep.errors import Awaiting, BudgetSpent, FatalBackend
from skillopt_sleep.model.ports import Progress

T = TypeVar("T")
R = TypeVar("R")


class Pool:
    """``ports.Parallel`` over at most ``workers`` threads.

    When one item raises, no further item is started, those under way are left to finish (their replies are paid for
    and kept), and the error is raised: the most serious first, else the one of the earliest item. ``Awaiting`` alone
    ends nothing: all of the wave is asked, and the one that knows of all is raised at its end. An interrupt of the
    waiting thread calls ``on_interrupt``, which is to end what is under way, and goes on up.
    """

    def __init__(
        self, workers: int, *, on_interrupt: Callable[[], None] = lambda: None, progress: Progress | None = None
    ) -> None:
        self._workers = workers
        self._progress = progress
        self._on_interrupt = on_interrupt

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply ``work`` to every item."""
        if not items:
            return []
        stop = threading.Event()
        awaited: list[Awaiting] = []

        def guarded(item: T) -> R | None:
            if stop.is_set():
                return None
            try:
                result = work(item)
            except Awaiting as error:  # the other questions of this wave are to be laid down as well
                awaited.append(error)
                return None
            except BaseException:
                stop.set()  # here, not where it is waited for: this thread would have begun the next item by then
                raise
            if self._progress is not None:
                self._progress.step()
            return result

        if self._progress is not None:
            self._progress.begin(len(items))
        executor = ThreadPoolExecutor(max_workers=min(self._workers, len(items)), thread_name_prefix="night")
        futures: list[Future[R | None]] = [executor.submit(guarded, item) for item in items]
        try:
            wait(futures)
        except BaseException:
            stop.set()
            self._on_interrupt()
            raise
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
        _raise([error for error in (future.exception() for future in futures) if error is not None], awaited)
        return [future.result() for future in futures]  # type: ignore[misc]  # None only after an error


def _raise(errors: Sequence[BaseException], awaited: Sequence[Awaiting]) -> None:
    """Raise what ended the wave, if anything did: a cap that left questions unasked is met again when they are due."""
    capped = all(isinstance(error, BudgetSpent) for error in errors)
    if errors and not (capped and awaited):
        raise next((error for error in errors if isinstance(error, FatalBackend)), errors[0])
    if awaited:
        raise max(awaited, key=lambda error: error.missing)
