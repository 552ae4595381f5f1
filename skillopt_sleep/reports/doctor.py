"""A night before it runs: ``doctor`` checks everything it needs, ``run --dry-run`` shows its tasks and calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from skillopt_sleep.agents import agent_of_source
from skillopt_sleep.mining.insights import Insights
from skillopt_sleep.model.call import Caps
from skillopt_sleep.model.moment import MomentReference
from skillopt_sleep.model.task import TaskRecord, may_vote
from skillopt_sleep.night.forecast import DryRun
from skillopt_sleep.night.report import BackendHealth
from skillopt_sleep.reports.formatting import PHASES, list_left_out, number, plain
from skillopt_sleep.reports.insights import render_insights
from skillopt_sleep.reports.measurements import describe_shortfall
from skillopt_sleep.reports.status import describe_schedule
from skillopt_sleep.scheduling.due import Outlook

TASK_CHARACTERS = 90
"""Characters of a task."""

TASKS = 8
"""Tasks shown of each kind."""


class SourceFound(Struct, frozen=True, kw_only=True):
    """One agent's session files on this machine."""

    source: str
    files: int
    size: int
    """Bytes."""
    oldest: str = ""
    """ISO date, "" when there is no file."""


class TargetFile(Struct, frozen=True, kw_only=True):
    """A live file that a night may propose to change."""

    kind: str
    path: str
    exists: bool
    tracked: bool
    """Whether git tracks it, so that a team would see the change."""


class DoctorReport(Struct, frozen=True, kw_only=True):
    """Everything that ``doctor`` prints."""

    version: str
    python: str
    data_dir: str
    project: str
    scope: str
    """``invoked``: sessions of this project; ``all``: of every project."""
    sources: tuple[SourceFound, ...]
    targets: tuple[TargetFile, ...]
    backends: tuple[BackendHealth, ...]
    caps: Caps
    rehearsal: DryRun
    insights: Insights
    schedule: Outlook | None = None
    """None when nothing is scheduled."""
    problems: tuple[str, ...] = ()
    """What has to be fixed before a night can run."""


def render_doctor(report: DoctorReport) -> str:
    """Return the page, without a final newline."""
    schedule = (
        describe_schedule(report.schedule)
        if report.schedule
        else ["Nothing is scheduled: skillopt-sleep schedule runs a night every night."]
    )
    sections = [
        list(_problems(report)),
        [f"skillopt-sleep {report.version}, Python {report.python}", f"data folder   {plain(report.data_dir)}"],
        list(_sessions(report)),
        list(_models(report)),
        list(_files(report)),
        list(_caps(report.caps)),
        list(schedule),
        [render_dry_run(report.rehearsal)],
        [render_insights(report.insights)],
    ]
    return "\n\n".join("\n".join(section) for section in sections)


def _problems(report: DoctorReport) -> Iterator[str]:
    if not report.problems:
        yield "Ready: a night can run here. This check spent nothing and changed nothing."
        return
    yield f"Before a night can run, fix {number(len(report.problems), 'thing')}:"
    yield from (f"  - {plain(problem)}" for problem in report.problems)


def _sessions(report: DoctorReport) -> Iterator[str]:
    scope = f"of {plain(report.project)}" if report.scope == "invoked" else "of every project"
    if not report.sources:
        yield f"Sessions {scope}: no folder of a known agent was found."
        return
    yield f"Sessions {scope} are read from:"
    for found in report.sources:
        oldest = f", the oldest from {found.oldest}" if found.oldest else ""
        yield f"  {found.source:<10}  {number(found.files, 'file')}, {found.size / 1e6:,.1f} MB{oldest}"
    for found in report.sources:
        if (agent := agent_of_source(found.source)) and agent.retention:
            yield f"  {agent.retention}; what was harvested stays in the archive."


