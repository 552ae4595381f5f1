"""Which tasks teach and which decide: whole groups of near-duplicates, dealt by seed, never straddling a split."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.report import NightReport, TaskLabel, TaskOrigin
from skillopt_sleep.domain.task import Split, TaskRecord
from skillopt_sleep.domain.words import excerpt

__all__ = ["Pools", "SplitPlan", "split_tasks"]


QUOTED = 200
QUOTES = 3
"""Characters, and corrections, by which a report names a task."""


class SplitPlan(Struct, frozen=True, kw_only=True):
    """How tasks are dealt. ``val_share`` of the groups decide; the caps bound what one night replays."""

    seed: int = 0
    val_share: float = 1 / 3
    max_train: int = 24
    max_val: int = 12


class Pools(Struct, frozen=True, kw_only=True):
    """The tasks of one night. ``left`` counts tasks that wait for another night, over the caps."""

    train: tuple[TaskRecord, ...] = ()
    val: tuple[TaskRecord, ...] = ()
    test: tuple[TaskRecord, ...] = ()
    left: int = 0

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        dealt = replace(report.counts, train=len(self.train), val=len(self.val), test=len(self.test), left=self.left)
        return replace(report, counts=dealt, tasks=tuple(map(_label, (*self.train, *self.val))))


def _label(task: TaskRecord) -> TaskLabel:
    words = tuple(excerpt(words, QUOTED) for words in task.feedback[:QUOTES])
    origins = {TaskOrigin(day=each.at[:10], source=each.source, session_id=each.session_id) for each in task.origins}
    return TaskLabel(id=task.id, intent=excerpt(task.intent, QUOTED), words=words, origins=tuple(sorted(origins)))


def split_tasks(tasks: Sequence[TaskRecord], plan: SplitPlan) -> Pools:
    """Deal whole groups to train and val; a pinned task pulls its whole group along.

    A group with tasks pinned to different splits goes to the most sealed of them (test, then val), because a twin of
    a val task must never teach. With a single free group there is no val: nothing can be accepted, only learnt about.
    """
    groups: dict[str, list[TaskRecord]] = defaultdict(list)
    for task in tasks:
        groups[task.group or task.id].append(task)
    dealt: dict[Split, list[TaskRecord]] = {split: [] for split in Split}
    free: list[str] = []
    for name in sorted(groups):
        pinned = {task.split for task in groups[name]}
        split = next((each for each in (Split.TEST, Split.VAL, Split.TRAIN) if each in pinned), None)
        if split is None:
            free.append(name)
        else:
            dealt[split].extend(groups[name])
    random.Random(plan.seed).shuffle(free)  # noqa: S311  a seeded deal, not a secret
    wanted = 0 if dealt[Split.VAL] or len(free) < 2 else max(1, round(len(free) * plan.val_share))  # noqa: PLR2004
    for name in free[:wanted]:
        dealt[Split.VAL].extend(groups[name])
    for name in free[wanted:]:
        dealt[Split.TRAIN].extend(groups[name])
    train, val = dealt[Split.TRAIN][: plan.max_train], dealt[Split.VAL][: plan.max_val]
    return Pools(
        train=tuple(train),
        val=tuple(val),
        test=tuple(dealt[Split.TEST]),
        left=len(dealt[Split.TRAIN]) - len(train) + len(dealt[Split.VAL]) - len(val),
    )
