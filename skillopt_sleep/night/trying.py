"""How a night tries an edit: the settings of its step, the gate they make, and what stays undecided after it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from skillopt_sleep.domain.account import ALPHA
from skillopt_sleep.domain.candidate import Candidate
from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.edit import EditStatus
from skillopt_sleep.domain.paired import threshold
from skillopt_sleep.domain.pending import PendingEdit, base_digest
from skillopt_sleep.domain.rollout import GateMetric, ReplayResult
from skillopt_sleep.domain.split import Pools
from skillopt_sleep.domain.task import TaskRecord, group_of
from skillopt_sleep.domain.verdict import GateMode, Verdict
from skillopt_sleep.night.outcome import DocumentStep
from skillopt_sleep.optimize.gate import Trial, run_trial
from skillopt_sleep.optimize.replay import Models
from skillopt_sleep.optimize.trial import PairedPlan, run_paired

__all__ = ["ConsolidatePlan", "Gate", "pending_after"]

SAMPLES_A_NIGHT = 1000
"""Numbers of samples set apart for a night: its base replays are new, not those of the night before."""


class ConsolidatePlan(Struct, frozen=True, kw_only=True):
    """The settings of one step.

    ``rollouts_k`` samples of each train task; ``block_cap`` in characters; ``k``: the score that accepts a new edit
    under the paired rule.
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

    @property
    def kinds(self) -> tuple[DocumentKind, ...]:
        """Which documents evolve, in order."""
        wanted = {DocumentKind.SKILL: self.evolve_skill, DocumentKind.MEMORY: self.evolve_memory}
        return tuple(kind for kind, evolves in wanted.items() if evolves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One night's way of trying edits on its val tasks."""

    plan: ConsolidatePlan
    models: Models
    val: tuple[TaskRecord, ...]
    night: str
    seed: int

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
        """Go on with an edit of an earlier night, on as many tasks as tonight's val has, none that wrote it."""
        tasks = pending.unseen((*pools.val, *pools.train))[: len(pools.val) or None]
        return run_paired(tasks, current, proposed, self.models, self._paired(pending.k), before=pending.tally)

    def _paired(self, k: int) -> PairedPlan:
        return PairedPlan(
            k=k,
            metric=self.plan.gate_metric,
            mixed_weight=self.plan.gate_mixed_weight,
            seed=self.seed,
            first_sample=SAMPLES_A_NIGHT * (1 + self.seed % 1_000_000),
        )


def pending_after(step: DocumentStep, current: Candidate, pools: Pools, gate: Gate) -> list[PendingEdit]:
    """What a step leaves undecided, as it goes on another night."""
    document = current[step.kind]
    trial = step.trial
    open_ = step.decision.verdict in {Verdict.UNDECIDED, Verdict.UNMEASURED}
    if trial is None or trial.tally is None or trial.k is None or document is None or not open_:
        return []
    tried = tuple(each.edit for each in step.edits if each.status is EditStatus.PENDING)
    return [
        PendingEdit(
            id=step.id,
            night=gate.night,
            kind=step.kind,
            base=base_digest(document),
            model=gate.models.tried_with,
            k=trial.k,
            edits=tried,
            groups=tuple(sorted({name for task in pools.train for name in (group_of(task), task.id)})),
            tally=trial.tally,
            tasks=step.tasks if trial.tally.pairs else (),
        )
    ]
