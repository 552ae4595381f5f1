"""Gather: mine the sessions this night took up, keep what was found, and choose tonight's tasks.

Prepare: for replays in copies of the project, each task gets its commit and the checks the user approved.

Split: tonight's tasks become those that teach and those that decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import BackendUnusable
from skillopt_sleep.gate.pending import Dropped, PendingEdit, revive, tonight
from skillopt_sleep.mining.heuristic import mine_heuristic
from skillopt_sleep.mining.model_miner import mine_model
from skillopt_sleep.mining.tasks import Mined, belongs_to_skill, group_given_tasks, merge_tasks
from skillopt_sleep.model.replies import Refusal
from skillopt_sleep.model.rollout import ReplayMode
from skillopt_sleep.model.session import Session
from skillopt_sleep.model.task import (
    CommandReference,
    Shortfall,
    Split,
    TaskRecord,
    group_of,
    reference_kind,
    shortfall,
)
from skillopt_sleep.night.harvest import Harvested
from skillopt_sleep.night.plan import Kit, MiningPlan, NightPlan
from skillopt_sleep.night.pools import Past, Pools, SplitPlan, split_tasks
from skillopt_sleep.night.report import NightReport, StoppedBy
from skillopt_sleep.night.trial_policy import base_of
from skillopt_sleep.optimizer.replay import Manner, Models


class Gathered(Struct, frozen=True, kw_only=True):
    """Tonight's tasks. ``mined`` counts those found in this night's sessions, ``known`` all of the archive.

    ``shortfall`` says how far these are from carrying a verdict.
    """

    tasks: tuple[TaskRecord, ...] = ()
    sessions: int = 0
    mined: int = 0
    known: int = 0
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    shortfall: Shortfall = Shortfall()

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        counts = replace(report.counts, mined=self.mined, refused=len(self.refused), tasks=len(self.tasks))
        report = replace(
            report,
            counts=counts,
            refused=(*report.refused, *self.refused),
            notes=(*report.notes, *self.notes),
            shortfall=self.shortfall,
        )
        if self.tasks:
            return report
        if self.sessions:
            return replace(report, stopped_by=StoppedBy.NO_TASKS, why="the new sessions hold no task to learn from")
        where = "there are no new sessions of this project"
        if report.counts.out_of_scope:
            where += f"; {report.counts.out_of_scope} of other projects wait (--scope all takes them up)"
        return replace(report, stopped_by=StoppedBy.NO_SESSIONS, why=where)


def gather(harvested: Harvested, plan: NightPlan, kit: Kit, models: Models, seed: int) -> Gathered:
    """Mine, keep, choose. Sessions leave the inbox in the step that keeps their tasks.

    Raises ``FatalBackend`` and ``BudgetSpent``, with every session still in the inbox; ``FatalBackend`` also when
    sessions could not be mined and there is nothing else to work on.
    """
    scope = plan.window.scope
    if plan.mining.given is not None:
        given = group_given_tasks(kit.archive.tasks(scope), plan.mining.given)
        return Gathered(tasks=given, shortfall=shortfall(given))
    sessions = [kit.inbox.load(key) for key in harvested.sessions]
    mined = _mine(sessions, plan.mining, models)
    done = [
        key
        for key, session in zip(harvested.sessions, sessions, strict=True)
        if session.session_id not in mined.unmined
    ]
    kit.archive.commit(scope, merge_tasks(kit.archive.tasks(scope), mined.tasks), done)
    known, unjudged = _split_off_unjudged(kit.archive.tasks(scope), models)
    skill = plan.mining.target_skill
    about = plan.mining.target_about
    wanted = [
        task
        for task in known
        if not skill or belongs_to_skill(skill, (task.skill_hint,), task.intent, description=about)
    ]
    split = replace(plan.split, seed=seed)
    tasks = choose(wanted, kit.archive.past(scope), split, _alive(plan, models), among=known)
    if mined.unmined and not tasks:
        raise BackendUnusable(
            f"{len(mined.unmined)} of {len(sessions)} sessions could not be mined ({mined.lost}); they wait in the"
            " inbox: run again when the service is back"
        )
    return Gathered(
        tasks=tasks,
        sessions=len(sessions),
        mined=mined.found,
        known=len(known),
        refused=mined.refused,
        shortfall=shortfall(wanted),
        notes=(
            *_unmined_note(len(sessions) - len(done)),
            *unjudged,
            *_other_skills_note(len(known) - len(wanted), skill),
        ),
    )


def _alive(plan: NightPlan, models: Models) -> tuple[PendingEdit, ...]:
    """The undecided edits that can go on tonight; where none can, all of them: a night is to say why."""
    on = base_of(plan.baseline, models, plan.step)
    alive = tuple(each for each in plan.going_on if not isinstance(revive(each, plan.baseline, on), Dropped))
    return alive or plan.going_on


def _mine(sessions: Sequence[Session], plan: MiningPlan, models: Models) -> Mined:
    """Mine for every skill: the tasks of others wait in the archive until a night is theirs."""
    if not plan.by_model:
        return mine_heuristic(sessions)
    return mine_model(sessions, models.optimizer, models.parallel)


def _split_off_unjudged(tasks: Sequence[TaskRecord], models: Models) -> tuple[tuple[TaskRecord, ...], tuple[str, ...]]:
    """Split off the tasks whose judge is not installed, and say which judge that is; they stay in the archive."""
    missing = Counter(kind for task in tasks if (kind := reference_kind(task.reference)) not in models.judges)
    notes = tuple(
        f"{count} tasks wait, because their judge {kind!r} is not installed" for kind, count in missing.items()
    )
    return tuple(task for task in tasks if reference_kind(task.reference) not in missing), notes


def _unmined_note(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (f"{count} sessions could not be mined tonight, because the reply was lost; they wait in the inbox",)


def _other_skills_note(count: int, skill: str) -> tuple[str, ...]:
    if not count:
        return ()
    return (f"{count} tasks do not tell of the skill {skill!r}; they wait for a night without --target-skill",)


def choose(
    tasks: Sequence[TaskRecord],
    past: Past,
    plan: SplitPlan,
    pending: Sequence[PendingEdit] = (),
    *,
    among: Sequence[TaskRecord] = (),
) -> tuple[TaskRecord, ...]:
    """Tonight's tasks of an archive, each pinned to its part in the night. ``among``: see ``split_tasks``.

    When nothing is fresh, none at all, or just what the one of the ``pending`` edits that is closest to a decision can
    go on with: nothing teaches on such a night, so all that is neither sealed nor pinned to teach may decide.
    """
    waiting = tonight(pending)[0]
    pools = split_tasks(tasks, plan, past, among=among, waiting=waiting)
    if not any(task.id in past.fresh for task in (*pools.train, *pools.val)):
        free = _free(tasks, plan, past, among)
        going_on = (each.among((*among, *tasks)).unseen(free) for each in waiting)
        decide = next(filter(None, going_on), ())
        return tuple(replace(task, split=Split.VAL) for task in decide[: plan.max_val])
    parts = {Split.TRAIN: pools.train, Split.VAL: pools.val, Split.TEST: pools.test}
    return tuple(replace(task, split=split) for split, dealt in parts.items() for task in dealt)


def _free(
    tasks: Sequence[TaskRecord], plan: SplitPlan, past: Past, among: Sequence[TaskRecord]
) -> tuple[TaskRecord, ...]:
    """All that is neither sealed nor pinned to teach, those that decided least often first."""
    every = replace(plan, max_train=len(tasks), max_val=len(tasks), recall_k=0)
    pools = split_tasks(tasks, every, past, among=among)
    teach = {group_of(task) for task in pools.train if task.split is Split.TRAIN}
    free = [task for task in (*pools.val, *pools.train) if group_of(task) not in teach]
    return tuple(sorted(free, key=lambda task: past.as_val.get(task.id, 0)))


class Prepared(Struct, frozen=True, kw_only=True):
    """Tonight's tasks as they will be replayed. ``checked`` counts those that a command will score."""

    tasks: tuple[TaskRecord, ...] = ()
    checked: int = 0
    notes: tuple[str, ...] = ()

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        return replace(report, notes=(*report.notes, *self.notes))


