"""Concludes a night: score an adopted change on the sealed tasks, stage the proposal, audit the measurement.

None of these changes the verdict. An adopted change is scored once, because whoever looks at a test again and again
ends up fitting it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import BackendError, BudgetSpent
from skillopt_sleep.gate import noise
from skillopt_sleep.gate.account import Account
from skillopt_sleep.gate.pairs import PairedPlan, PairRow, measure_pairs
from skillopt_sleep.gate.rule import MIN_MEASURED_SHARE, Verdict
from skillopt_sleep.gate.tally import Result
from skillopt_sleep.model.edit import EditStatus
from skillopt_sleep.model.rollout import ReplayResult, combine
from skillopt_sleep.model.rules import land_elsewhere
from skillopt_sleep.model.task import Split, TaskRecord, may_ask_model
from skillopt_sleep.night.outcome import Consolidated
from skillopt_sleep.night.plan import Kit, NightPlan
from skillopt_sleep.night.ports import Proposed, Trials
from skillopt_sleep.night.report import DocumentChange, NightReport, PendingReport, SealedTest
from skillopt_sleep.optimizer.replay import Models


class Unsealed(Struct, frozen=True, kw_only=True):
    """Tonight's sealed test; None when none was due."""

    test: SealedTest | None = None

    def add_to(self, report: NightReport) -> NightReport:
        """Add the test to the night's report."""
        return replace(report, sealed=self.test)


def score_sealed_test(
    night: str, plan: NightPlan, tasks: Sequence[TaskRecord], models: Models, trials: Trials, *, calls_left: int
) -> Unsealed:
    """Replay the sealed ``tasks`` once without and once with the adopted change that waits for its test.

    The test is postponed when the calls left do not suffice and when calls fail: the night already has its verdict. A
    night that began to replay counts as an attempt.
    """
    due = plan.adopted
    if due is None or not tasks:
        return Unsealed()
    postponed = SealedTest(change=due.change, night=night, tasks=len(tasks), attempts=due.attempts)
    needed = sum(3 if may_ask_model(task.reference) else 2 for task in tasks)
    if needed > calls_left:
        return Unsealed(test=replace(postponed, why=f"it takes {needed} calls, and tonight {calls_left} were left"))
    postponed = replace(postponed, attempts=trials.attempt(plan.project, due.change, night))
    step = plan.step
    trial = PairedPlan(k=step.k, metric=step.gate_metric, mixed_weight=step.gate_mixed_weight, seed=0, first_sample=0)
    try:
        rows = measure_pairs([(task, 0) for task in tasks], (due.before, due.after), models, trial, phase="test")
    except (BackendError, BudgetSpent) as error:
        return Unsealed(test=replace(postponed, why=str(error)))
    if len(rows) < len(tasks):
        return Unsealed(test=replace(postponed, why=f"a cap came after {len(rows)} of {len(tasks)} tasks"))
    measured = [row for row in rows if row.result is not None]
    if len(measured) < MIN_MEASURED_SHARE * len(rows):
        return Unsealed(test=replace(postponed, why=f"only {len(measured)} of {len(rows)} tasks could be measured"))
    test = _score_rows(postponed, measured, trial)
    trials.scored(plan.project, test)
    return Unsealed(test=test)


def _score_rows(test: SealedTest, rows: Sequence[PairRow], trial: PairedPlan) -> SealedTest:
    def mean(results: Sequence[ReplayResult]) -> float:
        return fmean(
            combine(result.score, trial.metric, trial.mixed_weight) for result in results if result.score is not None
        )

    results = [row.result for row in rows]
    return replace(
        test,
        tasks=len(rows),
        wins=results.count(Result.WIN),
        losses=results.count(Result.LOSS),
        ties=results.count(Result.TIE),
        before=mean([row.baseline for row in rows]),
        after=mean([row.candidate for row in rows]),
    )


class Staged(Struct, frozen=True, kw_only=True):
    """Where the proposal is, and the account after this night."""

    proposal: str | None = None
    """The folder of the proposal; None when nothing changed."""
    documents: tuple[DocumentChange, ...] = ()
    account: Account = Account()
    on_hold: tuple[PendingReport, ...] = ()
    """Undecided edits that wait because their document does not evolve."""
    pending: tuple[PendingReport, ...] = ()
    """The other undecided edits, with the requests that they still miss."""

    def add_to(self, report: NightReport) -> NightReport:
        """Add the proposal to the night's report."""
        pending = (*(self.pending or report.pending), *self.on_hold)
        edited = tuple(change.edited for change in self.documents if change.edited)
        untried = tuple(
            f"{change.path.removeprefix(f'{report.project}/')}: {change.untried}"
            for change in self.documents
            if change.untried
        )
        return replace(
            report,
            proposal=self.proposal,
            documents=self.documents,
            account=self.account,
            pending=pending,
            notes=(*report.notes, *edited, *untried),
        )


def stage_proposal(night: str, outcome: Consolidated, plan: NightPlan, kit: Kit) -> Staged:
    """Stage what was accepted, remember what was rejected, and mark the tasks as used.

    The tasks of a night that tried nothing, or could not measure enough, stay fresh.
    """
    applied = [edit for edit in outcome.edits if edit.status is EditStatus.APPLIED]
    bounds = plan.step.memory_bounds
    elsewhere = [
        Proposed(landing.documents, *land_elsewhere(landing.documents, applied, bounds), landing.untried)
        for landing in (plan.landings if outcome.candidate != outcome.baseline else ())
    ]
    here = Proposed(outcome.baseline, outcome.candidate, applied, plan.untried)
    proposal, documents = kit.staging.stage(night, *here, also=elsewhere)
    rejected = [edit for edit in outcome.edits if edit.status is EditStatus.REJECTED]
    kit.rejected.remember(plan.window.scope, night, rejected, outcome.list_closed(night))
    pools = outcome.pools
    if outcome.steps and all(step.decision.verdict is not Verdict.UNMEASURED for step in outcome.steps):
        dealt = {Split.TRAIN: pools.train, Split.VAL: pools.val, Split.TEST: pools.test}
        kit.archive.used(plan.window.scope, night, {split: [task.id for task in dealt[split]] for split in dealt})
    kit.trials.conclude(plan.project, outcome.pending, outcome.list_tried(night), settled=outcome.settled)
    known = (*kit.archive.tasks(plan.window.scope), *pools.train, *pools.val)
    return Staged(
        proposal=proposal,
        documents=documents,
        account=kit.trials.account(plan.project),
        on_hold=tuple(map(PendingReport.of, plan.on_hold)),
        pending=tuple(PendingReport.of(life.among(known)) for life in outcome.pending),
    )


class Audited(Struct, frozen=True, kw_only=True):
    """The audit after this night."""

    audit: noise.NoiseReport

    def add_to(self, report: NightReport) -> NightReport:
        """Add the audit to the night's report."""
        return replace(report, audit=self.audit)


def audit(night: str, outcome: Consolidated, plan: NightPlan, trials: Trials) -> Audited:
    """Store tonight's replays of live documents, and audit all that are stored; no call is made.

    For a night without validation tasks, the audit assumes as many as the last night had.
    """
    trials.note(plan.project, night, outcome.list_base_replays(night), outcome.position)
    found = noise.measure_noise(
        trials.replays(plan.project),
        trials.position(plan.project),
        metric=plan.step.gate_metric,
        mixed_weight=plan.step.gate_mixed_weight,
        val_tasks=len(outcome.pools.val) or plan.audit.val_tasks,
        k=plan.step.k,
    )
    return Audited(audit=found)
