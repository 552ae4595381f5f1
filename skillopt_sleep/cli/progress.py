"""The progress bar of long work, and an orderly end when a signal stops it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from skillopt_sleep.errors import Interrupted
from skillopt_sleep.model.call import Spend

if TYPE_CHECKING:
    from rich.progress import Progress

    from skillopt_sleep.model import ports

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Ctrl-C, a service manager, a closed terminal. Signals that are ignored, as under nohup, stay ignored."""


class _Bar:
    """``ports.Progress`` as one line on stderr."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=None, spend="")

    def begin(self, total: int) -> None:
        """Start the bar anew."""
        self._progress.reset(self._task, total=total)

    def step(self) -> None:
        """Advance the bar."""
        self._progress.advance(self._task)

    def spent(self, phase: str, spend: Spend) -> None:
        """Show the phase and what was spent."""
        usd = f" · {spend.usd:.2f} USD" if spend.usd else ""
        self._progress.update(self._task, description=phase, spend=f"{spend.calls} calls{usd}")


@contextmanager
def show_progress(hint: str = "") -> Iterator[ports.Progress | None]:
    """Show a progress bar on stderr, None where there is no terminal; a stopping signal raises ``Interrupted``.

    ``hint`` is appended to the message of that error.
    """
    with _stop_on_signal(hint):
        if not sys.stderr.isatty():
            yield None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[spend]}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            yield _Bar(progress)


@contextmanager
def _stop_on_signal(hint: str) -> Iterator[None]:
    """Raise ``Interrupted`` for the first signal; later ones are ignored until the program has ended."""
    numbers = [getattr(signal, name) for name in STOPPING if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers if signal.getsignal(number) is not signal.SIG_IGN}

    def stop(signum: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, _ignore)
        before.clear()
        raise Interrupted(f"stopped by {signal.Signals(signum).name}{hint}", signum=signum)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(_signum: int, _frame: FrameType | None) -> None:
    """Used instead of ``SIG_IGN``, which children inherit and Python complains about for a pending signal."""
