"""Consolidate: train rollouts, reflection, bounded edits and the gate, for the skill first and the memory after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from skillopt_sleep.errors import BudgetSpent
from skillopt_sleep.gate.pending import ClosedEdit, Dropped, PendingEdit, crowded_out, ended, revive, tonight
from skillopt_sleep.gate.rule import Decision, GateMode, Verdict
from skillopt_sleep.model.document import Candidate, Document, DocumentKind, region
from skillopt_sleep.model.edit import AppliedEdit, EditRecord, EditStatus, apply_edits
from skillopt_sleep.model.rollout import ReplayResult
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.night.outcome import Consolidated, DocumentStep
from skillopt_sleep.night.pools import Pools
from skillopt_sleep.night.trial_policy import ConsolidatePlan, Gate, may_be_shown, pending_after, seen_of
from skillopt_sleep.optimizer.reflect import Analysis, Lesson, reflect
from skillopt_sleep.optimizer.replay import Attempt, Models, replay
from skillopt_sleep.optimizer.step import EditTarget, StepPlan, StepProposal, hold_back, propose
from skillopt_sleep.safety.grounds import Grounds, unfounded


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
    closed: tuple[ClosedEdit, ...] = (),
) -> Consolidated:
    """Go on with what is undecided, then evolve each document in turn, each on top of what was accepted before it.

    ``rejected`` are shown to the reflections, as far as that gives nothing away (``may_be_shown``); of ``closed`` those
    of other nights get no new life on the same base.
    Without val tasks nothing could be accepted, so nothing is spent, unless the gate is off.
    A cap that is hit after a first trial ends the night with what that came to. Raises ``FatalBackend`` and, when
    nothing was tried, ``BudgetSpent``: everything paid for until then is in the ledger.
    """
    gate = Gate(plan=plan, models=models, val=pools.val, night=night, seed=seed)
    current, steps, left, dropped = _go_on(baseline, pools, gate, pending)
    known: tuple[ReplayResult, ...] = ()
    cut = ""
    gate = gate.after(steps)
    worthwhile = pools.train and (pools.val or plan.gate_mode is GateMode.OFF)
    kinds = [kind for kind in plan.kinds if baseline[kind] is not None]
    for kind in kinds if worthwhile else ():
        try:
            before = _Tried(shown=rejected, barred=_on_this_base(closed, gate, current))
            tried = before.and_tonight(left, steps, dropped)
            step, proposed = _evolve(kind, current, pools, gate, tried=tried, known=known)
        except BudgetSpent as spent:
            if not any(step.trial for step in steps):
                raise
            cut = f"a cap cut the night short, so the {kind} had to wait: {spent}"
            break
        steps.append(step)
        if step.trial is not None:
            accepted = step.decision.verdict is Verdict.ACCEPT
            known = step.trial.candidate if accepted else step.trial.baseline
        if step.decision.verdict is Verdict.ACCEPT:
            current = proposed
            gate = gate.after(steps)
        left += pending_after(step, current, pools, gate, live=baseline)
    if gate.tries_pending:
        left, over = _kept(left)
        dropped += over
    return Consolidated(
        baseline=baseline,
        candidate=current,
        steps=tuple(steps),
        pools=pools,
        gate_mode=plan.gate_mode,
        pending=tuple(left),
        dropped=tuple(dropped),
        began_with=tuple(each.id for each in pending),
        cut=cut,
        model=models.tried_with,
    )


def _go_on(
    baseline: Candidate, pools: Pools, gate: Gate, pending: Sequence[PendingEdit]
) -> tuple[Candidate, list[DocumentStep], list[PendingEdit], list[Dropped]]:
    """Spend first on what is closest to a decision; of what is behind, on little, so that new edits have a chance.

    All on the live documents, as before: when one is accepted the others wait, for their tallies say nothing of what
    is only proposed.
    """
    current = baseline
    steps: list[DocumentStep] = []
    dropped: list[Dropped] = []
    if not gate.tries_pending:  # none of them is tried tonight, so nothing is held against what waits
        return current, steps, list(pending), dropped
    on = gate.base(baseline)
    revived = {each.id: revive(each, baseline, on) for each in pending}
    dropped += [each for each in revived.values() if isinstance(each, Dropped)]
    going_on, waiting = tonight([each for each in pending if isinstance(revived[each.id], Candidate)])
    left = [*waiting]
    for edit in going_on:
        candidate = revived[edit.id]
        if current is not baseline or isinstance(candidate, Dropped):
            left.append(edit)
            continue
        try:
            trial = gate.go_on(edit, pools, current, candidate)
        except BudgetSpent:
            if not steps:
                raise
            left.append(edit)
            continue
        applied = tuple(AppliedEdit(edit=each, status=EditStatus.APPLIED, seen=edit.groups) for each in edit.edits)
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
                base=on.digest,
                tasks=tried.tasks,
            )
        )
    order = [each.id for each in pending]
    return current, steps, sorted(left, key=lambda each: order.index(each.id)), dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """What was tried before: as a reflection is ``shown`` it, and all that is ``barred`` from a clean tally.

    ``ids`` are those of the undecided candidates.
    """

    shown: tuple[AppliedEdit, ...]
    barred: tuple[AppliedEdit, ...]
    ids: frozenset[str] = frozenset()

    def and_tonight(
        self, left: Sequence[PendingEdit], steps: Sequence[DocumentStep], dropped: Sequence[Dropped]
    ) -> _Tried:
        """The same behind what is undecided, what tonight turned down, the latest first, and what it gave up."""
        open_ = [_said(edit, f"being tried: {each.needs} would decide", each) for each in left for edit in each.edits]
        turned_down = [edit for step in reversed(steps) for edit in _with(step, EditStatus.REJECTED)]
        over = [
            _said(edit, f"given up: {each.why}", each.edit)
            for each in dropped
            if each.final
            for edit in each.edit.edits
        ]
        shown = (*open_, *turned_down)
        return _Tried(
            shown=(*shown, *self.shown),
            barred=(*shown, *over, *self.barred),
            ids=frozenset(each.id for each in left),
        )


def _said(edit: EditRecord, why: str, of: PendingEdit) -> AppliedEdit:
    return AppliedEdit(edit=edit, status=EditStatus.SKIPPED, why=why, seen=of.groups)


def _with(step: DocumentStep, status: EditStatus) -> tuple[AppliedEdit, ...]:
    return tuple(edit for edit in step.edits if edit.status is status)


def _on_this_base(closed: Sequence[ClosedEdit], gate: Gate, current: Candidate) -> tuple[AppliedEdit, ...]:
    """Edits whose life ended on just this base in another night; a night that is gone on with repeats its own."""
    base = gate.base(current).digest
    return tuple(
        AppliedEdit(edit=each.edit, status=EditStatus.REJECTED, why=each.why)
        for each in closed
        if each.base == base and each.night != gate.night
    )


def _kept(left: Sequence[PendingEdit]) -> tuple[list[PendingEdit], list[Dropped]]:
    """Those that go on another night, and those given up: at the end of their life, or crowded out."""
    over = [dropped for each in left if (dropped := ended(each)) is not None]
    going_on = [each for each in left if ended(each) is None]
    over += crowded_out(going_on)
    gone = {each.edit.id for each in over}
    return [each for each in going_on if each.id not in gone], over


def _evolve(
    kind: DocumentKind,
    current: Candidate,
    pools: Pools,
    gate: Gate,
    *,
    tried: _Tried,
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
        rejected=tuple(each for each in tried.shown if may_be_shown(each, pools.train)),
        metric=plan.gate_metric,
        mixed_weight=plan.gate_mixed_weight,
    )
    analyses = reflect(kind, current, train, pools.train, gate.models, lesson=lesson)
    made = _propose(kind, current, analyses, gate, tried, of=(pools.train, train))
    proposed, edits = made.document, tuple(replace(edit, seen=seen_of(pools.train)) for edit in made.edits)
    reflection = made.summarize_reflection(plan.edit_budget)
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
        base=gate.base(current).digest,
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
    analyses: Sequence[Analysis],
    gate: Gate,
    tried: _Tried,
    *,
    of: tuple[Sequence[TaskRecord], Sequence[ReplayResult]],
) -> StepProposal[Candidate]:
    """Make the analysts' edits into one bounded change of a document; edits held back are reported, never applied.

    ``of``: the tasks, and their rollouts, that the analysts were shown. Without a document of that kind there are no
    edits to make.
    """
    document = current[kind]
    if document is None:
        return StepProposal(document=current, analyses=tuple(analyses))
    also = (gate.plan.preferences, region(document))

    def apply(edits: Sequence[EditRecord]) -> tuple[Candidate, tuple[AppliedEdit, ...]]:
        changed, applied = apply_edits(document, edits, cap=gate.plan.block_cap)
        proposed = current.with_document(changed)
        if proposed.digest not in tried.ids:
            return proposed, applied
        why = "the text that would come of it is being tried"  # in other words, but with the same result
        return current, tuple(
            replace(edit, status=EditStatus.SKIPPED, why=why) if edit.status is EditStatus.APPLIED else edit
            for edit in applied
        )

    target = EditTarget(
        document=current,
        text=region(document),
        hold_back=lambda edit: hold_back(_found(edit, document), tried.barred) or _without_grounds(edit, *of, also),
        apply=apply,
    )
    plan = StepPlan(edit_budget=gate.plan.edit_budget, merge_by_model=False, rank_by_model=False)
    return propose(target, analyses, gate.models.as_optimizer, plan=plan)


def _found(edit: EditRecord, document: Document) -> EditRecord:
    """The edit with its anchor as the whole rule that it means, as what was tried before has it."""
    (alone,) = apply_edits(document, [edit], cap=None)[1]
    return alone.edit


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
