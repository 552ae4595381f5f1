"""From what a night did to what it reports: pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.account import Arm, EvidenceRow, Tried, evidence_row
from skillopt_sleep.gate.audit import BaseReplay, Position
from skillopt_sleep.gate.gate import Trial
from skillopt_sleep.gate.pending import ClosedEdit, Dropped, PendingEdit, requests
from skillopt_sleep.gate.rule import Decision, GateMode, Verdict
from skillopt_sleep.model.document import Candidate, DocumentKind
from skillopt_sleep.model.edit import AppliedEdit, EditStatus
from skillopt_sleep.model.rollout import ReplayResult
from skillopt_sleep.model.task import Split, TaskRecord, reference_kind
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.night.pools import Pools
from skillopt_sleep.night.report import GateAction, HoldoutDetail, HoldoutRow, NightReport, PendingReport, TrialReport
from skillopt_sleep.optimizer.step import Reflection

HEAD = 240
"""Characters of a response that a report shows."""

QUOTED = 90
"""Characters of a rule in a note."""

TRIED = (EditStatus.APPLIED, EditStatus.REJECTED, EditStatus.PENDING)
"""What an edit can be that was on trial."""


class DocumentStep(Struct, frozen=True, kw_only=True):
    """What became of one document tonight. ``trial`` is None when there was nothing to try, or the gate is off.

    ``id`` names the edits tried together over all their nights; ``since`` is the earlier night they come from, if any,
    and ``tasks`` name what they were measured on in all of them. ``base`` is the digest of what they were
    tried on.
    """

    kind: DocumentKind
    train: tuple[ReplayResult, ...] = ()
    reflection: Reflection = Reflection()
    edits: tuple[AppliedEdit, ...] = ()
    trial: Trial | None = None
    decision: Decision
    id: str = ""
    since: str = ""
    base: str = ""
    tasks: tuple[str, ...] = ()


class Consolidated(Struct, frozen=True, kw_only=True):
    """The baseline, what the night would put in its place, and how each document came to it.

    ``began_with`` are the ids of what was undecided before; ``model`` is the one the tasks were replayed with, "" for
    the default of its backend.
    """

    baseline: Candidate
    candidate: Candidate
    pools: Pools
    gate_mode: GateMode
    steps: tuple[DocumentStep, ...] = ()
    pending: tuple[PendingEdit, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    began_with: tuple[str, ...] = ()
    cut: str = ""
    model: str = ""

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute the verdict, its numbers and its detail to the night's report."""
        return _concluded(report, self)

    def tried(self, night: str) -> tuple[Tried, ...]:
        """What a paired trial was spent on tonight, for the account."""
        return tuple(
            Tried(id=step.id, night=step.since or night, k=step.trial.k, verdict=step.decision.verdict)
            for step in self.steps
            if step.trial is not None and step.trial.k is not None
        )

    @property
    def settled(self) -> frozenset[str]:
        """Ids of all that the night had undecided at some time: ``pending`` holds those that still are."""
        steps = (step.id for step in self.steps if step.trial is not None)
        return frozenset((*self.began_with, *steps, *(each.edit.id for each in self.dropped)))

    def closed(self, night: str) -> tuple[ClosedEdit, ...]:
        """The edits whose life ended tonight without their being accepted."""
        turned_down = [
            ClosedEdit(base=step.base, edit=each.edit, why=each.why, night=night)
            for step in self.steps
            for each in step.edits
            if each.status is EditStatus.REJECTED
        ]
        given_up = [
            ClosedEdit(base=each.edit.on.digest, edit=edit, why=each.why, night=night)
            for each in self.dropped
            if each.final
            for edit in each.edit.edits
        ]
        return (*turned_down, *given_up)

    def base_replays(self, night: str) -> tuple[BaseReplay, ...]:
        """Every measured replay under documents that no edit on trial had touched."""
        phases = [("train", step.train) for step in self.steps]
        phases += [("val", step.trial.baseline) for step in self.steps if step.trial is not None]
        return base_replays(night, self.model, phases)

    @property
    def position(self) -> Position:
        """Which place won, of the pairs whose answers a judge saw in one call."""
        trials = (step.trial.position for step in self.steps if step.trial is not None)
        return sum(trials, start=Position())

    @property
    def edits(self) -> tuple[AppliedEdit, ...]:
        """Every edit of the night with what became of it."""
        return tuple(edit for step in self.steps for edit in step.edits)