def _models(report: DoctorReport) -> Iterator[str]:
    yield "Models:"
    for health in report.backends:
        version = f" {plain(health.version)}" if health.version else ""
        model = plain(health.model) or "its default model"
        yield f"  {health.role:<10}  {health.backend}{version}, {model}: {_readiness(health)}"
    yield "What leaves this machine: the prompts of a night, which quote your sessions without secrets, to"
    receivers = dict.fromkeys((health.backend, health.sees) for health in report.backends)
    yield from (f"  {backend:<10}  {plain(sees)}" for backend, sees in receivers)


def _readiness(health: BackendHealth) -> str:
    if health.ready:
        return "ready, logged in" if health.logged_in else "ready"
    return plain(health.detail) or "cannot be used"


def _files(report: DoctorReport) -> Iterator[str]:
    yield "Files a night may propose to change (only `adopt` changes them):"
    for target in report.targets:
        state = "exists" if target.exists else "would be created"
        tracked = "; git tracks it, so your team would see the change" if target.tracked else ""
        yield f"  {target.kind:<10}  {plain(target.path)} ({state}{tracked})"


def _caps(caps: Caps) -> Iterator[str]:
    yield "A night stops at the first of these caps:"
    yield f"  {caps.calls:,} calls, {caps.tokens:,} tokens, {caps.usd:.2f} USD, {caps.minutes:g} minutes"


def render_dry_run(rehearsal: DryRun) -> str:
    """Return the tasks a night would use now and the model calls it would make; without a final newline."""
    pools = rehearsal.pools
    shortfall = describe_shortfall(rehearsal.shortfall)
    sections = [
        list(_found(rehearsal)),
        list(_tasks("To learn from", pools.train)),
        [*_tasks("To test on", pools.val), *([shortfall] if shortfall else [])],
        list(_calls(rehearsal)),
    ]
    return "\n\n".join("\n".join(section) for section in sections)


def _found(rehearsal: DryRun) -> Iterator[str]:
    pools = rehearsal.pools
    yield "What a night would do now. No model was called and nothing was written."
    yield ""
    found = len(pools.train) + len(pools.val) + len(pools.test) + pools.left
    yield f"It would read {number(rehearsal.sessions, 'session')}; {number(found, 'task')} can be used."
    left = (
        (rehearsal.waiting, "session kept for a later night", "sessions kept for a later night"),
        (rehearsal.refused, "unsuitable task", "unsuitable tasks"),
        (pools.left, "task kept for a later night", "tasks kept for a later night"),
    )
    sessions = list_left_out(out_of_scope=rehearsal.out_of_scope, older=rehearsal.older, unplaced=rehearsal.unplaced)
    if said := "; ".join((*(number(count, one, many) for count, one, many in left if count), *sessions)):
        yield f"Left out: {said}."


def _tasks(heading: str, tasks: Sequence[TaskRecord]) -> Iterator[str]:
    yield f"{heading}: {len(tasks) or 'none'}"
    yield from (f"  {_describe_task(task)}" for task in tasks[:TASKS])
    if len(tasks) > TASKS:
        yield f"  and {len(tasks) - TASKS} more"


def _describe_task(task: TaskRecord) -> str:
    """Say what a task is about: its request or, at a moment, what the person said there."""
    if not isinstance(task.reference, MomentReference):
        return plain(task.intent, TASK_CHARACTERS)
    said = plain(task.reference.about or " ".join(task.reference.words), TASK_CHARACTERS)
    where = "where it applies too" if task.reference.sibling else "after"
    silent = "" if may_vote(task) else "; it teaches, and cannot tell good from bad"
    return f"you said “{said}” ({where}: {plain(task.intent, TASK_CHARACTERS // 2)}{silent})"


def _calls(rehearsal: DryRun) -> Iterator[str]:
    yield f"Model calls: about {number(rehearsal.usual_calls)}, and never more than {number(rehearsal.cap)}"
    for row in rehearsal.expected:
        calls = f"{number(row.usual)}, at most {number(row.most)}" if row.most > row.usual else number(row.usual)
        yield f"  {row.phase:<7}  {calls:<15}  {PHASES.get(row.phase, '')}".rstrip()
