"""Tries edits on a night's validation tasks: new ones, and those that earlier nights left undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from skillopt_sleep.gate.account import Trial
from skillopt_sleep.gate.pending import Base, PendingEdit
from skillopt_sleep.gate.rule import GateMode, Verdict
from skillopt_sleep.gate.trial import PairedPlan, run_paired_trial, run_strict_trial
from skillopt_sleep.model.document import Candidate
from skillopt_sleep.model.edit import AppliedEdit, EditStatus
from skillopt_sleep.model.rollout import GateMetric, ReplayResult
from skillopt_sleep.model.task import TaskRecord, group_of
from skillopt_sleep.night.outcome import DocumentStep
from skillopt_sleep.night.plan import ConsolidatePlan
from skillopt_sleep.night.pools import Pools
from skillopt_sleep.optimizer.replay import Models

SAMPLES_PER_TRIAL = 100
"""Sample numbers reserved for a trial: more than the rounds of a night, so that trials share no replay."""
SAMPLES_PER_NIGHT = 1000
"""Sample numbers reserved for a night: its base replays are new, not those of the night before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRunner:
    """Runs the trials of one night with the settings of its step."""

    plan: ConsolidatePlan
    models: Models
    pools: Pools
    night: str
    seed: int

    @property
    def retries_pending(self) -> bool:
        """Whether undecided edits are tried tonight: only the paired rule continues a tally."""
        return bool(self.pools.val) and self.plan.gate_mode is GateMode.PAIRED

    def try_new(
        self, current: Candidate, proposed: Candidate, known: tuple[ReplayResult, ...], *, accepted: int
    ) -> Trial:
        """Try a new edit.

        ``known`` are validation rollouts of ``current``, which the strict rule uses again. ``accepted`` counts the
        edits accepted tonight: replays that spoke for one were selected for being good, so they must not become the
        baseline of the next.
        """
        if self.plan.gate_mode is GateMode.PAIRED:
            return run_paired_trial(
                self.pools.val, current, proposed, self.models, self._build_paired_plan(self.plan.k, accepted)
            )
        return run_strict_trial(
            self.pools.val,
            current,
            proposed,
            self.models,
            metric=self.plan.gate_metric,
            mixed_weight=self.plan.gate_mixed_weight,
            known=known,
        )

    def retry(self, pending: PendingEdit, current: Candidate, proposed: Candidate) -> Trial:
        """Continue the trial of an undecided edit on tonight's validation tasks that it was not written from."""
        tasks = pending.unseen(self.pools.val)
        plan = self._build_paired_plan(pending.k, accepted=0)
        trial = run_paired_trial(tasks, current, proposed, self.models, plan, before=pending.tally)
        if tasks:
            return trial
        why = f"it was written from all of tonight's validation tasks; {pending.needs} would decide"
        return replace(trial, decision=replace(trial.decision, why=why))

    def keep_undecided(self, step: DocumentStep, current: Candidate, *, live: Candidate) -> list[PendingEdit]:
        """Return what a step that was tried on ``current`` leaves undecided for another night."""
        trial = step.trial
        is_open = step.decision.verdict in {Verdict.UNDECIDED, Verdict.UNMEASURED}
        if trial is None or trial.tally is None or trial.k is None or not is_open:
            return []
        return [
            PendingEdit(
                id=step.id,
                night=self.night,
                kind=step.kind,
                k=trial.k,
                edits=tuple(applied.edit for applied in step.edits if applied.status is EditStatus.PENDING),
                groups=list_seen_names(self.pools.train),
                tally=trial.tally,
                tasks=step.tasks if trial.tally.pairs else (),
                on=self.find_base(current),
                atop=current.digest != live.digest,
            )
        ]

    def find_base(self, current: Candidate) -> Base:
        """Everything that pairs measured on these documents depend on."""
        return find_base(current, self.models, self.plan)

    def _build_paired_plan(self, k: int, accepted: int) -> PairedPlan:
        return PairedPlan(
            k=k,
            metric=self.plan.gate_metric,
            mixed_weight=self.plan.gate_mixed_weight,
            seed=self.seed,
            first_sample=SAMPLES_PER_NIGHT * (1 + self.seed % 1_000_000) + SAMPLES_PER_TRIAL * accepted,
        )


def find_base(current: Candidate, models: Models, plan: ConsolidatePlan) -> Base:
    """Everything that pairs measured on these documents depend on: texts, models, metric, replay mode, scope."""
    mixed = plan.gate_metric is GateMetric.MIXED
    target, optimizer = plan.answered_by
    return Base(
        documents=Base.describe_documents(current),
        target=f"{target} {models.target.model}".strip(),
        optimizer=f"{optimizer} {models.optimizer.model}".strip(),
        metric=f"{plan.gate_metric}, {plan.gate_mixed_weight:g} of it hard" if mixed else plan.gate_metric,
        replay=models.manner.mode,
        scope=plan.scope,
    )


def list_seen_names(tasks: Sequence[TaskRecord]) -> tuple[str, ...]:
    """Return the ids of these tasks and the names of their groups: a group may later join another."""
    return tuple(sorted({name for task in tasks for name in (group_of(task), task.id)}))


def may_be_shown(tried: AppliedEdit, train: Sequence[TaskRecord]) -> bool:
    """Tell whether analysts of these tasks may see a rule that was tried: only if it was written from these very tasks.

    A rule quotes what it came from. Otherwise a reworded copy could be tried on the task that wrote it.
    """
    return bool(tried.seen) and set(tried.seen) <= set(list_seen_names(train))
