"""Gather: mine the sessions this night took up, keep what was found, and choose tonight's tasks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.pending import PendingEdit
from skillopt_sleep.domain.refusal import Refusal
from skillopt_sleep.domain.relevance import relates
from skillopt_sleep.domain.report import NightReport, StoppedBy
from skillopt_sleep.domain.session import Session
from skillopt_sleep.domain.shortfall import Shortfall, shortfall
from skillopt_sleep.domain.split import Past, SplitPlan, split_tasks
from skillopt_sleep.domain.task import Split, TaskRecord
from skillopt_sleep.errors import BackendUnusable
from skillopt_sleep.night.harvest import Harvested
from skillopt_sleep.night.merge import grouped, merge
from skillopt_sleep.night.mine_heuristic import mine_heuristic
from skillopt_sleep.night.mine_model import mine_model
from skillopt_sleep.night.mined import Mined
from skillopt_sleep.night.plan import Kit, MiningPlan, NightPlan
from skillopt_sleep.optimize.replay import Models

__all__ = ["Gathered", "choose", "gather"]


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
    if plan.mining.given is not None:
        given = grouped(plan.mining.given)
        return Gathered(tasks=given, shortfall=shortfall(given))
    sessions = [kit.inbox.load(key) for key in harvested.sessions]
    mined = _mine(sessions, plan.mining, models)
    scope = plan.window.scope
    done = [
        key
        for key, session in zip(harvested.sessions, sessions, strict=True)
        if session.session_id not in mined.unmined
    ]
    kit.archive.commit(scope, merge(kit.archive.tasks(scope), mined.tasks), done)
    known = kit.archive.tasks(scope)
    skill = plan.mining.target_skill
    about = plan.mining.target_about
    wanted = [task for task in known if not skill or relates(skill, (task.skill_hint,), task.intent, about=about)]
    split = replace(plan.split, seed=seed)
    tasks = choose(wanted, kit.archive.past(scope), split, plan.pending, among=known)
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
        notes=(*_unmined_note(len(sessions) - len(done)), *_other_skills_note(len(known) - len(wanted), skill)),
    )


def _mine(sessions: Sequence[Session], plan: MiningPlan, models: Models) -> Mined:
    """Mine for every skill: the tasks of others wait in the archive until a night is theirs."""
    if not plan.by_model:
        return mine_heuristic(sessions)
    return mine_model(sessions, models.optimizer, models.parallel)


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

    When nothing is fresh, none at all, or just what an undecided edit can go on with: nothing teaches on such a night,
    so all that is not pinned to teach may decide.
    """
    pools = split_tasks(tasks, plan, past, among=among)
    if not any(task.id in past.fresh for task in (*pools.train, *pools.val)):
        closest = max(pending, key=lambda each: each.tally.score, default=None)
        free = [task for task in (*pools.val, *pools.train) if task.split is not Split.TRAIN]
        going_on = closest.unseen(free) if closest else ()
        return tuple(replace(task, split=Split.VAL) for task in going_on[: plan.max_val])
    parts = {Split.TRAIN: pools.train, Split.VAL: pools.val, Split.TEST: pools.test}
    return tuple(replace(task, split=split) for split, dealt in parts.items() for task in dealt)
