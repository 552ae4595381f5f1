"""Stage: lay the proposal beside the live files, and leave to the next night what this one learnt.

Audit: keep tonight's replays of live documents, and say what all of them tell of the measurement.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate import audit as rule
from skillopt_sleep.gate.account import Account
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.edit import EditStatus
from skillopt_sleep.model.task import Split
from skillopt_sleep.night.outcome import Consolidated
from skillopt_sleep.night.plan import Kit, NightPlan
from skillopt_sleep.night.ports import Trials
from skillopt_sleep.night.report import DocumentChange, NightReport, PendingReport


class Staged(Struct, frozen=True, kw_only=True):
    """Where the proposal lies (None when nothing changed), the documents in it, and the account after this night.

    ``on_hold`` are the undecided edits that the night left as they were, for their document does not evolve.
    """

    proposal: str | None = None
    documents: tuple[DocumentChange, ...] = ()
    account: Account = Account()
    on_hold: tuple[PendingReport, ...] = ()

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        return replace(
            report,
            proposal=self.proposal,
            documents=self.documents,
            account=self.account,
            pending=(*report.pending, *self.on_hold),
        )


def stage(night: str, outcome: Consolidated, plan: NightPlan, kit: Kit) -> Staged:
    """Stage what was accepted; remember what was rejected; mark the tasks of a concluded night as used.

    Tasks of a night that tried nothing, or could not measure enough, stay fresh.
    """
    applied = [edit for edit in outcome.edits if edit.status is EditStatus.APPLIED]
    proposal, documents = kit.staging.stage(night, outcome.baseline, outcome.candidate, applied)
    rejected = [edit for edit in outcome.edits if edit.status is EditStatus.REJECTED]
    kit.rejected.remember(plan.window.scope, night, rejected, outcome.closed(night))
    if outcome.steps and all(step.decision.verdict is not Verdict.UNMEASURED for step in outcome.steps):
        pools = outcome.pools
        dealt = {Split.TRAIN: pools.train, Split.VAL: pools.val, Split.TEST: pools.test}
        kit.archive.used(plan.window.scope, night, {split: [task.id for task in dealt[split]] for split in dealt})
    kit.trials.conclude(plan.project, outcome.pending, outcome.tried(night), settled=outcome.settled)
    return Staged(
        proposal=proposal,
        documents=documents,
        account=kit.trials.account(plan.project),
        on_hold=tuple(map(PendingReport.of, plan.on_hold)),
    )


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