def _concluded(report: NightReport, outcome: Consolidated) -> NightReport:
    pools, edits = outcome.pools, outcome.edits
    verdict, why = _verdict(outcome.steps, pools)
    trials = [step.trial for step in outcome.steps if step.trial is not None]
    accepted = [step.trial for step in outcome.steps if step.trial and step.decision.verdict is Verdict.ACCEPT]
    shown = accepted or trials[-1:]  # from what the first accepted edit was put on to what the last one made of it
    lost = [result.call_error for step in outcome.steps for result in _results(step) if result.call_error]
    lost += [step.reflection.nothing for step in outcome.steps if step.reflection.lost]
    report = replace(
        report,
        verdict=verdict,
        why=report.why if report.stopped_by else why,
        accepted=verdict is Verdict.ACCEPT,
        gate_action=_action(verdict, outcome.gate_mode),
        applied_edits=_with(edits, EditStatus.APPLIED),
        rejected_edits=_with(edits, EditStatus.REJECTED),
        held_edits=_with(edits, EditStatus.UNMATCHED, EditStatus.SKIPPED, EditStatus.GUARDED, EditStatus.PENDING),
        reflect_raw=tuple(raw for step in outcome.steps for raw in step.reflection.raw),
        refused=(*report.refused, *(refusal for step in outcome.steps for refusal in step.reflection.refused)),
        pending=tuple(map(PendingReport.of, outcome.pending)),
        notes=(*report.notes, *_notes(outcome)),
        call_error=next(iter(lost), report.call_error),
        trials=tuple(_trial_report(step, (*pools.train, *pools.val)) for step in outcome.steps),
    )
    return _with_scores(report, shown[0], shown[-1], (*pools.val, *pools.train)) if shown else report


def _trial_report(step: DocumentStep, tasks: Sequence[TaskRecord]) -> TrialReport:
    trial = step.trial
    report = TrialReport(document=step.kind, decision=step.decision, since=step.since)
    if trial is None:
        return report
    tally = trial.tally
    return replace(
        report,
        improved=trial.improved,
        worsened=trial.worsened,
        confirmed_regressions=trial.confirmed_regressions,
        unconfirmed=trial.unconfirmed,
        losses_before=trial.losses_before,
        score=tally.score if tally else None,
        e=round(tally.e, 2) if tally else None,
        k=trial.k,
        ties=tally.ties if tally else None,
        tasks=len(requests(trial.measured, tasks)),
        tasks_in_all=len(requests(step.tasks, tasks)),
        edits=tuple(each.edit.id for each in _with(step.edits, *TRIED)),
    )


def _notes(outcome: Consolidated) -> Iterator[str]:
    for each in outcome.dropped:
        rule = excerpt(next(edit.text or edit.anchor for edit in each.edit.edits), QUOTED)
        yield f"an undecided edit of the {each.edit.kind} (“{rule}”) was dropped: {each.why}"
    if outcome.pending and outcome.gate_mode is not GateMode.PAIRED:
        waiting = len(outcome.pending)
        what = "1 undecided edit waits" if waiting == 1 else f"{waiting} undecided edits wait"
        yield f"{what}: only the paired gate goes on with such (gate_mode is {outcome.gate_mode})"
    for step in outcome.steps:
        if step.trial is not None and step.trial.cut:
            yield f"a cap cut the trial of the {step.kind} short: {step.trial.cut}"
    if outcome.cut:
        yield outcome.cut


def _with_scores(report: NightReport, first: Trial, shown: Trial, val: Sequence[TaskRecord]) -> NightReport:
    return replace(
        report,
        baseline_score=first.decision.baseline,
        candidate_score=shown.decision.candidate,
        holdout_baseline=_pass_rate(first.baseline, first.candidate),
        holdout_candidate=_pass_rate(shown.candidate, shown.baseline),
        holdout_detail=HoldoutDetail(baseline=_rows(val, first.baseline), candidate=_rows(val, shown.candidate)),
    )


def _verdict(steps: Sequence[DocumentStep], pools: Pools) -> tuple[Verdict, str]:
    """One verdict for the night: an accepted document outweighs one turned down; lost calls outweigh silence."""
    if not steps:
        missing = "validation" if pools.train else "training"
        return Verdict.UNDECIDED, f"there are no {missing} tasks yet, so no edit could be tried"
    verdicts = [step.decision.verdict for step in steps]
    verdict = next(
        each for each in (Verdict.ACCEPT, Verdict.UNMEASURED, Verdict.REJECT, Verdict.UNDECIDED) if each in verdicts
    )
    return verdict, "; ".join(f"{step.kind}: {step.decision.why}" for step in steps)


