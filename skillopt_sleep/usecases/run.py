"""Run one night, or forecast it without a model call."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from skillopt_sleep.model.call import Role
from skillopt_sleep.storage.lock import lock_night
from skillopt_sleep.usecases.adapters import (
    build_backend,
    build_judges,
    build_sources,
    day_allowance,
    find_unused_answers,
    night_caps,
)
from skillopt_sleep.usecases.plan import commit_of_task, plan_night
from skillopt_sleep.usecases.sessions import redact
from skillopt_sleep.usecases.status import read_report

if TYPE_CHECKING:
    from skillopt_sleep.model.ports import Ledger, Progress
    from skillopt_sleep.model.task import TaskRecord
    from skillopt_sleep.night.connection import NightConnection
    from skillopt_sleep.night.forecast import DryRun
    from skillopt_sleep.night.harvest import Harvested
    from skillopt_sleep.night.plan import Kit, NightPlan
    from skillopt_sleep.night.report import NightReport
    from skillopt_sleep.usecases.workspace import Workspace


def run_night(
    workspace: Workspace, plan: NightPlan, *, wait: float = 0.0, progress: Progress | None = None
) -> NightReport:
    """Run or resume a night; its report as it was stored, secrets taken out.

    When another night is running it waits for it, at most ``wait`` seconds, and then plans anew, since much may have
    changed. Raises ``NightRunning``, ``DiskError`` and bugs; every other end is in the report.
    """
    from skillopt_sleep.night import night
    from skillopt_sleep.storage.space import check_disk
    from skillopt_sleep.usecases.adopt import adopt_automatically
    from skillopt_sleep.usecases.upkeep import tidy

    with lock_night(workspace.data_dir, wait=wait) as waited:
        plan = plan_night(workspace, plan.mining.given) if waited else plan
        check_disk(workspace.database, workspace.project)
        report = night.run_night(plan, open_kit(workspace, plan, progress))
        if workspace.settings.auto_adopt:
            adopt_automatically(workspace, report)
        tidy(workspace)
        if report.stopped_by is None:
            for notice in find_unused_answers(workspace):
                workspace.notify(notice)
    return read_report(workspace, report.night)


def forecast_night(workspace: Workspace, tasks: tuple[TaskRecord, ...] | None = None) -> DryRun:
    """A night up to its first model call: tasks and price. Writes nothing."""
    from skillopt_sleep.night.forecast import dry_run

    workspace = workspace.as_dry_run()
    plan = plan_night(workspace, tasks)
    return dry_run(plan, open_kit(workspace, plan))


def open_kit(workspace: Workspace, plan: NightPlan, progress: Progress | None = None) -> Kit:
    """The stores and adapters of a night. A night over a task file reads no sessions, so nobody must agree to it."""
    from skillopt_sleep.night.plan import Kit

    over_sessions = plan.mining.given is None
    return Kit(
        sources=build_sources(workspace) if over_sessions else (),
        inbox=workspace.inbox,
        archive=workspace.archive,
        rejected=workspace.rejected,
        trials=workspace.trials,
        staging=workspace.staging,
        journal=workspace.journal,
        connect=functools.partial(connect, workspace, plan, progress, consent=over_sessions),
        redact=functools.partial(redact, workspace),
        commit_of=functools.partial(commit_of_task, workspace),
    )


def connect(
    workspace: Workspace,
    plan: NightPlan,
    progress: Progress | None,
    ledger: Ledger,
    sessions: Harvested,
    *,
    consent: bool = True,
) -> NightConnection:
    """Both roles of a night, ready to be asked.

    With ``consent`` it raises ``NotAllowed`` when a provider may not be sent these sessions.
    """
    from skillopt_sleep.night.connection import NightConnection
    from skillopt_sleep.usecases.permissions import require_agreement

    if consent:
        require_agreement(workspace, [build_backend(workspace, role) for role in Role])
    return NightConnection(
        {role: build_backend(workspace, role, sessions=sessions) for role in Role},
        build_judges(workspace),
        ledger,
        workspace.clock,
        caps=night_caps(workspace),
        day=day_allowance(workspace, ledger),
        workers=workspace.settings.workers,
        first_wait=workspace.settings.retry_wait,
        progress=progress,
        redactor=workspace.redactor,
        manner=plan.manner,
    )
