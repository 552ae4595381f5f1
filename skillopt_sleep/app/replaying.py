"""How tasks are replayed: what the settings ask for, and whether this machine can do it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_sleep.domain.assignment import ReplayMode
from skillopt_sleep.domain.call import Role
from skillopt_sleep.domain.task import CommandReference
from skillopt_sleep.errors import UsageError
from skillopt_sleep.optimize.replay import Manner
from skillopt_sleep.ports import Agent
from skillopt_sleep.stores.commits import commit_of, is_project_of_git

if TYPE_CHECKING:
    from skillopt_sleep.app import App
    from skillopt_sleep.domain.task import TaskRecord

__all__ = ["commit_of_task", "manner_of"]


def manner_of(app: App, tasks: Sequence[TaskRecord]) -> Manner:
    """How this night replays its tasks; ``tasks`` are those of a task file.

    Raises ``UsageError`` where that cannot be done here, in one line that says what would help.
    """
    mode = app.settings.replay
    approved = app.approvals.of(str(app.project)) if mode is ReplayMode.WORKTREE else ()
    _require_approved(tasks, mode, {each.line for each in approved})
    name, _ = app.role(Role.TARGET)
    backend = app.backend(Role.TARGET)
    try:
        if mode is ReplayMode.TEXT:
            return Manner(probes=isinstance(backend, Agent))
        if not isinstance(backend, Agent):
            raise UsageError(
                f"--replay {mode}: the backend {name} has no agent that could be let to work; use claude or codex, or"
                " --replay text"
            )
        if mode is ReplayMode.WORKTREE:
            _require_project(app)
        if why := backend.refuses(mode):
            raise UsageError(f"--replay {mode}: {why}")
    finally:
        backend.close()
    return Manner(mode=mode, project=str(app.project) if mode is ReplayMode.WORKTREE else "", approved=approved)


def commit_of_task(app: App, task: TaskRecord) -> str:
    """The commit that a task is replayed at: its session's, else the last one before the session, else the present."""
    origin = task.origins[0] if task.origins else None
    return commit_of(app.project, app.env, commit=task.commit, at=origin.at if origin else "")


def _require_project(app: App) -> None:
    if app.settings.scope == "all":
        raise UsageError("--replay worktree works in copies of one project: leave out --scope all")
    if not is_project_of_git(Path(app.project), app.env):
        raise UsageError(
            f"--replay worktree: {app.project} is not the top of a git project with a commit; name one with --project,"
            " or use --replay native"
        )


def _require_approved(tasks: Sequence[TaskRecord], mode: ReplayMode, approved: set[str]) -> None:
    """A task file grants nothing: what it would have run must have been approved, and run where it can do no harm."""
    for task in tasks:
        if not isinstance(task.reference, CommandReference):
            continue
        if mode is not ReplayMode.WORKTREE:
            raise UsageError(f"task {task.id} is scored by commands, which takes --replay worktree")
        for line in task.reference.commands:
            if line not in approved:
                raise UsageError(
                    f"task {task.id} would run {line!r}, which is not approved: look at it, then"
                    f" skillopt-sleep checks approve {line!r}"
                )
