"""Which tasks teach and which decide: whole groups of near-duplicates, dealt by seed, never straddling a split.

Recall: tasks of earlier nights that are like tonight's teach once more, and only teach.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.pending import PendingEdit
from skillopt_sleep.model.task import Split, TaskRecord, group_of
from skillopt_sleep.model.text import excerpt, sha256
from skillopt_sleep.night.report import NightReport, TaskLabel, TaskOrigin

TEST_SHARE = 0.1
"""The share of the groups of an archive that is sealed."""
TEST_FROM = 20
"""Groups from which on any are sealed: of fewer, each is needed to teach and to decide."""

QUOTED = 200
QUOTES = 3
"""Characters, and corrections, by which a report names a task."""

Group: TypeAlias = Sequence[TaskRecord]
"""The tasks of one group."""


class SplitPlan(Struct, frozen=True, kw_only=True):
    """How tasks are dealt. ``val_share`` of the groups decide; the caps bound what one night replays.

    ``recall_k`` more tasks may teach, of those that had their turn, where they are like tonight's.
    """

    seed: int = 0
    val_share: float = 1 / 3
    max_train: int = 24
    max_val: int = 12
    max_test: int = 12
    recall_k: int = 0


class Past(Struct, frozen=True, kw_only=True):
    """What became of the tasks of an archive, by id.

    ``fresh`` are those no concluded night has used. ``as_val`` has every task that ever served, with the number of
    nights in which it was val: 0 = it only taught. To be set aside for test is not to serve.
    """

    fresh: frozenset[str] = frozenset()
    as_val: Mapping[str, int] = {}


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


def split_tasks(
    tasks: Sequence[TaskRecord],
    plan: SplitPlan,
    past: Past | None = None,
    *,
    among: Sequence[TaskRecord] = (),
    waiting: Sequence[PendingEdit] = (),
) -> Pools:
    """Deal whole groups to train, val and test; a pinned task pulls its whole group along.

    Those decide that decided least often, so val rotates from night to night; those teach first that are fresh, or
    were corrected; ties fall by seed. Of an archive, which comes with its ``past``, a share is sealed; ``among`` is the
    whole of it where ``tasks`` are only a part, for what is sealed is sealed whatever a night is about. Of the
    undecided edits ``waiting``, in the order they go on, the first finds groups in val that it was not written from.

    A group with tasks pinned to different splits goes to the most sealed of them (test, then val), because a twin of
    a val task must never teach. With a single free group there is no val, unless an undecided edit can go on with it:
    nothing new can be accepted, only learnt about.
    """
    groups: dict[str, list[TaskRecord]] = defaultdict(list)
    for task in tasks:
        groups[group_of(task)].append(task)
    sealed = _sealed(among or tasks, past) if past is not None else frozenset()
    dealt: dict[Split, list[Group]] = {split: [] for split in Split}
    free: list[Group] = []
    for name in sorted(groups):
        split = _pinned(groups[name])
        if split is None and name in sealed:
            split = Split.TEST
        (free if split is None else dealt[split]).append(groups[name])
    random.Random(plan.seed).shuffle(free)  # noqa: S311  a seeded deal, not a secret
    past = past or Past()
    seen = [edit.seen((*among, *tasks)) for edit in waiting]
    dealt[Split.VAL], rest = _deciding(free, dealt[Split.VAL], seen, plan, past)
    teaching = sorted(rest, key=lambda group: min((t.id not in past.fresh, not t.feedback) for t in group))
    dealt[Split.TRAIN] += teaching
    dealt[Split.TEST].sort(key=lambda group: all(task.id not in past.fresh for task in group))
    room = plan.max_train + (0 if free else plan.recall_k)  # where each task has its part, so have the recalled ones
    train, val = _filled(dealt[Split.TRAIN], room), _filled(dealt[Split.VAL], plan.max_val)
    train = (*train, *_recalled(train, teaching, past, plan))
    return Pools(
        train=train,
        val=val,
        test=_filled(dealt[Split.TEST], plan.max_test),
        left=sum(map(len, (*dealt[Split.TRAIN], *dealt[Split.VAL]))) - len(train) - len(val),
    )


def _deciding(
    free: Iterable[Group], pinned: Sequence[Group], seen: Sequence[frozenset[str]], plan: SplitPlan, past: Past
) -> tuple[list[Group], list[Group]]:
    """The groups that decide, ``pinned`` ones among them, and what is left of the ``free`` ones to teach.

    ``seen`` names the groups that each undecided edit was written from. On a small archive those that have decided
    least are just the ones that taught, and wrote it: by rotation alone it would not go on. So half of the free places
    in val, and one at least, are for groups new to the first edit that anything is new to. The ones that had their turn
    are taken before fresh ones, which are to teach, and of these such as are new to the edits behind it as well. The
    other half rotates on. New and old stand in turns, lest a cap cuts off all of one kind.
    """
    turn = sorted(free, key=lambda group: max(past.as_val.get(task.id, 0) for task in group))
    wanted = 0 if pinned or len(turn) < 2 else max(1, round(len(turn) * plan.val_share))  # noqa: PLR2004
    wanted = min(wanted, plan.max_val)
    seen = [names for names in seen if any(group_of(group[0]) not in names for group in (*pinned, *turn))]
    if not seen:
        return [*pinned, *turn[:wanted]], turn[wanted:]

    def known(group: Group) -> list[bool]:
        return [group_of(group[0]) in names for names in seen]

    new = [group for group in (*pinned, *turn[:wanted]) if not known(group)[0]]
    apt = [group for group in turn[wanted:] if not known(group)[0]]
    apt.sort(key=lambda group: (any(task.id in past.fresh for task in group), known(group)))
    added = apt[: max(0, max(1, wanted // 2) - len(new))]
    gone = [group for group in reversed(turn[:wanted]) if known(group)[0]][: len(added)]
    old = [group for group in (*pinned, *turn[:wanted]) if known(group)[0] and group not in gone]
    deciding = [each for both in itertools.zip_longest([*new, *added], old) for each in both if each is not None]
    return deciding, [group for group in turn if group not in deciding]


def _pinned(group: Iterable[TaskRecord]) -> Split | None:
    """The most sealed of the splits that tasks of a group are pinned to, if any."""
    pins = {task.split for task in group}
    return next((each for each in (Split.TEST, Split.VAL, Split.TRAIN) if each in pins), None)


def _recalled(
    train: Sequence[TaskRecord], teaching: Iterable[Group], past: Past, plan: SplitPlan
) -> tuple[TaskRecord, ...]:
    """Tasks that may teach, had their turn and have no place tonight, as far as they are like the fresh ones."""
    if not plan.recall_k:
        return ()

    taught = {task.id for task in train}
    over = [task for group in teaching for task in group if task.id in past.as_val and task.id not in past.fresh]
    fresh = [task for task in train if task.id in past.fresh]
    return recall(fresh, [task for task in over if task.id not in taught], plan.recall_k)


def _sealed(archive: Sequence[TaskRecord], past: Past) -> frozenset[str]:
    """The groups of the sealed share, for good: what taught or decided once can never test."""
    names = {group_of(task) for task in archive}
    if len(names) < TEST_FROM:
        return frozenset()
    served = {group_of(task) for task in archive if task.id in past.as_val}
    return frozenset(name for name in names - served if int(sha256(name.encode())[:8], 16) < TEST_SHARE * 16**8)


def _filled(groups: Iterable[Group], most: int) -> tuple[TaskRecord, ...]:
    """Whole groups in order, as far as they fit; only a first one too large for any night is cut."""
    pool: list[TaskRecord] = []
    for group in groups:
        if len(pool) + len(group) <= most:
            pool += group
        elif not pool:
            pool += group[:most]
    return tuple(pool)


def recall(fresh: Sequence[TaskRecord], past: Sequence[TaskRecord], most: int) -> tuple[TaskRecord, ...]:
    """At most ``most`` of the ``past`` tasks, those most like one of the ``fresh`` ones; of equals the earlier given.

    One that shares nothing with any of them would teach nothing about them, and is not taken.
    """
    from skillopt_sleep.model.near_duplicates import similar  # noqa: PLC0415  rapidfuzz, which `status` does not need

    likeness = {task.id: max((similar(task.intent, each.intent) for each in fresh), default=0.0) for task in past}
    alike = [task for task in past if likeness[task.id] > 0]
    return tuple(sorted(alike, key=lambda task: -likeness[task.id])[:most])
