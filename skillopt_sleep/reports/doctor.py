"""What ``doctor`` finds out: whether a night could run, what it would do and cost, and who would see what.

What ``doctor`` prints: whether a night could run here, what it would do and cost, and who would see what.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from skillopt_sleep.mining.insights import Insights
from skillopt_sleep.model.call import Caps
from skillopt_sleep.night.forecast import Rehearsal
from skillopt_sleep.night.report import BackendHealth
from skillopt_sleep.reports import dry_run as rehearsal
from skillopt_sleep.reports import insights, schedule
from skillopt_sleep.reports.words import number, plain
from skillopt_sleep.scheduling.due import Outlook


class SourceFound(Struct, frozen=True, kw_only=True):
    """One agent's session files on this machine; ``size`` in bytes, ``oldest`` an ISO date or ""."""

    source: str
    files: int
    size: int
    oldest: str = ""


class TargetFile(Struct, frozen=True, kw_only=True):
    """A live file a night may propose to change; ``tracked`` by git means the team will see it."""

    kind: str
    path: str
    exists: bool
    tracked: bool


class DoctorReport(Struct, frozen=True, kw_only=True):
    """Everything ``doctor`` prints."""

    version: str
    python: str
    data_dir: str
    project: str
    scope: str
    sources: tuple[SourceFound, ...]
    targets: tuple[TargetFile, ...]
    backends: tuple[BackendHealth, ...]
    caps: Caps
    rehearsal: Rehearsal
    insights: Insights
    schedule: Outlook | None = None
    problems: tuple[str, ...] = ()


NO_SCHEDULE = "Nothing is scheduled: skillopt-sleep schedule holds a night every night."


def render(report: DoctorReport) -> str:
    """The lines, not ended by a newline."""
    sections = [
        list(_verdict(report)),
        [f"skillopt-sleep {report.version}, Python {report.python}", f"own data      {plain(report.data_dir)}"],
        list(_sessions(report)),
        list(_models(report)),
        list(_files(report)),
        list(_caps(report)),
        list(schedule.lines(report.schedule)) if report.schedule else [NO_SCHEDULE],
        [rehearsal.render(report.rehearsal)],
        [insights.render(report.insights).rstrip()],
    ]
    return "\n\n".join("\n".join(section) for section in sections)


def _verdict(report: DoctorReport) -> Iterator[str]:
    if not report.problems:
        yield "A night could run here. Nothing was spent and nothing was written to find that out."
        return
    yield f"Before a night can run, {number(len(report.problems), 'thing')} to mend:"
    yield from (f"  - {plain(problem)}" for problem in report.problems)


def _sessions(report: DoctorReport) -> Iterator[str]:
    scope = f"of {plain(report.project)}" if report.scope == "invoked" else "of every project"
    if not report.sources:
        yield f"Sessions {scope}: there is no home of an agent to look for them in."
        return
    yield f"Sessions {scope} are looked for in:"
    for found in report.sources:
        oldest = f", the oldest of {found.oldest}" if found.oldest else ""
        yield f"  {found.source:<10}  {number(found.files, 'file')}, {found.size / 1e6:,.1f} MB{oldest}"
    if any(found.source == "claude" for found in report.sources):
        yield (
            "  Claude Code deletes sessions after cleanupPeriodDays (30 unless you set it); what a harvest has read"
            " stays in the archive."
        )


def _models(report: DoctorReport) -> Iterator[str]:
    yield "Models:"
    for health in report.backends:
        version = f" {plain(health.version)}" if health.version else ""
        model = plain(health.model) or "its default model"
        yield f"  {health.role:<10}  {health.backend}{version}, {model}: {_state(health)}"
    yield "What leaves this machine: the prompts of a night, which quote your sessions with secrets taken out, to"
    seen = dict.fromkeys((health.backend, health.sees) for health in report.backends)
    yield from (f"  {backend:<10}  {plain(sees)}" for backend, sees in seen)


def _state(health: BackendHealth) -> str:
    if health.ready:
        return "ready, logged in" if health.logged_in else "ready"
    return plain(health.detail) or "cannot be used"


def _files(report: DoctorReport) -> Iterator[str]:
    yield "Files a night may propose to change (only `adopt` changes them):"
    for target in report.targets:
        there = "is there" if target.exists else "would be made"
        tracked = "; git tracks it, so the team would see the change" if target.tracked else ""
        yield f"  {target.kind:<10}  {plain(target.path)} ({there}{tracked})"


def _caps(report: DoctorReport) -> Iterator[str]:
    caps = report.caps
    yield "A night stops at whichever comes first:"
    yield f"  {caps.calls:,} calls, {caps.tokens:,} tokens, {caps.usd:.2f} USD, {caps.minutes:g} minutes"
