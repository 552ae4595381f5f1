"""A night's connection: both roles behind the wrappers every call passes, and one way to end all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from skillopt_sleep.calls.chain import chain
from skillopt_sleep.calls.clock import SystemClock
from skillopt_sleep.calls.pool import Pool
from skillopt_sleep.domain.budget import Allowance, Caps
from skillopt_sleep.domain.call import Role
from skillopt_sleep.domain.report import BackendHealth
from skillopt_sleep.night.probe import health_of
from skillopt_sleep.optimize.replay import Manner, Models
from skillopt_sleep.ports import Backend, Judge, Ledger, Progress

if TYPE_CHECKING:
    from skillopt_sleep.domain.redact import Redactor

__all__ = ["NightConnection"]


class NightConnection:
    """``night.plan.Connection`` over two backends, one budget, one limit and one breaker."""

    def __init__(
        self,
        backends: Mapping[Role, Backend],
        judges: Mapping[str, Judge],
        ledger: Ledger,
        clock: SystemClock,
        *,
        caps: Caps,
        day: Allowance | None = None,
        workers: int,
        first_wait: float,
        progress: Progress | None,
        redactor: Redactor | None = None,
        manner: Manner = Manner(),  # noqa: B008  frozen
    ) -> None:
        self._backends = backends
        self._clock = clock
        asks = chain(
            backends,
            ledger,
            clock,
            caps=caps,
            day=day,
            workers=workers,
            first_wait=first_wait,
            progress=progress,
            redactor=redactor,
        )
        self.models = Models(
            target=asks[Role.TARGET],
            optimizer=asks[Role.OPTIMIZER],
            judges=judges,
            parallel=Pool(workers, on_interrupt=self._interrupt, progress=progress),
            manner=manner,
        )

    def probe(self) -> tuple[BackendHealth, ...]:
        """Look at both backends."""
        return health_of(self._backends)

    def close(self) -> None:
        """End what is under way, and leave nothing behind."""
        for backend in self._backends.values():
            backend.close()

    def _interrupt(self) -> None:
        """Wake who waits for another try, then end what is under way."""
        self._clock.stop()
        self.close()
