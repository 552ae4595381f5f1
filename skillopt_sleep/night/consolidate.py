"""Consolidates a night: retries undecided edits, then proposes and tries new edits of each document in turn.

The path of an edit is straight: proposed here (rollouts, reflection, ``optimizer.step.propose``), tried on the
validation tasks (``try_edits``), recorded as a ``DocumentStep`` of the outcome (``outcome``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from skillopt_sleep.errors import BudgetSpent
from skillopt_sleep.gate.pending import (
    ClosedEdit,
    Dropped,
    PendingEdit,
    choose_for_tonight,
    drop_excess,
    drop_if_over,
    revive,
)
from skillopt_sleep.gate.rule import Decision, GateMode, Verdict
from skillopt_sleep.model.document import Candidate, Document, DocumentKind, read_region
from skillopt_sleep.model.edit import AppliedEdit, EditRecord, EditStatus, apply_edits
from skillopt_sleep.model.rollout import ReplayResult
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.night.outcome import Consolidated, DocumentStep
from skillopt_sleep.night.plan import ConsolidatePlan
from skillopt_sleep.night.pools import Pools
from skillopt_sleep.night.try_edits import TrialRunner, list_seen_names, may_be_shown
from skillopt_sleep.optimizer.reflect import Analysis, Lesson, reflect
from skillopt_sleep.optimizer.replay import Attempt, Models, replay
from skillopt_sleep.optimizer.step import EditTarget, StepPlan, StepProposal, hold_back, propose
from skillopt_sleep.safety.provenance import Grounds, ground_rule


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
    """Try the undecided edits again, then evolve each document on top of what was accepted before it.

    ``rejected`` edits are shown to the analysts where that gives nothing away (``may_be_shown``). ``closed`` edits of
    other nights are not tried again on the same base. Without validation tasks nothing could be accepted, so nothing
    is spent, unless the gate is off. A cap that is hit after a first trial ends the night with what it has. Raises
    ``FatalBackend`` and, when nothing was tried, ``BudgetSpent``: all replies paid for are in the ledger.
    """
    runner = TrialRunner(plan=plan, models=models, pools=pools, night=night, seed=seed)
    state = _State(live=baseline, current=baseline)
    _retry_pending(state, runner, pending)
    cut = ""
    can_learn = pools.train and (pools.val or plan.gate_mode is GateMode.OFF)
    for kind in [kind for kind in plan.kinds if can_learn and baseline[kind] is not None]:
        try:
            _evolve(kind, state, runner, _collect_history(state, runner, rejected, closed))
        except BudgetSpent as spent:
            if not any(step.trial for step in state.steps):
                raise
            cut = f"a cap ended the night early, so the {kind} had to wait: {spent}"
            break
    if runner.retries_pending:
        _drop_expired(state)
    return Consolidated(
        baseline=baseline,
        candidate=state.current,
        steps=tuple(state.steps),
        pools=pools,
        gate_mode=plan.gate_mode,
        pending=tuple(state.undecided),
        dropped=tuple(state.dropped),
        began_with=tuple(edit.id for edit in pending),
        cut=cut,
        model=models.tried_with,
    )


@dataclass(slots=True, kw_only=True)
class _State:
    """What the night has come to so far."""

    live: Candidate
    current: Candidate
    """The documents with everything that was accepted tonight."""
    steps: list[DocumentStep] = field(default_factory=list)
    undecided: list[PendingEdit] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    val_rollouts: tuple[ReplayResult, ...] = ()
    """Validation rollouts of ``current`` from tonight's last trial."""

    @property
    def accepted(self) -> int:
        """The number of steps that were accepted tonight."""
        return sum(step.decision.verdict is Verdict.ACCEPT for step in self.steps)


def _retry_pending(state: _State, runner: TrialRunner, pending: Sequence[PendingEdit]) -> None:
    """Continue the trials of earlier nights, those closest to a decision first.

    All are tried on the live documents, as before. Once one is accepted the others wait, because their tallies were
    not measured on documents that are only proposed.
    """
    if not runner.retries_pending:
        state.undecided += pending
        return
    base = runner.find_base(state.live)
    revived = {edit.id: revive(edit, state.live, base) for edit in pending}
    state.dropped += [edit for edit in revived.values() if isinstance(edit, Dropped)]
    due, waiting = choose_for_tonight([edit for edit in pending if isinstance(revived[edit.id], Candidate)])
    left = [*waiting]
    for edit in due:
        candidate = revived[edit.id]
        if state.current is not state.live or isinstance(candidate, Dropped):
            left.append(edit)
            continue
        try:
            trial = runner.retry(edit, state.live, candidate)
        except BudgetSpent:
            if not state.steps:
                raise
            left.append(edit)
            continue
        tried = edit.after(trial.tally, trial.measured, tried=bool(trial.decision.pairs))
        edits = tuple(AppliedEdit(edit=part, status=EditStatus.APPLIED, seen=edit.groups) for part in edit.edits)
        if trial.decision.verdict is Verdict.ACCEPT:
            state.current = candidate
        elif trial.decision.verdict is not Verdict.REJECT:
            left.append(tried)
        state.steps.append(
            DocumentStep(
                kind=edit.kind,
                edits=_mark_unaccepted(edits, trial.decision),
                trial=trial,
                decision=trial.decision,
                since=edit.night,
                id=edit.id,
                base=base.digest,
                tasks=tried.tasks,
            )
        )
    order = [edit.id for edit in pending]
    state.undecided += sorted(left, key=lambda edit: order.index(edit.id))


