"""Expect: what the night will take, known as soon as its tasks are, to be compared with what it took."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.budget import Expected
from skillopt_sleep.domain.expect import expected_calls
from skillopt_sleep.domain.pending import tonight
from skillopt_sleep.domain.report import NightReport
from skillopt_sleep.domain.split import Pools
from skillopt_sleep.night.plan import NightPlan

__all__ = ["Outlook", "expect"]


class Outlook(Struct, frozen=True, kw_only=True):
    """Calls by phase, at least and at most, of all that is still to come."""

    phases: tuple[Expected, ...]

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        return replace(report, expected=self.phases)


def expect(pools: Pools, plan: NightPlan) -> Outlook:
    """Count the calls that the pools will take; mining is over."""
    phases = expected_calls(
        pools,
        samples=plan.step.rollouts_k,
        documents=len(plan.step.kinds),
        mode=plan.step.gate_mode,
        mining_batches=0,
        sealed=plan.adopted is not None,
        probed=plan.manner.probes,
        pending=len(tonight(plan.going_on)[0]),
    )
    return Outlook(phases=tuple(each for each in phases if each.most))
