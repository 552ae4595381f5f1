"""Consolidate: train rollouts, reflection, bounded edits and the gate, for the skill first and the memory after it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from skillopt_sleep.domain.candidate import Candidate
from skillopt_sleep.domain.document import DocumentKind, region
from skillopt_sleep.domain.edit import AppliedEdit, EditRecord, EditStatus, apply_edits
from skillopt_sleep.domain.guard import Grounds, unfounded
from skillopt_sleep.domain.pending import Dropped, PendingEdit, crowded_out, revive, tonight
from skillopt_sleep.domain.rollout import ReplayResult
from skillopt_sleep.domain.split import Pools
from skillopt_sleep.domain.task import TaskRecord
from skillopt_sleep.domain.verdict import Decision, GateMode, Verdict
from skillopt_sleep.errors import BudgetSpent
from skillopt_sleep.night.outcome import Consolidated, DocumentStep
from skillopt_sleep.night.trying import ConsolidatePlan, Gate, pending_after
from skillopt_sleep.optimize.reflect import Lesson, Reflection, reflect
from skillopt_sleep.optimize.replay import Attempt, Models, replay
from skillopt_sleep.optimize.step import held_back

__all__ = ["consolidate"]


def consolidate(
    baseline: Candidate,
    pools: Pools,
    plan: ConsolidatePlan,
    models: Models,
    *,
    night: str = "",
    seed: int = 0,
    rejected: tuple[AppliedEdit, ...] = (),
    pending: tuple[PendingEdit, ...] = (),
) -> Consolidated:
    """Go on with what is undecided, then evolve each document in turn, each on top of what was accepted before it.

    Without val tasks nothing could be accepted, so nothing is spent, unless the gate is off.
    A cap that is hit after a first trial ends the night with what that came to. Raises ``FatalBackend`` and, when
    nothing was tried, ``BudgetSpent``: everything paid for until then is in the ledger.
    """
    gate = Gate(plan=plan, models=models, val=pools.val, night=night, seed=seed)
    current, steps, left, dropped = _go_on(baseline, pools, gate, pending)
    rejected = (*(edit for step in steps for edit in _rejected(step)), *rejected)
    known: tuple[ReplayResult, ...] = ()
    cut = ""
    worthwhile = pools.train and (pools.val or plan.gate_mode is GateMode.OFF)
    kinds = [kind for kind in plan.kinds if baseline[kind] is not None]
    for kind in kinds if worthwhile else ():
        try:
            step, proposed = _evolve(kind, current, pools, gate, rejected=(*_texts(left), *rejected), known=known)
        except BudgetSpent as spent:
            if not any(step.trial for step in steps):
                raise
            cut = f"a cap cut the night short, so the {kind} had to wait: {spent}"
            break
        steps.append(step)
        rejected = (*_rejected(step), *rejected)
        if step.trial is not None:
            accepted = step.decision.verdict is Verdict.ACCEPT
            known = step.trial.candidate if accepted else step.trial.baseline
        if step.decision.verdict is Verdict.ACCEPT:
            current = proposed
        left += pending_after(step, current, pools, gate)
    over = crowded_out(left)
    left = [each for each in left if each.id not in {gone.edit.id for gone in over}]
    carried = [revive(each, current, models.tried_with) if pools.val else current for each in left]
    return Consolidated(
        baseline=baseline,
        candidate=current,
        steps=tuple(steps),
        pools=pools,
        gate_mode=plan.gate_mode,
        pending=tuple(each for each, onto in zip(left, carried, strict=True) if isinstance(onto, Candidate)),
        dropped=(*dropped, *over, *(each for each in carried if isinstance(each, Dropped))),
        cut=cut,
        model=models.tried_with,
    )


def _go_on(
    baseline: Candidate, pools: Pools, gate: Gate, pending: Sequence[PendingEdit]
) -> tuple[Candidate, list[DocumentStep], list[PendingEdit], list[Dropped]]:
    """Spend first on what is closest to a decision; of what is behind, on little, so that new edits have a chance."""
    current = baseline
    steps: list[DocumentStep] = []
    dropped: list[Dropped] = []
    if not pools.val:  # nothing is tried tonight, so nothing is held against what waits
        return current, steps, list(pending), dropped
    going_on, waiting = tonight(pending)
    left = [*waiting]
    for edit in going_on:
        candidate = revive(edit, current, gate.models.tried_with)
        if isinstance(candidate, Dropped):
            dropped.append(candidate)
            continue
        try:
            trial = gate.go_on(edit, pools, current, candidate)
        except BudgetSpent:
            if not steps:
                raise
            left.append(edit)
            continue
        applied = tuple(AppliedEdit(edit=each, status=EditStatus.APPLIED) for each in edit.edits)
        if trial.decision.verdict is Verdict.ACCEPT:
            current = candidate
        else:
            applied = tuple(_turned_down(each, trial.decision) for each in applied)
        tried = edit.after(trial.tally, trial.measured, tried=bool(trial.decision.pairs))
        if trial.decision.verdict in {Verdict.UNDECIDED, Verdict.UNMEASURED}:
            left.append(tried)
        steps.append(
            DocumentStep(
                kind=edit.kind,
                edits=applied,
                trial=trial,
                decision=trial.decision,
                since=edit.night,
                id=edit.id,
                tasks=tried.tasks,
            )
        )
    order = [each.id for each in pending]
    return current, steps, sorted(left, key=lambda each: order.index(each.id)), dropped


def _rejected(step: DocumentStep) -> tuple[AppliedEdit, ...]:
    """What a step turned down for good: the same night must not try it again, with a clean tally."""
    return tuple(edit for edit in step.edits if edit.status is EditStatus.REJECTED)


def _texts(pending: Sequence[PendingEdit]) -> tuple[AppliedEdit, ...]:
    """Undecided edits as a reflection is shown them: what is being tried is not to be proposed again."""
    return tuple(
        AppliedEdit(edit=edit, status=EditStatus.SKIPPED, why=f"being tried: {each.needs} would decide")
        for each in pending
        for edit in each.edits
    )


def _evolve(
    kind: DocumentKind,
    current: Candidate,
    pools: Pools,
    gate: Gate,
    *,
    rejected: tuple[AppliedEdit, ...],
    known: tuple[ReplayResult, ...],
) -> tuple[DocumentStep, Candidate]:
    """One document through one step. ``known`` are val rollouts of ``current`` that this night has already."""
    plan = gate.plan
    attempts = [  # a task's samples far apart: equal answers are judged by one call, and no worker waits for it
        Attempt(task=task, candidate=current, sample=sample)
        for sample in range(plan.rollouts_k)
        for task in pools.train
    ]
    train = replay(attempts, gate.models, phase="train")
    lesson = Lesson(
        edit_budget=plan.edit_budget,
        preferences=plan.preferences,
        rejected=rejected,
        metric=plan.gate_metric,
        mixed_weight=plan.gate_mixed_weight,
    )
    reflection = reflect(kind, current, train, pools.train, gate.models, lesson=lesson)
    proposed, edits = _propose(kind, current, reflection, plan, rejected, of=(pools.train, train))
    step = DocumentStep(
        kind=kind,
        train=train,
        reflection=reflection,
        edits=edits,
        decision=Decision(
            verdict=Verdict.UNMEASURED if reflection.lost else _silent(train),
            why=reflection.nothing or "no proposed edit could be applied",
        ),
        id=proposed.digest,
    )
    if proposed == current:
        return step, current
    if plan.gate_mode is GateMode.OFF:
        why = "the gate is off: edits are taken as proposed, nothing is proven"
        return replace(step, decision=Decision(verdict=Verdict.ACCEPT, why=why)), proposed
    trial = gate.trial(current, proposed, known)
    if trial.decision.verdict is not Verdict.ACCEPT:
        edits = tuple(_turned_down(each, trial.decision) for each in edits)
    return replace(step, edits=edits, trial=trial, decision=trial.decision, tasks=trial.measured), proposed


def _propose(
    kind: DocumentKind,
    current: Candidate,
    reflection: Reflection,
    plan: ConsolidatePlan,
    rejected: tuple[AppliedEdit, ...],
    *,
    of: tuple[Sequence[TaskRecord], Sequence[ReplayResult]],
) -> tuple[Candidate, tuple[AppliedEdit, ...]]:
    """Apply the edits that the guard lets through; the held ones are reported, never applied.

    ``of``: the tasks, and their rollouts, that the reflection was shown.
    """
    document = current[kind]
    if document is None or not reflection.edits:
        return current, ()
    also = (plan.preferences, region(document))
    held = [
        edit
        for each in reflection.edits
        if (edit := held_back(each, rejected) or _without_grounds(each, *of, also)) is not None
    ]
    left = {edit.edit.id for edit in held}
    changed, applied = apply_edits(
        document, [edit for edit in reflection.edits if edit.id not in left], cap=plan.block_cap
    )
    return current.with_document(changed), (*applied, *held)


def _without_grounds(
    edit: EditRecord, tasks: Sequence[TaskRecord], rollouts: Sequence[ReplayResult], also: tuple[str, ...]
) -> AppliedEdit | None:
    """Why an edit does not rest on typed words: those of the tasks it names, or of all when it names none."""
    own = [task for task in tasks if task.id in edit.task_ids] or tasks
    names = {task.id for task in own}
    shown = tuple(result.response for result in rollouts if result.task_id in names)
    why = unfounded(edit.text, Grounds.of(own, also=also, shown=shown))
    return None if why is None else AppliedEdit(edit=edit, status=EditStatus.GUARDED, why=why)


def _turned_down(applied: AppliedEdit, decision: Decision) -> AppliedEdit:
    """An applied edit that the gate did not let through: rejected when that is the verdict, else still open."""
    if applied.status is not EditStatus.APPLIED:
        return applied
    status = EditStatus.REJECTED if decision.verdict is Verdict.REJECT else EditStatus.PENDING
    return replace(applied, status=status, why=decision.why)


def _silent(train: tuple[ReplayResult, ...]) -> Verdict:
    """The verdict of a step without a proposal: unmeasured when transport lost all there was to learn from."""
    return Verdict.UNDECIDED if any(result.score is not None for result in train) else Verdict.UNMEASURED
