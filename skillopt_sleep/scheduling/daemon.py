"""The daemon in the foreground: APScheduler wakes the attendant, signals end or reload it.

APScheduler sleeps by a clock that stands still while a laptop does, and until times that a clock put back leaves far
ahead. So it is woken once a minute, and what is due is asked anew each time.

Whether this machine runs on its battery, where that can be told.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import FrameType

from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from skillopt_sleep.errors import Interrupted, SleepError
from skillopt_sleep.scheduling.attend import Attendant

TICK = timedelta(minutes=1)
"""Between two looks, as long as nothing is due sooner."""
STOPPING = ("SIGINT", "SIGTERM")


class Wakes(BaseTrigger):  # type: ignore[misc]  # the library has no types
    """A minute from now, or when the next night is due if that is sooner; as many misfires as there were are one."""

    def __init__(self, attendant: Attendant) -> None:
        self._attendant = attendant

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:  # noqa: ARG002
        """The next moment to look; in a minute where the schedule cannot be read, which the look says.

        Raises nothing: it would end the scheduler's thread, and nobody would hear of it.
        """
        try:
            due = self._attendant.wake_at(now)
        except (SleepError, OSError):
            due = None
        return min(now + TICK, due) if due is not None else now + TICK


def attend_for_ever(
    attendant: Attendant, end_night: Callable[[], bool], say: Callable[[str], None], *, terminal: bool = False
) -> int:
    """Attend a schedule until a signal comes. A night under way is ended, to be gone on with.

    The exit code is 0 when there was none, else that of whoever is ended by the signal. ``end_night`` tells. It is 1
    when nobody wakes any more: then there is no use in staying.

    SIGHUP looks at the schedule again, unless it is a ``terminal`` that went away.
    """
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)  # a night takes longer than a tick, which is as it is
    scheduler = _Scheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(1)})
    scheduler.add_listener(_Failed(say), EVENT_JOB_ERROR)
    job = scheduler.add_job(
        attendant.look,
        Wakes(attendant),
        next_run_time=datetime.now(tz=UTC),
        coalesce=True,
        max_instances=2,  # one at work in the only thread, and one that comes after it: no bell is lost
        misfire_grace_time=None,
    )
    scheduler.start()
    try:
        with _signals(terminal=terminal) as bell:
            while not scheduler.over:
                if bell.wait(TICK.total_seconds()):
                    say("looks at the schedule again")
                    job.modify(next_run_time=datetime.now(tz=UTC))
                elif job.next_run_time > datetime.now(tz=UTC) + 2 * TICK:  # the clock was put back
                    job.modify(next_run_time=datetime.now(tz=UTC))
    except Interrupted as error:
        code = error.exit_code
    else:
        say(f"nobody wakes any more ({scheduler.over}), so this leaves with 1; start it again")
        code = 1
    attendant.stopping = True
    cut = end_night()
    scheduler.shutdown()
    return code if cut or scheduler.over else 0


class _Scheduler(BackgroundScheduler):  # type: ignore[misc]  # the library has no types
    """Knows when its thread has come to its end, which the library tells nobody; ``over`` says of what."""

    over = ""
    _ending = False

    def shutdown(self, *arguments: object, **named: object) -> None:
        """An end that was asked for."""
        self._ending = True
        super().shutdown(*arguments, **named)

    def _main_loop(self) -> None:
        why = "its thread ended"
        try:
            super()._main_loop()
        except Exception as error:  # noqa: BLE001  whatever it is, the daemon is of no use any more
            why = f"{type(error).__name__}: {error}"
        if not self._ending:
            self.over = why


class _Failed:
    """Says of a look that failed in a way nobody foresaw, once; the library keeps it to itself and goes on."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said = ""

    def __call__(self, event: JobExecutionEvent) -> None:
        """Hear of it."""
        why = f"{type(event.exception).__name__}: {event.exception}"
        if why != self._said:
            self._say(f"an error of this program ({why}); it is tried again in a minute")
        self._said = why


def attend_once(attendant: Attendant, end_night: Callable[[], bool]) -> int:
    """Hold the nights that are due and leave; wait while one is due and may not begin.

    The exit code is that of the last night that did not end well, 1 when attending itself fails.
    """
    left, done = threading.Event(), threading.Event()

    def attend() -> None:
        while attendant.look() and not left.wait(TICK.total_seconds()):
            pass
        done.set()

    worker = threading.Thread(target=attend, name="attendant")
    worker.start()
    code = 0
    try:
        with _signals(terminal=True):  # nothing would be gained by looking again
            while worker.is_alive():
                worker.join(0.2)
    except Interrupted as error:
        code = error.exit_code
    attendant.stopping = True
    left.set()
    cut = end_night()
    worker.join()
    if not done.is_set():  # the thread has said on stderr why
        return 1
    return code if cut else attendant.code


class _Bell:
    """Wakes whoever waits for it in the same thread, as only an exception can."""

    def __init__(self) -> None:
        self._waiting = False
        self._rung = False

    def ring(self, _signum: int, _frame: FrameType | None) -> None:
        """A signal's handler."""
        self._rung = True
        if self._waiting:
            self._waiting = False
            raise _Rung

    def wait(self, seconds: float) -> bool:
        """Wait that long, or until it rings; whether it has rung."""
        with contextlib.suppress(_Rung):  # that it rang is all there is to know, and is kept
            self._waiting = True
            if not self._rung:
                time.sleep(seconds)
            self._waiting = False
        rung, self._rung = self._rung, False
        return rung


class _Rung(Exception):
    """A bell has rung."""


@contextmanager
def _signals(*, terminal: bool) -> Iterator[_Bell]:
    """Raise ``Interrupted`` in this thread for the first signal that ends a program, and hear no second one.

    SIGHUP rings a bell, unless a terminal went away.
    """
    names = (*STOPPING, "SIGHUP") if terminal else STOPPING
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    bell = _Bell()

    def stop(signum: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, _deaf)
        raise Interrupted(f"stopped by {signal.Signals(signum).name}", signum=signum)

    for number in numbers:
        signal.signal(number, stop)
    if hasattr(signal, "SIGHUP") and not terminal:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, bell.ring)
    yield bell
    for number, handler in before.items():  # not after a signal: deaf until the program has ended
        signal.signal(number, handler)


def _deaf(_signum: int, _frame: FrameType | None) -> None:
    """Not ``SIG_IGN``, which children inherit."""


def on_battery() -> bool:
    """Whether the machine is known to run on battery; one that has none, or does not tell, does not."""
    import psutil  # noqa: PLC0415  only when a night is due

    ask = getattr(psutil, "sensors_battery", None)  # not every system has it
    battery = ask() if ask else None
    return battery is not None and battery.power_plugged is False
