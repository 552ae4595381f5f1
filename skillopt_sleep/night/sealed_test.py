"""Unseal: an adopted change is scored on the sealed tasks, once, for the record; nothing is decided by it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import BackendError, BudgetSpent
from skillopt_sleep.gate.rule import MIN_MEASURED_SHARE, Result
from skillopt_sleep.gate.trial import PairedPlan, PairRow, measure_pairs
from skillopt_sleep.model.rollout import ReplayResult, combine
from skillopt_sleep.model.task import TaskRecord, may_ask_model
from skillopt_sleep.night.plan import NightPlan
from skillopt_sleep.night.ports import Trials
from skillopt_sleep.night.report import NightReport, SealedTest
from skillopt_sleep.optimizer.replay import Models


class Unsealed(Struct, frozen=True, kw_only=True):
    """The sealed test of tonight, None when none was due."""

    test: SealedTest | None = None

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        return replace(report, sealed=self.test)


def unseal(
    night: str, plan: NightPlan, tasks: Sequence[TaskRecord], models: Models, trials: Trials, *, calls_left: int
) -> Unsealed:
    """Replay the sealed ``tasks`` once before and once after the change that waits for it.

    It is put off while the calls that are left would not do, and whatever goes wrong with calls only puts it off: the
    night has its verdict by then. A night that began to replay counts as a try.
    """
    due = plan.adopted
    if due is None or not tasks:
        return Unsealed()
    put_off = SealedTest(change=due.change, night=night, tasks=len(tasks), attempts=due.attempts)
    needed = sum(3 if may_ask_model(task.reference) else 2 for task in tasks)
    if needed > calls_left:
        return Unsealed(test=replace(put_off, why=f"it takes {needed} calls, and tonight {calls_left} were left"))
    put_off = replace(put_off, attempts=trials.attempt(plan.project, due.change, night))
    step = plan.step
    trial = PairedPlan(k=step.k, metric=step.gate_metric, mixed_weight=step.gate_mixed_weight, seed=0, first_sample=0)
    try:
        rows = measure_pairs([(task, 0) for task in tasks], (due.before, due.after), models, trial, phase="test")
    except (BackendError, BudgetSpent) as error:
        return Unsealed(test=replace(put_off, why=str(error)))
    if len(rows) < len(tasks):
        return Unsealed(test=replace(put_off, why=f"a cap came after {len(rows)} of {len(tasks)} tasks"))
    measured = [row for row in rows if row.result is not None]
    if len(measured) < MIN_MEASURED_SHARE * len(rows):
        return Unsealed(test=replace(put_off, why=f"only {len(measured)} of {len(rows)} tasks could be measured"))
    test = _scored(put_off, measured, trial)
    trials.scored(plan.project, test)
    return Unsealed(test=test)


def _scored(test: SealedTest, rows: Sequence[PairRow], trial: PairedPlan) -> SealedTest:
    results = [row.result for row in rows]
    return replace(
        test,
        tasks=len(rows),
        wins=results.count(Result.WIN),
        losses=results.count(Result.LOSS),
        ties=results.count(Result.TIE),
        before=_mean([row.baseline for row in rows], trial),
        after=_mean([row.candidate for row in rows], trial),
    )


def _mean(results: Sequence[ReplayResult], trial: PairedPlan) -> float:
    return fmean(combine(each.score, trial.metric, trial.mixed_weight) for each in results if each.score is not None)
