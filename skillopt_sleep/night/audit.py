"""Audit: keep tonight's replays of live documents, and say what all of them tell of the measurement."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain import audit as rule
from skillopt_sleep.domain.report import NightReport
from skillopt_sleep.night.outcome import Consolidated
from skillopt_sleep.night.plan import NightPlan
from skillopt_sleep.ports import Trials

__all__ = ["Audited", "audit"]


class Audited(Struct, frozen=True, kw_only=True):
    """The audit as of tonight."""

    audit: rule.Audit

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        return replace(report, audit=self.audit)


def audit(night: str, outcome: Consolidated, plan: NightPlan, trials: Trials) -> Audited:
    """Keep what was measured anyway, and look at all that was kept: no call is made.

    A night without test tasks speaks of as many as the last one had.
    """
    trials.note(plan.project, night, outcome.base_replays(night), outcome.position)
    found = rule.audit(
        trials.replays(plan.project),
        trials.position(plan.project),
        metric=plan.step.gate_metric,
        mixed_weight=plan.step.gate_mixed_weight,
        val_tasks=len(outcome.pools.val) or plan.audit.val_tasks,
        k=plan.step.k,
    )
    return Audited(audit=found)
