"""Everything decided before a night begins.

How tasks are replayed: what the settings ask for, and whether this machine can do it.

Which adopted change waits for its sealed test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from skillopt_sleep.errors import UsageError
from skillopt_sleep.gate.account import Account, score_needed
from skillopt_sleep.gate.audit import Audit
from skillopt_sleep.model.call import Role
from skillopt_sleep.model.document import DocumentKind, description
from skillopt_sleep.model.ports import Agent
from skillopt_sleep.model.rollout import ReplayMode
from skillopt_sleep.model.task import CommandReference
from skillopt_sleep.night.harvest import Window
from skillopt_sleep.night.plan import ConsolidatePlan, MiningPlan, NightPlan
from skillopt_sleep.night.pools import SplitPlan
from skillopt_sleep.night.report import MOST_ATTEMPTS, Adopted, BackendHealth
from skillopt_sleep.optimizer.replay import Manner
from skillopt_sleep.reports.watch import list_unhelpful_rules
from skillopt_sleep.storage.git import find_commit, is_git_project
from skillopt_sleep.storage.live_files import read_adoptions
from skillopt_sleep.usecases.adapters import NOT_ISOLATED, SIMULATED, build_backend, build_judges, night_caps, role_of
from skillopt_sleep.usecases.documents import read_live_documents, target_skill_name
from skillopt_sleep.usecases.status import watch_rules

if TYPE_CHECKING:
    from skillopt_sleep.model.document import Candidate
    from skillopt_sleep.model.task import TaskRecord
    from skillopt_sleep.usecases.workspace import Workspace


def manner_of(workspace: Workspace, tasks: Sequence[TaskRecord]) -> Manner:
    """How this night replays its tasks; ``tasks`` are those of a task file.

    Raises ``UsageError`` where that cannot be done here, in one line that says what would help.
    """
    mode = workspace.settings.replay
    approved = workspace.approvals.of(str(workspace.project)) if mode is ReplayMode.WORKTREE else ()
    _require_approved(tasks, mode, {each.line for each in approved})
    name, _ = role_of(workspace, Role.TARGET)
    backend = build_backend(workspace, Role.TARGET)
    try:
        if mode is ReplayMode.TEXT:
            return Manner(probes=isinstance(backend, Agent))
        if not isinstance(backend, Agent):
            raise UsageError(
                f"--replay {mode}: the backend {name} has no agent that could be let to work; use claude or codex, or"
                " --replay text"
            )
        if mode is ReplayMode.WORKTREE:
            _require_project(workspace)
        if why := backend.refuses(mode):
            raise UsageError(f"--replay {mode}: {why}")
    finally:
        backend.close()
    return Manner(mode=mode, project=str(workspace.project) if mode is ReplayMode.WORKTREE else "", approved=approved)


def commit_of_task(workspace: Workspace, task: TaskRecord) -> str:
    """The commit that a task is replayed at: its session's, else the last one before the session, else the present."""
    origin = task.origins[0] if task.origins else None
    return find_commit(workspace.project, workspace.env, commit=task.commit, at=origin.at if origin else "")


