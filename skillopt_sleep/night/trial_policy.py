"""How a night tries an edit: the settings of its step, the gate they make, and what stays undecided after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.account import ALPHA
from skillopt_sleep.gate.gate import Trial, run_trial
from skillopt_sleep.gate.pending import Base, PendingEdit
from skillopt_sleep.gate.rule import GateMode, Verdict, threshold
from skillopt_sleep.gate.trial import PairedPlan, run_paired
from skillopt_sleep.model.document import Candidate, DocumentKind
from skillopt_sleep.model.edit import AppliedEdit, EditStatus
from skillopt_sleep.model.rollout import GateMetric, ReplayResult
from skillopt_sleep.model.task import TaskRecord, group_of
from skillopt_sleep.night.outcome import DocumentStep
from skillopt_sleep.night.pools import Pools
from skillopt_sleep.optimizer.replay import Models

SAMPLES_A_TRIAL = 100
"""Numbers of samples by which a trial is moved on after an accept: more than the rounds of a night."""
SAMPLES_A_NIGHT = 1000
"""Numbers of samples set apart for a night: its base replays are new, not those of the night before."""


class ConsolidatePlan(Struct, frozen=True, kw_only=True):
    """The settings of one step.

    ``rollouts_k`` samples of each train task; ``block_cap`` in characters; ``k``: the score that accepts a new edit
    under the paired rule. ``answered_by`` names the backends of target and optimizer.
    """

    edit_budget: int = 4
    rollouts_k: int = 1
    gate_mode: GateMode = GateMode.PAIRED
    gate_metric: GateMetric = GateMetric.MIXED
    gate_mixed_weight: float = 0.5
    evolve_skill: bool = True
    evolve_memory: bool = True
    preferences: str = ""
    block_cap: int = 8000
    k: int = threshold(ALPHA)
    scope: str = "invoked"
    answered_by: tuple[str, str] = ("", "")

    @property
    def kinds(self) -> tuple[DocumentKind, ...]:
        """Which documents evolve, in order."""
        wanted = {DocumentKind.SKILL: self.evolve_skill, DocumentKind.MEMORY: self.evolve_memory}
        return tuple(kind for kind, evolves in wanted.items() if evolves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One night's way of trying edits on its val tasks.

    ``accepted`` counts what it has accepted: the replays that spoke for an edit are not the baseline of the next one,
    for they are those that happened to be good.
    """

    plan: ConsolidatePlan
    models: Models
    val: tuple[TaskRecord, ...]
    night: str
    seed: int
    accepted: int = 0

    def trial(self, current: Candidate, proposed: Candidate, known: tuple[ReplayResult, ...]) -> Trial:
        """Try a new edit. ``known`` are val rollouts of ``current``, which the strict rule uses again."""
        if self.plan.gate_mode is GateMode.PAIRED:
            return run_paired(self.val, current, proposed, self.models, self._paired(self.plan.k))
        return run_trial(
            self.val,
            current,
            proposed,
            self.models,
            metric=self.plan.gate_metric,
            mixed_weight=self.plan.gate_mixed_weight,
            known=known,
        )

    def go_on(self, pending: PendingEdit, pools: Pools, current: Candidate, proposed: Candidate) -> Trial:
        """Go on with an edit of an earlier night, on those of tonight's val tasks that had no part in writing it."""
        tasks = pending.unseen(pools.val)
        trial = run_paired(tasks, current, proposed, self.models, self._paired(pending.k), before=pending.tally)
        if tasks:
            return trial
        why = f"it was written from all of tonight's validation tasks; {pending.needs} would decide"
        return replace(trial, decision=replace(trial.decision, why=why))

    def after(self, steps: Sequence[DocumentStep]) -> Gate:
        """The gate as it tries an edit after these steps."""
        return dataclasses.replace(self, accepted=sum(each.decision.verdict is Verdict.ACCEPT for each in steps))

    @property
    def tries_pending(self) -> bool:
        """Whether undecided edits have a turn tonight: their tallies are of pairs, and no other rule counts those."""
        return bool(self.val) and self.plan.gate_mode is GateMode.PAIRED

    def base(self, current: Candidate) -> Base:
        """All that pairs measured on these documents hold for."""
        return base_of(current, self.models, self.plan)

    def _paired(self, k: int) -> PairedPlan:
        return PairedPlan(
            k=k,
            metric=self.plan.gate_metric,
            mixed_weight=self.plan.gate_mixed_weight,
            seed=self.seed,
            first_sample=SAMPLES_A_NIGHT * (1 + self.seed % 1_000_000) + SAMPLES_A_TRIAL * self.accepted,
        )


def base_of(current: Candidate, models: Models, plan: ConsolidatePlan) -> Base:
    """All that pairs measured on these documents hold for."""
    mixed = plan.gate_metric is GateMetric.MIXED
    target, optimizer = plan.answered_by
    return Base(
        documents=Base.texts(current),
        target=f"{target} {models.target.model}".strip(),
        optimizer=f"{optimizer} {models.optimizer.model}".strip(),
        metric=f"{plan.gate_metric}, {plan.gate_mixed_weight:g} of it hard" if mixed else plan.gate_metric,
        replay=models.manner.mode,
        scope=plan.scope,
    )


def seen_of(tasks: Sequence[TaskRecord]) -> tuple[str, ...]:
    """The ids of these tasks and the names of their groups, for a group may come to be part of another."""
    return tuple(sorted({name for task in tasks for name in (group_of(task), task.id)}))


def may_be_shown(tried: AppliedEdit, train: Sequence[TaskRecord]) -> bool:
    """Whether a reflection on these tasks may be told of a rule that was tried: the rule quotes what it came from.

    So only where that is part of what the reflection sees anyway. Else a reworded rule would be tried on the very task
    that wrote it, tonight or on a later night.
    """
    return bool(tried.seen) and set(tried.seen) <= set(seen_of(train))


def pending_after(
    step: DocumentStep, current: Candidate, pools: Pools, gate: Gate, *, live: Candidate
) -> list[PendingEdit]:
    """What a step that was tried on ``current`` leaves undecided, as it goes on another night."""
    trial = step.trial
    open_ = step.decision.verdict in {Verdict.UNDECIDED, Verdict.UNMEASURED}
    if trial is None or trial.tally is None or trial.k is None or not open_:
        return []
    tried = tuple(each.edit for each in step.edits if each.status is EditStatus.PENDING)
    return [
        PendingEdit(
            id=step.id,
            night=gate.night,
            kind=step.kind,
            k=trial.k,
            edits=tried,
            groups=seen_of(pools.train),
            tally=trial.tally,
            tasks=step.tasks if trial.tally.pairs else (),
            on=gate.base(current),
            atop=current.digest != live.digest,
        )
    ]