def _drop_expired(state: _State) -> None:
    """Give up the undecided edits that have reached the end of their life, or that there is no room for."""
    over = [dropped for edit in state.undecided if (dropped := drop_if_over(edit)) is not None]
    over += drop_excess([edit for edit in state.undecided if drop_if_over(edit) is None])
    gone = {dropped.edit.id for dropped in over}
    state.undecided = [edit for edit in state.undecided if edit.id not in gone]
    state.dropped += over


@dataclass(frozen=True, slots=True, kw_only=True)
class _History:
    """The edits that were tried before."""

    shown: tuple[AppliedEdit, ...]
    """Those that the analysts are told about."""
    barred: tuple[AppliedEdit, ...]
    """Those that must not start again with a clean tally."""
    undecided_ids: frozenset[str]


def _collect_history(
    state: _State, runner: TrialRunner, rejected: Sequence[AppliedEdit], closed: Sequence[ClosedEdit]
) -> _History:
    """Return what was tried tonight, the latest first, then what earlier nights rejected."""
    undecided = [
        AppliedEdit(
            edit=edit,
            status=EditStatus.SKIPPED,
            why=f"being tried: {pending.needs} would decide",
            seen=pending.groups,
        )
        for pending in state.undecided
        for edit in pending.edits
    ]
    tonight_rejected = [
        edit for step in reversed(state.steps) for edit in step.edits if edit.status is EditStatus.REJECTED
    ]
    given_up = [
        AppliedEdit(edit=edit, status=EditStatus.SKIPPED, why=f"given up: {dropped.why}", seen=dropped.edit.groups)
        for dropped in state.dropped
        if dropped.final
        for edit in dropped.edit.edits
    ]
    base = runner.find_base(state.current).digest
    closed_here = [  # a resumed night repeats its own edits, so only those of other nights count
        AppliedEdit(edit=past.edit, status=EditStatus.REJECTED, why=past.why)
        for past in closed
        if past.base == base and past.night != runner.night
    ]
    return _History(
        shown=(*undecided, *tonight_rejected, *rejected),
        barred=(*undecided, *tonight_rejected, *given_up, *closed_here),
        undecided_ids=frozenset(edit.id for edit in state.undecided),
    )


def _evolve(kind: DocumentKind, state: _State, runner: TrialRunner, history: _History) -> None:
    """Take one document through one step: rollouts, reflection, proposal, trial."""
    plan, tasks, current = runner.plan, runner.pools.train, state.current
    attempts = [  # samples of one task lie far apart: equal answers share one judgement, and no worker waits for it
        Attempt(task=task, candidate=current, sample=sample) for sample in range(plan.rollouts_k) for task in tasks
    ]
    rollouts = replay(attempts, runner.models, phase="train")
    lesson = Lesson(
        edit_budget=plan.edit_budget,
        preferences=plan.preferences,
        rejected=tuple(edit for edit in history.shown if may_be_shown(edit, tasks)),
        metric=plan.gate_metric,
        mixed_weight=plan.gate_mixed_weight,
    )
    analyses = reflect(kind, current, rollouts, tasks, runner.models, lesson=lesson)
    proposal = _propose(kind, current, analyses, runner=runner, history=history)
    reflection = proposal.summarize_reflection(plan.edit_budget)
    was_measured = not reflection.lost and any(rollout.score is not None for rollout in rollouts)
    step = DocumentStep(
        kind=kind,
        train=rollouts,
        reflection=reflection,
        edits=tuple(replace(edit, seen=list_seen_names(tasks)) for edit in proposal.edits),
        decision=Decision(
            verdict=Verdict.UNDECIDED if was_measured else Verdict.UNMEASURED,
            why=reflection.nothing or "no proposed edit could be applied",
        ),
        id=proposal.document.digest,
        base=runner.find_base(current).digest,
    )
    if proposal.document != current:
        step = _try_proposal(step, proposal.document, state, runner)
    state.steps.append(step)
    state.undecided += runner.keep_undecided(step, current, live=state.live)
    if step.decision.verdict is Verdict.ACCEPT:
        state.current = proposal.document


