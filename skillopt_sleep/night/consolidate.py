"""Consolidate: train rollouts, reflection, bounded edits and the gate, for the skill first and the memory after it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.candidate import Candidate
from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.edit import AppliedEdit, EditRecord, EditStatus, apply_edits
from skillopt_sleep.domain.guard import guard
from skillopt_sleep.domain.rollout import GateMetric, ReplayResult
from skillopt_sleep.domain.split import Pools
from skillopt_sleep.domain.verdict import Decision, GateMode, Verdict
from skillopt_sleep.night.outcome import Consolidated, DocumentStep
from skillopt_sleep.optimize.gate import run_trial
from skillopt_sleep.optimize.reflect import Lesson, Reflection, reflect
from skillopt_sleep.optimize.replay import Attempt, Models, replay

__all__ = ["ConsolidatePlan", "consolidate"]


class ConsolidatePlan(Struct, frozen=True, kw_only=True):
    """The settings of one step. ``rollouts_k`` samples of each train task; ``block_cap`` in characters."""

    edit_budget: int = 4
    rollouts_k: int = 1
    gate_mode: GateMode = GateMode.STRICT
    gate_metric: GateMetric = GateMetric.MIXED
    gate_mixed_weight: float = 0.5
    evolve_skill: bool = True
    evolve_memory: bool = True
    preferences: str = ""
    block_cap: int = 8000

    @property
    def kinds(self) -> tuple[DocumentKind, ...]:
        """Which documents evolve, in order."""
        wanted = {DocumentKind.SKILL: self.evolve_skill, DocumentKind.MEMORY: self.evolve_memory}
        return tuple(kind for kind, evolves in wanted.items() if evolves)


def consolidate(
    baseline: Candidate,
    pools: Pools,
    plan: ConsolidatePlan,
    models: Models,
    *,
    rejected: tuple[AppliedEdit, ...] = (),
) -> Consolidated:
    """Evolve each document in turn, each on top of what was accepted before it.

    Without val tasks nothing could be accepted, so nothing is spent, unless the gate is off.
    Raises ``FatalBackend`` and ``BudgetSpent``: everything paid for until then is in the ledger.
    """
    current = baseline
    steps: list[DocumentStep] = []
    known: tuple[ReplayResult, ...] = ()
    worthwhile = pools.train and (pools.val or plan.gate_mode is GateMode.OFF)
    for kind in plan.kinds if worthwhile else ():
        step, proposed = _evolve(kind, current, pools, plan, models, rejected=rejected, known=known)
        steps.append(step)
        rejected = (*(edit for edit in step.edits if edit.status is EditStatus.REJECTED), *rejected)
        if step.trial is not None:
            accepted = step.decision.verdict is Verdict.ACCEPT
            known = step.trial.candidate if accepted else step.trial.baseline
        if step.decision.verdict is Verdict.ACCEPT:
            current = proposed
    return Consolidated(baseline=baseline, candidate=current, steps=tuple(steps), pools=pools, gate_mode=plan.gate_mode)


def _evolve(
    kind: DocumentKind,
    current: Candidate,
    pools: Pools,
    plan: ConsolidatePlan,
    models: Models,
    *,
    rejected: tuple[AppliedEdit, ...],
    known: tuple[ReplayResult, ...],
) -> tuple[DocumentStep, Candidate]:
    """One document through one step. ``known`` are val rollouts of ``current`` that this night has already."""
    attempts = [
        Attempt(task=task, candidate=current, sample=sample)
        for task in pools.train
        for sample in range(plan.rollouts_k)
    ]
    train = replay(attempts, models, phase="train")
    lesson = Lesson(
        edit_budget=plan.edit_budget,
        preferences=plan.preferences,
        rejected=rejected,
        metric=plan.gate_metric,
        mixed_weight=plan.gate_mixed_weight,
    )
    reflection = reflect(kind, current, train, pools.train, models, lesson=lesson)
    proposed, edits = _propose(kind, current, reflection, plan, rejected)
    if proposed == current:
        why = reflection.nothing or "no proposed edit could be applied"
        decision = Decision(verdict=Verdict.UNMEASURED if reflection.lost else _silent(train), why=why)
        return DocumentStep(kind=kind, train=train, reflection=reflection, edits=edits, decision=decision), current
    if plan.gate_mode is GateMode.OFF:
        decision = Decision(
            verdict=Verdict.ACCEPT, why="the gate is off: edits are taken as proposed, nothing is proven"
        )
        return DocumentStep(kind=kind, train=train, reflection=reflection, edits=edits, decision=decision), proposed
    trial = run_trial(
        pools.val,
        current,
        proposed,
        models,
        metric=plan.gate_metric,
        mixed_weight=plan.gate_mixed_weight,
        known=known,
    )
    if trial.decision.verdict is not Verdict.ACCEPT:
        edits = tuple(_turned_down(each, trial.decision) for each in edits)
    step = DocumentStep(
        kind=kind, train=train, reflection=reflection, edits=edits, trial=trial, decision=trial.decision
    )
    return step, proposed


def _propose(
    kind: DocumentKind,
    current: Candidate,
    reflection: Reflection,
    plan: ConsolidatePlan,
    rejected: tuple[AppliedEdit, ...],
) -> tuple[Candidate, tuple[AppliedEdit, ...]]:
    """Apply the edits that the guard lets through; the held ones are reported, never applied."""
    document = current[kind]
    if document is None or not reflection.edits:
        return current, ()
    held = [edit for each in reflection.edits if (edit := _held(each, rejected)) is not None]
    left = {edit.edit.id for edit in held}
    changed, applied = apply_edits(
        document, [edit for edit in reflection.edits if edit.id not in left], cap=plan.block_cap
    )
    return current.with_document(changed), (*applied, *held)


def _held(edit: EditRecord, rejected: tuple[AppliedEdit, ...]) -> AppliedEdit | None:
    """Why an edit is not even tried: the guard holds it, or its rule was turned down before, here or elsewhere."""
    if (why := guard(edit.text)) is not None:
        return AppliedEdit(edit=edit, status=EditStatus.GUARDED, why=why)
    if edit.text and any(edit.text == before.edit.text for before in rejected):
        return AppliedEdit(edit=edit, status=EditStatus.SKIPPED, why="this very rule was tried before and turned down")
    return None


def _turned_down(applied: AppliedEdit, decision: Decision) -> AppliedEdit:
    """An applied edit that the gate did not let through: rejected when it was measured, else merely left."""
    if applied.status is not EditStatus.APPLIED:
        return applied
    status = EditStatus.REJECTED if decision.verdict is Verdict.REJECT else EditStatus.SKIPPED
    return replace(applied, status=status, why=decision.why)


def _silent(train: tuple[ReplayResult, ...]) -> Verdict:
    """The verdict of a step without a proposal: unmeasured when transport lost all there was to learn from."""
    return Verdict.UNDECIDED if any(result.score is not None for result in train) else Verdict.UNMEASURED