def prepare(gathered: Gathered, manner: Manner, commit_of: Callable[[TaskRecord], str]) -> Prepared:
    """Give each task the state of the project it is replayed in, and where its session ran an approved command, that.

    A task of a state that git does not know is left out, and said to be. In other modes the tasks stay as they are.
    """
    if manner.mode is not ReplayMode.WORKTREE:
        return Prepared(tasks=gathered.tasks)
    tasks = [replace(_checked(task, manner), commit=commit_of(task)) for task in gathered.tasks]
    known = tuple(task for task in tasks if task.commit)
    checked = sum(isinstance(task.reference, CommandReference) for task in known)
    notes = [f"replayed in throwaway copies of the project; your commands score {checked} of {len(known)} tasks"]
    if lost := len(tasks) - len(known):
        notes.append(f"{lost} tasks were left out: git knows no state of the project for them")
    return Prepared(tasks=known, checked=checked, notes=tuple(notes))


def _checked(task: TaskRecord, manner: Manner) -> TaskRecord:
    """The task scored by those of its commands that were approved, where there are any."""
    approved = {each.line for each in manner.approved}
    lines = tuple(line for line in task.commands if line in approved)
    return replace(task, reference=CommandReference(commands=lines)) if lines else task


def split(prepared: Prepared, plan: SplitPlan, seed: int) -> Pools:
    """Deal the tasks: those of an archive came with their parts, those of a task file are dealt by seed."""
    return split_tasks(prepared.tasks, replace(plan, seed=seed))
