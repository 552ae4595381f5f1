"""The wrappers in their order: what every model call of a night passes on its way out and back.

Try again what transport lost, waiting longer each time, until the backend is plainly gone.

Retry sits outside budget and limiter: every attempt is counted and paid from the caps, and none holds a slot while it
waits.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skillopt_sleep.calls.budget import Budget, Budgeted
from skillopt_sleep.calls.limiter import Limited, Limiter
from skillopt_sleep.calls.send import Ledgered, Recorded, SendOnce
from skillopt_sleep.errors import BackendUnusable, TimedOut, TooLong, TransientBackend
from skillopt_sleep.model.call import Allowance, Caps, Prompt, Reply, Role
from skillopt_sleep.model.ports import Ask, Backend, Clock, Ledger, Priced, Progress, RunsHere

if TYPE_CHECKING:
    from skillopt_sleep.safety.redaction.redactor import Redactor

ATTEMPTS = 4
ATTEMPTS_AFTER_TIMEOUT = 2
"""A call that hung once may be unlucky; a second whole deadline is all it is worth."""
FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0


class Breaker:
    """Counts calls lost one after the other, over all threads; ``limit`` in a row without an answer end the night."""

    def __init__(self, limit: int = 4) -> None:
        self._limit = limit
        self._lost = 0
        self._lock = threading.Lock()

    def answered(self) -> None:
        """Forget the losses: the backend is alive."""
        self._lost = 0

    def lost(self, error: TransientBackend) -> None:
        """Count a call that every attempt lost; raises ``BackendUnusable`` at the limit."""
        with self._lock:
            self._lost += 1
            if self._lost >= self._limit:
                raise BackendUnusable(
                    f"{self._lost} calls in a row were lost ({type(error).__name__}: {error}); nothing is scored and"
                    " nothing is forgotten: run again when the service is back"
                ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """Up to ``ATTEMPTS`` tries with jittered exponential waits in seconds; a provider's retry-after is honoured.

    What is too long is not tried again. ``wait_for``: told each wait before it is begun; what it raises goes on up.
    """

    send: SendOnce
    clock: Clock
    breaker: Breaker = field(default_factory=Breaker)
    first_wait: float = FIRST_WAIT
    wait_for: Callable[[float], None] = lambda _: None

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Answer, or raise the last attempt's error."""
        number = 1
        while True:
            try:
                reply = self.send(prompt, phase=phase, number=number)
            except TooLong:
                self.breaker.answered()  # the service lives, it is the prompt that is at fault
                raise
            except TransientBackend as error:
                if number >= (ATTEMPTS_AFTER_TIMEOUT if isinstance(error, TimedOut) else ATTEMPTS):
                    self.breaker.lost(error)
                    raise
                wait = self._wait(number, error)
                self.wait_for(wait)
                self.clock.sleep(wait)
                number += 1
            else:
                self.breaker.answered()
                return reply

    def _wait(self, number: int, error: TransientBackend) -> float:
        backoff: float = self.first_wait * 2.0 ** (number - 1) * random.uniform(0.5, 1.5)  # noqa: S311  jitter, no secret
        asked = error.retry_after
        return min(LONGEST_WAIT, backoff) if asked is None else max(asked, min(LONGEST_WAIT, backoff))


def chain(
    backends: Mapping[Role, Backend],
    ledger: Ledger,
    clock: Clock,
    *,
    caps: Caps,
    day: Allowance | None = None,
    workers: int,
    first_wait: float = FIRST_WAIT,
    progress: Progress | None = None,
    redactor: Redactor | None = None,
) -> Mapping[Role, Ask]:
    """Each role's way to its backend: ledger, retry, budget, limit, record; over one budget and one limit.

    The breaker is that of a model: another one that answers does not bring it back to life.
    """
    budget = Budget(caps, ledger.spent(), clock, day, workers=workers)
    footprint = max((each.footprint for each in backends.values() if isinstance(each, RunsHere)), default=0)
    limiter = Limiter(workers, clock, footprint=footprint, wait_for=budget.wait_for)
    breakers: dict[tuple[str, str], Breaker] = {}

    def link(role: Role, backend: Backend) -> Ask:
        model = f"{backend.name}:{backend.model}"
        recorded = Recorded(role=role, model=model, backend=backend, ledger=ledger, clock=clock, redactor=redactor)
        limited = Limited(limiter=limiter, send=recorded, admit=budget.admit)
        priced = backend.priced if isinstance(backend, Priced) else True
        budgeted = Budgeted(budget=budget, send=limited, progress=progress, line=model, priced=priced)
        breaker = breakers.setdefault((model, backend.sees), Breaker())
        retried = Retried(send=budgeted, clock=clock, breaker=breaker, first_wait=first_wait, wait_for=budget.wait_for)
        return Ledgered(role=role, model=model, ledger=ledger, send=retried)

    return {role: link(role, backend) for role, backend in backends.items()}
