"""Everything decided before a night begins."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import msgspec

from skillopt_sleep.app.adapters import NOT_ISOLATED, SIMULATED
from skillopt_sleep.app.replaying import manner_of
from skillopt_sleep.app.sealed import adopted_change
from skillopt_sleep.app.watch import watched
from skillopt_sleep.domain.account import Account, score_needed
from skillopt_sleep.domain.assignment import ReplayMode
from skillopt_sleep.domain.audit import Audit
from skillopt_sleep.domain.call import Role
from skillopt_sleep.domain.document import DocumentKind, description
from skillopt_sleep.domain.report import BackendHealth
from skillopt_sleep.domain.split import SplitPlan
from skillopt_sleep.errors import UsageError
from skillopt_sleep.night.harvest import Window
from skillopt_sleep.night.plan import MiningPlan, NightPlan
from skillopt_sleep.night.trying import ConsolidatePlan
from skillopt_sleep.reports.watch import notes as watch_notes
from skillopt_sleep.settings import agent_homes
from skillopt_sleep.stores.documents import Targets, read_baseline

if TYPE_CHECKING:
    from skillopt_sleep.app import App
    from skillopt_sleep.domain.candidate import Candidate
    from skillopt_sleep.domain.task import TaskRecord
    from skillopt_sleep.optimize.replay import Manner

__all__ = ["baseline_of", "plan_night"]

NOT_ISOLATED_NOTE = "not isolated: the agent that answered knows more than it was asked, so the verdict proves less"
SIMULATED_NOTE = "the agent was simulated: this shows how a night goes, and proves nothing about a real agent"


def plan_night(app: App, tasks: tuple[TaskRecord, ...] | None = None) -> NightPlan:
    """Decide everything about a night that can be decided beforehand; nothing is written.

    Raises ``UsageError`` for tasks nobody has reviewed, unless the target is simulated, and for adapters that
    cannot be built as the settings have it.
    """
    settings = app.settings
    tasks = app.redactor.clean(tasks)  # a file of tasks may have been written by hand, with what was at hand
    target, optimizer = app.role(Role.TARGET), app.role(Role.OPTIMIZER)
    unreviewed = sum(not task.reviewed for task in tasks or ())
    if unreviewed and {target[0], optimizer[0]} != {SIMULATED}:
        raise UsageError(
            f'{unreviewed} of {len(tasks or ())} tasks are not reviewed: read the file, set "reviewed": true, or'
            " try it with --backend simulated"
        )
    for each in Role:
        app.backend(each)
    app.judges()
    baseline, notes = app.baseline()
    manner = manner_of(app, tasks or ())
    account = app.trials.account(str(app.project))
    since = ""
    if settings.lookback_days:
        since = (app.clock.now() - timedelta(days=settings.lookback_days)).isoformat()
    return NightPlan(
        project=str(app.project),
        baseline=baseline,
        notes=(*notes, *_about({target[0], optimizer[0]}), *_unchecked(manner), *watch_notes(watched(app))),
        roles=tuple(
            BackendHealth(role=role, backend=name, model=model)
            for role, (name, model) in {Role.TARGET: target, Role.OPTIMIZER: optimizer}.items()
        ),
        sources=(settings.source,),
        window=Window(scope=app.scope, since=since[:10], max_sessions=settings.max_sessions),
        mining=MiningPlan(
            by_model=settings.miner == "model" or (settings.miner == "auto" and optimizer[0] != SIMULATED),
            target_skill=app.target_skill,
            target_about=_description(app, baseline),
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
        caps=app.caps(),
        rejected=app.rejected.recall(app.scope),
        closed=app.rejected.closed(app.scope),
        pending=app.trials.pending(str(app.project)),
        account=account,
        adopted=adopted_change(app, baseline),
        audit=next((night.audit for night in app.journal.reports(str(app.project))), Audit()),
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


def _description(app: App, baseline: Candidate) -> str:
    """What the one skill to improve says it is for. Raises ``UsageError`` when there is no such skill."""
    if not app.target_skill:
        return ""
    skill = baseline[DocumentKind.SKILL]
    if skill is None or skill.content is None:
        where = skill.path if skill else app.settings.target_skill
        raise UsageError(f"--target-skill {app.settings.target_skill}: there is no skill at {where}")
    return description(skill)


def baseline_of(app: App) -> tuple[Candidate, tuple[str, ...]]:
    """The live files a night may propose to change, as they are, and notes on those it may not."""
    everywhere = app.settings.scope == "all"
    homes = app.settings.sources.get(app.agent, {})
    named = [*cast("list[str]", homes.get("homes", [])), *([str(homes["home"])] if "home" in homes else [])]
    home = next(iter((*named, *agent_homes(app.env).get(app.agent, ()))), "")
    return read_baseline(
        Targets(
            agent=app.agent,
            project=app.project,
            user_home=home if everywhere else "",
            skill=app.settings.target_skill,
        )
    )
