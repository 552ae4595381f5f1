"""Load: before a change is staged, see from the agent's own records that it really loads it.

A change tried as text has shown that it helps when it is read, not that the agent reads it: one replay by the agent
itself shows that much. Where the agent was at work anyway, its records of the trial tell.
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
from skillopt_sleep.model.rollout import Assignment, Ending, ReplayMode, ReplayResult, Shown, not_shown
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.night.outcome import Consolidated, DocumentStep
from skillopt_sleep.night.report import Loading, NightReport, ReplayReport
from skillopt_sleep.optimizer.replay import Manner, Models, assign, attempted

PHASE = "load"


class Loaded(Struct, frozen=True, kw_only=True):
    """What the night's replays by an agent were like, and whether what it proposes is really loaded."""

    replay: ReplayReport = ReplayReport()

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        return replace(report, replay=self.replay, notes=(*report.notes, *_notes(self.replay)))


def load(outcome: Consolidated, models: Models) -> Loaded:
    """Count how the agent's replays went; where a change is about to be staged, make sure that it is loaded.

    One call at most, and none where the trial itself was native. Raises ``FatalBackend``.
    """
    results = [result for step in outcome.steps for result in _results(step) if result.mode is not ReplayMode.TEXT]
    told = replace(_counted(results), mode=models.manner.mode)
    accepted = [step for step in outcome.steps if step.decision.verdict is Verdict.ACCEPT]
    if not accepted or outcome.candidate == outcome.baseline:
        return Loaded(replay=told)
    if results and (records := _of(results, outcome.candidate.digest)):
        loading, why = _judged(records, accepted)
    elif not models.manner.probes:
        loading, why = Loading.NOT_CHECKED, "this backend has no agent that would load it"
    else:
        loading, why = _probed(outcome, accepted, models)
    return Loaded(replay=replace(told, loading=loading, why=why))


def _probed(outcome: Consolidated, accepted: Sequence[DocumentStep], models: Models) -> tuple[Loading, str]:
    """Have the agent itself do one task with the candidate in place."""
    task = _telling_task(outcome, accepted)
    if task is None:
        return Loading.NOT_CHECKED, "there is no task to check it with"
    assignment = assign(task, outcome.candidate, Manner(mode=ReplayMode.NATIVE))
    try:
        reply: Reply = models.target(assignment, phase=PHASE)
    except (TransientBackend, BudgetSpent) as error:
        return Loading.NOT_CHECKED, f"{type(error).__name__}: {error}"
    blank = ReplayResult(task_id=task.id, candidate=outcome.candidate.digest, mode=ReplayMode.NATIVE)
    return _judged([_kept(attempted(blank, assignment, reply), assignment, reply)], accepted)


def _kept(result: ReplayResult, assignment: Assignment, reply: Reply) -> ReplayResult:
    """The result, whose error says only whether the candidate was loaded."""
    return result if not_shown(assignment, reply) else replace(result, call_error="")  # type: ignore[arg-type]


def _telling_task(outcome: Consolidated, accepted: Sequence[DocumentStep]) -> TaskRecord | None:
    """A task that the change improved, else any."""
    improved = [name for step in accepted if step.trial is not None for name in step.trial.improved]
    tasks = (*outcome.pools.val, *outcome.pools.train)
    return next((task for task in tasks if task.id in improved), next(iter(tasks), None))


def _judged(records: Sequence[ReplayResult], accepted: Sequence[DocumentStep]) -> tuple[Loading, str]:
    """What the records of replays say about the documents that changed."""
    for step in accepted:
        shown = [each for record in records for each in record.shown if each.kind is step.kind]
        if missing := next((each.how for each in shown if each.offered is False), ""):
            return Loading.NOT_LOADED, f"the {step.kind}: {missing}"
        if not any(each.offered for each in shown):
            return Loading.NOT_CHECKED, f"the agent's records do not tell of the {step.kind}"
        if step.kind is DocumentKind.SKILL and not any(each.read for each in shown):
            replays = "the one replay" if len(records) == 1 else f"any of {len(records)} replays"
            return Loading.NOT_OPENED, f"the skill was on the agent's list and was not opened in {replays}"
    return Loading.LOADED, _in_words([each for record in records for each in record.shown], accepted)


def _in_words(shown: Sequence[Shown], accepted: Sequence[DocumentStep]) -> str:
    hows = {each.kind: each.how for each in shown if each.read}
    return "; ".join(f"{step.kind}: {hows[step.kind]}" for step in accepted if step.kind in hows)


def _of(results: Sequence[ReplayResult], candidate: str) -> list[ReplayResult]:
    return [result for result in results if result.candidate == candidate and result.shown]


def _results(step: DocumentStep) -> tuple[ReplayResult, ...]:
    trial = step.trial
    return (*step.train, *(trial.baseline if trial else ()), *(trial.candidate if trial else ()))


def _counted(results: Sequence[ReplayResult]) -> ReplayReport:
    unique = {(each.task_id, each.candidate, each.sample): each for each in results}.values()
    done = [each for each in unique if not each.call_error]
    failures = Counter(str(each.ending) for each in done if each.ending is not Ending.DONE)
    skills = [shown for each in done for shown in each.shown if shown.kind is DocumentKind.SKILL]
    bypassed = sum(each.bypassed for each in done)
    if bypassed:
        failures["silent_bypass"] = bypassed
    unloaded = sum(each.call_error.startswith("NotLoaded") for each in unique)
    if unloaded:
        failures["not_loaded"] = unloaded
    return ReplayReport(
        rollouts=len(done),
        unproven=sum(any(part.offered is None for part in each.shown) for each in done),
        with_skill=len(skills),
        opened=sum(bool(shown.read) for shown in skills),
        failures=dict(failures),
    )


def _notes(replay: ReplayReport) -> tuple[str, ...]:
    """What a reader must know of it."""
    notes = []
    if replay.failures.get("silent_bypass"):
        count = replay.failures["silent_bypass"]
        notes.append(
            f"silent bypass: in {count} of {replay.with_skill} replays the agent had the skill on its list and never"
            " opened it; rules in it could not help there"
        )
    if replay.failures.get("not_loaded"):
        notes.append(f"{replay.failures['not_loaded']} replays are unmeasured: the agent did not load the candidate")
    match replay.loading:
        case Loading.NOT_LOADED:
            notes.append(f"held: the agent does not load what is proposed ({replay.why}): adopted, it would do nothing")
        case Loading.NOT_OPENED:
            notes.append(
                f"it helps when it is read, but {replay.why}: it may do nothing unless the agent is told to open it"
            )
        case Loading.NOT_CHECKED if replay.why:
            notes.append(f"whether the agent really loads the proposal was not checked: {replay.why}")
        case Loading.LOADED if replay.mode is ReplayMode.TEXT:
            notes.append(f"tried as text; one replay by the agent itself shows that it is loaded ({replay.why})")
        case _:
            pass
    return tuple(notes)
