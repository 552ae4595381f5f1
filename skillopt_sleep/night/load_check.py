"""Checks, before a change is staged, that the agent really loads the documents that changed.

A trial as text shows that a rule helps when it is read, not that the agent reads it. One replay by the agent itself
shows that. When the trial itself was native, its records already tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import BudgetSpent, TransientBackend
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.call import Reply
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.moment import MomentReference
from skillopt_sleep.model.rollout import Ending, ReplayMode, ReplayResult, explain_not_loaded
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.night.outcome import Consolidated, DocumentStep
from skillopt_sleep.night.report import Loading, NightReport, ReplayReport
from skillopt_sleep.optimizer.replay import Manner, Models, assign, record_trajectory

PHASE = "load"


class Loaded(Struct, frozen=True, kw_only=True):
    """How the night's replays by an agent went, and whether the agent loads what is proposed."""

    replay: ReplayReport = ReplayReport()

    def add_to(self, report: NightReport) -> NightReport:
        """Add the replays to the night's report."""
        return replace(report, replay=self.replay, notes=(*report.notes, *_list_notes(self.replay)))


def check_loading(outcome: Consolidated, models: Models) -> Loaded:
    """Count how the agent's replays went; if a change is about to be staged, check that it is loaded.

    Costs one call at most, and none when the trial was native. Raises ``FatalBackend``.
    """
    results = [result for step in outcome.steps for result in step.rollouts if result.mode is not ReplayMode.TEXT]
    report = replace(_count_replays(results), mode=models.manner.mode)
    accepted = [step for step in outcome.steps if step.decision.verdict is Verdict.ACCEPT]
    if not accepted or outcome.candidate == outcome.baseline:
        return Loaded(replay=report)
    records = [result for result in results if result.candidate == outcome.candidate.digest and result.shown]
    if records:
        loading, why = _read_records(records, accepted)
    elif not models.manner.probes:
        loading, why = Loading.NOT_CHECKED, "this backend has no agent that could load it as it is set up"
    else:
        loading, why = _replay_once(outcome, accepted, models)
    return Loaded(replay=replace(report, loading=loading, why=why))


def _replay_once(outcome: Consolidated, accepted: Sequence[DocumentStep], models: Models) -> tuple[Loading, str]:
    """Have the agent itself do one task with the candidate in place."""
    task = _choose_task(outcome, accepted)
    if task is None:
        return Loading.NOT_CHECKED, "there is no task to check it with"
    if isinstance(task.reference, MomentReference):  # a session of its own loads the same and is far cheaper
        task = replace(task, reference=replace(task.reference, cut=""))
    assignment = assign(task, outcome.candidate, Manner(mode=ReplayMode.NATIVE))
    try:
        reply: Reply = models.target(assignment, phase=PHASE)
    except (TransientBackend, BudgetSpent) as error:
        return Loading.NOT_CHECKED, f"{type(error).__name__}: {error}"
    blank = ReplayResult(task_id=task.id, candidate=outcome.candidate.digest, mode=ReplayMode.NATIVE)
    result = record_trajectory(blank, assignment, reply)
    if not explain_not_loaded(assignment, reply):  # type: ignore[arg-type]
        result = replace(result, call_error="")  # only a failure to load matters here
    return _read_records([result], accepted)


def _choose_task(outcome: Consolidated, accepted: Sequence[DocumentStep]) -> TaskRecord | None:
    """Return a task that the change improved, otherwise any."""
    improved = [name for step in accepted if step.trial is not None for name in step.trial.improved]
    tasks = (*outcome.pools.val, *outcome.pools.train)
    return next((task for task in tasks if task.id in improved), next(iter(tasks), None))


def _read_records(records: Sequence[ReplayResult], accepted: Sequence[DocumentStep]) -> tuple[Loading, str]:
    """Return what the records of replays say about the documents that changed."""
    shown = [part for record in records for part in record.shown]
    for step in accepted:
        own = [part for part in shown if part.kind is step.kind]
        if missing := next((part.how for part in own if part.offered is False), ""):
            return Loading.NOT_LOADED, f"the {step.kind}: {missing}"
        if not any(part.offered for part in own):
            return Loading.NOT_CHECKED, f"the agent's records do not mention the {step.kind}"
        if step.kind is DocumentKind.SKILL and not any(part.read for part in own):
            replays = "the one replay" if len(records) == 1 else f"any of {len(records)} replays"
            return Loading.NOT_OPENED, f"the skill was on the agent's list and was not opened in {replays}"
    how = {part.kind: part.how for part in shown if part.read}
    return Loading.LOADED, "; ".join(f"{step.kind}: {how[step.kind]}" for step in accepted if step.kind in how)


def _count_replays(results: Sequence[ReplayResult]) -> ReplayReport:
    unique = {(result.task_id, result.candidate, result.sample): result for result in results}.values()
    done = [result for result in unique if not result.call_error]
    failures = Counter(str(result.ending) for result in done if result.ending is not Ending.DONE)
    skills = [part for result in done for part in result.shown if part.kind is DocumentKind.SKILL]
    if bypassed := sum(result.bypassed for result in done):
        failures["silent_bypass"] = bypassed
    if not_loaded := sum(result.call_error.startswith("NotLoaded") for result in unique):
        failures["not_loaded"] = not_loaded
    return ReplayReport(
        rollouts=len(done),
        unproven=sum(any(part.offered is None for part in result.shown) for result in done),
        with_skill=len(skills),
        opened=sum(bool(part.read) for part in skills),
        failures=dict(failures),
    )


def _list_notes(replay: ReplayReport) -> tuple[str, ...]:
    """Return what a reader must know about the replays."""
    notes = []
    if count := replay.failures.get("silent_bypass"):
        notes.append(
            f"silent bypass: in {count} of {replay.with_skill} replays the agent had the skill on its list and never"
            " opened it; rules in it could not help there"
        )
    if count := replay.failures.get("not_loaded"):
        notes.append(f"{count} replays are unmeasured: the agent did not load the candidate")
    match replay.loading:
        case Loading.NOT_LOADED:
            notes.append(f"held: the agent does not load the proposal ({replay.why}); adopted, it would do nothing")
        case Loading.NOT_OPENED:
            notes.append(
                f"it helps when it is read, but {replay.why}: it may do nothing unless the agent is told to open it"
            )
        case Loading.NOT_CHECKED if replay.why:
            notes.append(f"whether the agent loads the proposal was not checked: {replay.why}")
        case Loading.LOADED if replay.mode is ReplayMode.TEXT:
            notes.append(f"tried as text; one replay by the agent itself shows that it is loaded ({replay.why})")
        case _:
            pass
    return tuple(notes)