def _try_proposal(step: DocumentStep, proposed: Candidate, state: _State, runner: TrialRunner) -> DocumentStep:
    """Return the step with the gate's decision about the proposed documents."""
    if runner.plan.gate_mode is GateMode.OFF:
        why = "the gate is off: edits are taken as proposed, nothing is proven"
        return replace(step, decision=Decision(verdict=Verdict.ACCEPT, why=why))
    trial = runner.try_new(state.current, proposed, state.val_rollouts, accepted=state.accepted)
    is_accepted = trial.decision.verdict is Verdict.ACCEPT
    state.val_rollouts = trial.candidate if is_accepted else trial.baseline
    edits = _mark_unaccepted(step.edits, trial.decision)
    return replace(step, edits=edits, trial=trial, decision=trial.decision, tasks=trial.measured)


def _propose(
    kind: DocumentKind,
    current: Candidate,
    analyses: Sequence[Analysis],
    *,
    runner: TrialRunner,
    history: _History,
) -> StepProposal[Candidate]:
    """Turn the analysts' edits into one bounded change of a document; edits held back are reported, never applied."""
    document = current[kind]
    if document is None:
        return StepProposal(document=current, analyses=tuple(analyses))
    also = (runner.plan.preferences, read_region(document))
    analyses, held = _ground_edits(analyses, runner.pools.train, also=also)

    def apply(edits: Sequence[EditRecord]) -> tuple[Candidate, tuple[AppliedEdit, ...]]:
        changed, applied = apply_edits(document, edits, cap=runner.plan.block_cap)
        proposed = current.with_document(changed)
        if proposed.digest not in history.undecided_ids:
            return proposed, applied
        why = "the resulting text is already being tried"
        return current, tuple(
            replace(edit, status=EditStatus.SKIPPED, why=why) if edit.status is EditStatus.APPLIED else edit
            for edit in applied
        )

    target = EditTarget(
        document=current,
        text=read_region(document),
        hold_back=lambda edit: hold_back(_complete_anchor(edit, document), history.barred),
        apply=apply,
    )
    plan = StepPlan(edit_budget=runner.plan.edit_budget, merge_by_model=False, rank_by_model=False)
    proposal = propose(target, analyses, runner.models.as_optimizer, plan=plan)
    return dataclasses.replace(proposal, edits=(*proposal.edits, *held))


def _complete_anchor(edit: EditRecord, document: Document) -> EditRecord:
    """Return the edit with the whole rule as its anchor, as edits of earlier nights have it."""
    (alone,) = apply_edits(document, [edit], cap=None)[1]
    return alone.edit


def _ground_edits(
    analyses: Sequence[Analysis], tasks: Sequence[TaskRecord], *, also: tuple[str, ...]
) -> tuple[list[Analysis], list[AppliedEdit]]:
    """Reduce each proposed rule to the sentences that rest on typed words; return the others as edits held back.

    The typed words are those of the tasks that an edit names (of all tasks when it names none), and ``also``.
    """
    grounded, held = [], []
    for analysis in analyses:
        proposals = []
        for proposal in analysis.patch.proposals:
            edit = proposal.edit
            named = [task for task in tasks if task.id in edit.task_ids] or tasks
            rule = ground_rule(edit.text, Grounds.of(named, also=also))
            held += [
                AppliedEdit(edit=edit.with_text(dropped.text), status=EditStatus.GUARDED, why=dropped.why)
                for dropped in rule.dropped
            ]
            if not rule.dropped:
                proposals.append(proposal)
            elif rule.text:
                proposals.append(replace(proposal, edit=edit.with_text(rule.text)))
        nothing = "" if proposals or not analysis.patch.proposals else "no proposed rule rests on words you typed"
        patch = replace(analysis.patch, proposals=tuple(proposals))
        grounded.append(replace(analysis, patch=patch, nothing=analysis.nothing or nothing))
    return grounded, held


def _mark_unaccepted(edits: Sequence[AppliedEdit], decision: Decision) -> tuple[AppliedEdit, ...]:
    """Return the edits after a trial: applied ones become rejected or pending unless the gate accepted them."""
    if decision.verdict is Verdict.ACCEPT:
        return tuple(edits)
    status = EditStatus.REJECTED if decision.verdict is Verdict.REJECT else EditStatus.PENDING
    return tuple(
        replace(edit, status=status, why=decision.why) if edit.status is EditStatus.APPLIED else edit for edit in edits
    )