def _require_project(workspace: Workspace) -> None:
    if workspace.settings.scope == "all":
        raise UsageError("--replay worktree works in copies of one project: leave out --scope all")
    if not is_git_project(Path(workspace.project), workspace.env):
        raise UsageError(
            f"--replay worktree: {workspace.project} is not the top of a git project with a commit; name one with"
            " --project, or use --replay native"
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


def adopted_change(workspace: Workspace, baseline: Candidate) -> Adopted | None:
    """The latest change that is live and was never scored on sealed tasks, of the files a night would look at.

    The arms are the very bytes from before and after its adoption, whatever became of the files since.
    """
    project = str(workspace.project)
    scored = {test.change for test in workspace.trials.sealed(project)}
    paths = {document.path for document in baseline.documents}
    live = [each for each in read_adoptions(workspace.database) if each.project == project and each.path in paths]
    for night in dict.fromkeys(each.night for each in reversed(live)):
        attempts = workspace.trials.attempts(project, night)
        if night in scored or attempts >= MOST_ATTEMPTS:
            continue
        before = after = baseline
        own = [each for each in live if each.night == night]
        for each in reversed(own):
            before = before.with_document(each.document(each.before))
        for each in own:
            after = after.with_document(each.document(each.after))
        return Adopted(change=night, before=before, after=after, attempts=attempts)
    return None


NOT_ISOLATED_NOTE = "not isolated: the agent that answered knows more than it was asked, so the verdict proves less"
SIMULATED_NOTE = "the agent was simulated: this shows how a night goes, and proves nothing about a real agent"


def plan_night(workspace: Workspace, tasks: tuple[TaskRecord, ...] | None = None) -> NightPlan:
    """Decide everything about a night that can be decided beforehand; nothing is written.

    Raises ``UsageError`` for tasks nobody has reviewed, unless the target is simulated, and for adapters that
    cannot be built as the settings have it.
    """
    settings = workspace.settings
    tasks = workspace.redactor.clean(tasks)  # a file of tasks may have been written by hand, with what was at hand
    target, optimizer = role_of(workspace, Role.TARGET), role_of(workspace, Role.OPTIMIZER)
    unreviewed = sum(not task.reviewed for task in tasks or ())
    if unreviewed and {target[0], optimizer[0]} != {SIMULATED}:
        raise UsageError(
            f'{unreviewed} of {len(tasks or ())} tasks are not reviewed: read the file, set "reviewed": true, or'
            " try it with --backend simulated"
        )
    for each in Role:
        build_backend(workspace, each)
    build_judges(workspace)
    baseline, notes = read_live_documents(workspace, tasks)
    manner = manner_of(workspace, tasks or ())
    account = workspace.trials.account(str(workspace.project))
    since = ""
    if settings.lookback_days:
        since = (workspace.clock.now() - timedelta(days=settings.lookback_days)).isoformat()
    return NightPlan(
        project=str(workspace.project),
        baseline=baseline,
        notes=(
            *notes,
            *_about({target[0], optimizer[0]}),
            *_unchecked(manner),
            *list_unhelpful_rules(watch_rules(workspace)),
        ),
        roles=tuple(
            BackendHealth(role=role, backend=name, model=model)
            for role, (name, model) in {Role.TARGET: target, Role.OPTIMIZER: optimizer}.items()
        ),
        sources=(settings.source,),
        window=Window(scope=workspace.scope, since=since[:10], max_sessions=settings.max_sessions),
        mining=MiningPlan(
            by_model=settings.miner == "model" or (settings.miner == "auto" and optimizer[0] != SIMULATED),
            target_skill=target_skill_name(workspace),
            target_about=_description(workspace, baseline),
            given=tasks,
        ),
        split=msgspec.convert(settings, SplitPlan, from_attributes=True),
        step=msgspec.structs.replace(
            msgspec.convert(settings, ConsolidatePlan, from_attributes=True),
            k=score_needed(account, settings.alpha, by_itself=settings.auto_adopt),
            answered_by=(target[0], optimizer[0]),
        ),
        asked=score_needed(Account(), settings.alpha, by_itself=settings.auto_adopt),
        manner=manner,
        caps=night_caps(workspace),
        rejected=workspace.rejected.recall(workspace.scope),
        closed=workspace.rejected.closed(workspace.scope),
        pending=workspace.trials.pending(str(workspace.project)),
        account=account,
        adopted=adopted_change(workspace, baseline),
        audit=next((night.audit for night in workspace.journal.reports(str(workspace.project))), Audit()),
    )


def _about(backends: set[str]) -> Iterator[str]:
    """What is to be said of a verdict that such backends came to."""
    if SIMULATED in backends:
        yield SIMULATED_NOTE
    if backends & NOT_ISOLATED:
        yield NOT_ISOLATED_NOTE


def _unchecked(manner: Manner) -> Iterator[str]:
    """What is to be said of work in a copy of the project that no command will score."""
    if manner.mode is ReplayMode.WORKTREE and not manner.approved:
        yield (
            "no command is approved for this project, so work in its copies is scored by rubrics alone:"
            " `skillopt-sleep checks` lists what your sessions ran"
        )


def _description(workspace: Workspace, baseline: Candidate) -> str:
    """What the one skill to improve says it is for. Raises ``UsageError`` when there is no such skill."""
    if not target_skill_name(workspace):
        return ""
    skill = baseline[DocumentKind.SKILL]
    if skill is None or skill.content is None:
        where = skill.path if skill else workspace.settings.target_skill
        raise UsageError(f"--target-skill {workspace.settings.target_skill}: there is no skill at {where}")
    return description(skill)