def _action(verdict: Verdict, mode: GateMode) -> GateAction:
    if mode is GateMode.OFF and verdict in {Verdict.ACCEPT, Verdict.UNDECIDED}:
        return GateAction.GREEDY_APPLIED if verdict is Verdict.ACCEPT else GateAction.GREEDY_NOOP
    return {
        Verdict.ACCEPT: GateAction.ACCEPT_NEW_BEST,
        Verdict.REJECT: GateAction.REJECT,
        Verdict.UNDECIDED: GateAction.UNDECIDED,
        Verdict.UNMEASURED: GateAction.UNMEASURED,
    }[verdict]


def _with(edits: Sequence[AppliedEdit], *statuses: EditStatus) -> tuple[AppliedEdit, ...]:
    """Those, as a report has them: what their reflection has seen is for the nights to come."""
    return tuple(replace(edit, seen=()) for edit in edits if edit.status in statuses)


def _results(step: DocumentStep) -> tuple[ReplayResult, ...]:
    return (*step.train, *(step.trial.baseline if step.trial else ()), *(step.trial.candidate if step.trial else ()))


def _pass_rate(results: Sequence[ReplayResult], others: Sequence[ReplayResult]) -> float | None:
    """Of the pairs of which both came back, as the means are."""
    whole = [result.score.hard for result, other in zip(results, others, strict=True) if result.score and other.score]
    return statistics.fmean(whole) if whole else None


def _rows(tasks: Sequence[TaskRecord], results: Sequence[ReplayResult]) -> tuple[HoldoutRow, ...]:
    """One row for each task that was replayed."""
    known = {task.id: task for task in tasks}
    replays: dict[str, list[ReplayResult]] = {}
    for result in results:
        replays.setdefault(result.task_id, []).append(result)
    return tuple(_row(known[name], each) for name, each in replays.items() if name in known)


def _row(task: TaskRecord, replays: Sequence[ReplayResult]) -> HoldoutRow:
    scores = [result.score for result in replays if result.score is not None]
    first = next((result for result in replays if result.score is not None), replays[0])
    return HoldoutRow(
        id=task.id,
        reference_kind=reference_kind(task.reference),
        hard=statistics.fmean(score.hard for score in scores) if scores else None,
        soft=statistics.fmean(score.soft for score in scores) if scores else None,
        response_len=len(first.response),
        response_head=excerpt(first.response, HEAD),
        why=first.score.rationale if first.score else first.call_error,
    )


def base_replays(
    night: str, model: str, phases: Sequence[tuple[str, Sequence[ReplayResult]]]
) -> tuple[BaseReplay, ...]:
    """The measured replays of these phases, as the audit keeps them."""
    return tuple(
        BaseReplay(
            task=result.task_id,
            night=night,
            base=result.candidate,
            model=model,
            phase=phase,
            sample=result.sample,
            hard=result.score.hard,
            soft=result.score.soft,
        )
        for phase, results in phases
        for result in results
        if result.score is not None
    )


def evidence(night: str, outcome: Consolidated) -> tuple[EvidenceRow, ...]:
    """Every rollout of the night with what it stands on, for ``evidence.jsonl``; equal rollouts once."""
    pools = outcome.pools
    tasks = {task.id: (task, Split.TRAIN) for task in pools.train} | {task.id: (task, Split.VAL) for task in pools.val}
    rows: dict[tuple[str, str, int], EvidenceRow] = {}
    for step in outcome.steps:
        arms = [(Arm.BASELINE, "train", step.train)]
        firsts: dict[int, Arm | None] = {}
        if step.trial is not None:
            arms += [(Arm.BASELINE, "val", step.trial.baseline), (Arm.CANDIDATE, "val", step.trial.candidate)]
            firsts = dict(enumerate(step.trial.firsts))
        for arm, phase, results in arms:
            for place, result in enumerate(results):
                task, split = tasks[result.task_id]
                row = evidence_row(task, result, night=night, phase=phase, split=split, arm=arm)
                if arm is Arm.CANDIDATE:
                    row = replace(row, judged_first=firsts.get(place))
                rows.setdefault((result.task_id, result.candidate, result.sample), row)
    return tuple(rows.values())
