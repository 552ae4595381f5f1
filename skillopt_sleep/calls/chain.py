"""The wrappers in their order: what every model call of a night passes on its way out and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from skillopt_sleep.calls.budget import Budget, Budgeted
from skillopt_sleep.calls.ledgered import Ledgered
from skillopt_sleep.calls.limit import Limited, Limiter
from skillopt_sleep.calls.retry import FIRST_WAIT, Breaker, Retried
from skillopt_sleep.calls.send import Recorded
from skillopt_sleep.domain.budget import Allowance, Caps
from skillopt_sleep.domain.call import Role
from skillopt_sleep.ports import Ask, Backend, Clock, Ledger, Priced, Progress, RunsHere

if TYPE_CHECKING:
    from skillopt_sleep.domain.redact import Redactor

__all__ = ["chain"]


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
