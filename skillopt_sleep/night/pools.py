"""Splits tasks into training, validation and test: whole groups of near-duplicates, dealt by seed."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.pending import PendingEdit
from skillopt_sleep.model.moment import MomentReference
from skillopt_sleep.model.task import Split, TaskRecord, group_of, is_sibling
from skillopt_sleep.model.text import excerpt, sha256
from skillopt_sleep.night.report import NightReport, TaskLabel, TaskOrigin

TEST_SHARE = 0.1
"""The share of the groups of an archive that is sealed for the test."""
MIN_GROUPS_FOR_TEST = 20
"""In smaller archives nothing is sealed: every group is needed for training and validation."""

MAX_QUOTE = 200
MAX_DONE = 400
"""Characters of what the agent did at a moment, in a report."""
MAX_QUOTES = 3
"""Characters, and corrections, by which a report names a task."""

Group: TypeAlias = Sequence[TaskRecord]
"""The tasks of one group."""


class SplitPlan(Struct, frozen=True, kw_only=True):
    """How tasks are dealt; the ``max_`` settings bound what one night replays."""

    seed: int = 0
    val_share: float = 1 / 3
    """The share of groups used for validation."""
    max_train: int = 24
    max_val: int = 12
    max_test: int = 12
    recall_k: int = 0
    """Tasks of earlier nights that are trained on again because they resemble tonight's."""


class Past(Struct, frozen=True, kw_only=True):
    """How the tasks of an archive were used so far, by id."""

    fresh: frozenset[str] = frozenset()
    """Those that no finished night has used."""
    as_val: Mapping[str, int] = {}
    """For every task that was used, the nights in which it was a validation task; 0: it was only trained on."""


class Pools(Struct, frozen=True, kw_only=True):
    """The tasks of one night by split."""

    train: tuple[TaskRecord, ...] = ()
    val: tuple[TaskRecord, ...] = ()
    test: tuple[TaskRecord, ...] = ()
    left: int = 0
    """Tasks beyond the bounds, which wait for another night."""

    def add_to(self, report: NightReport) -> NightReport:
        """Add the counts and the tasks to the night's report."""
        counts = replace(report.counts, train=len(self.train), val=len(self.val), test=len(self.test), left=self.left)
        return replace(report, counts=counts, tasks=tuple(map(_build_label, (*self.train, *self.val))))


def _build_label(task: TaskRecord) -> TaskLabel:
    words = tuple(excerpt(words, MAX_QUOTE) for words in task.feedback[:MAX_QUOTES])
    origins = {
        TaskOrigin(day=origin.at[:10], source=origin.source, session_id=origin.session_id) for origin in task.origins
    }
    label = TaskLabel(id=task.id, intent=excerpt(task.intent, MAX_QUOTE), words=words, origins=tuple(sorted(origins)))
    if not isinstance(task.reference, MomentReference):
        return label
    done = excerpt(task.reference.rejected, MAX_DONE)
    return replace(label, moment=task.reference.moment, sibling=task.reference.sibling, then=done)


def split_tasks(
    tasks: Sequence[TaskRecord],
    plan: SplitPlan,
    past: Past | None = None,
    *,
    among: Sequence[TaskRecord] = (),
    waiting: Sequence[PendingEdit] = (),
) -> Pools:
    """Deal whole groups to train, val and test; a pinned task pulls its whole group along.

    Validation rotates: the groups used for it least often come first. Fresh and corrected tasks are trained on first;
    ties are broken by seed. A share of an archive, which comes with its ``past``, is sealed; ``among`` is the whole
    archive where ``tasks`` are a part of it. ``waiting`` are undecided edits in the order they are tried: the first
    one that can gets validation groups that it was not written from.

    Places where a lesson applies and nobody complained are for validation alone.

    A group pinned to several splits goes to the most sealed one (test, then val), because a near-duplicate of a
    validation task must never be trained on. A single free group is used for training, unless an undecided edit can
    be tried with it.
    """
    groups: dict[str, list[TaskRecord]] = defaultdict(list)
    for task in tasks:
        groups[group_of(task)].append(task)
    sealed = _find_sealed(among or tasks, past) if past is not None else frozenset()
    dealt: dict[Split, list[Group]] = {split: [] for split in Split}
    free: list[Group] = []
    for name in sorted(groups):
        split = _find_pin(groups[name])
        if split is None and name in sealed:
            split = Split.TEST
        (free if split is None else dealt[split]).append(groups[name])
    random.Random(plan.seed).shuffle(free)  # noqa: S311  a seeded deal, not a secret
    places = [group for group in free if all(map(is_sibling, group))]
    free = [group for group in free if group not in places]
    past = past or Past()
    seen = [edit.seen((*among, *tasks)) for edit in waiting]
    dealt[Split.VAL], rest = _deal_validation(free, dealt[Split.VAL], seen, plan, past)
    dealt[Split.VAL] = _add_places(dealt[Split.VAL], places, [*dealt[Split.TRAIN], *rest], past)
    training = sorted(rest, key=lambda group: min((t.id not in past.fresh, not t.feedback) for t in group))
    dealt[Split.TRAIN] += training
    dealt[Split.TEST].sort(key=lambda group: all(task.id not in past.fresh for task in group))
    room = plan.max_train + (0 if free else plan.recall_k)  # if all are pinned, so are recalled ones
    train, val = _take_groups(dealt[Split.TRAIN], room), _take_groups(dealt[Split.VAL], plan.max_val)
    train = (*train, *_recall_past(train, training, past, plan))
    return Pools(
        train=train,
        val=val,
        test=_take_groups(dealt[Split.TEST], plan.max_test),
        left=sum(map(len, (*dealt[Split.TRAIN], *dealt[Split.VAL]))) - len(train) - len(val),
    )


def _deal_validation(
    free: Iterable[Group], pinned: Sequence[Group], seen: Sequence[frozenset[str]], plan: SplitPlan, past: Past
) -> tuple[list[Group], list[Group]]:
    """Return the validation groups, ``pinned`` ones included, and the ``free`` groups that are left for training.

    ``seen`` names the groups that each undecided edit was written from. In a small archive rotation alone would deal
    just those, and the edit could never be tried. So half of the free validation places, at least one, go to groups
    that are new to the first edit for which there are any: used ones before fresh ones, which are for training, and
    those that are new to later edits as well first. The other half rotates. New and seen groups alternate, so that a
    bound does not cut off all of one kind.
    """
    turn = sorted(free, key=lambda group: max(past.as_val.get(task.id, 0) for task in group))
    wanted = 0 if pinned or len(turn) < 2 else max(1, round(len(turn) * plan.val_share))  # noqa: PLR2004
    wanted = min(wanted, plan.max_val)
    seen = [names for names in seen if any(group_of(group[0]) not in names for group in (*pinned, *turn))]
    if not seen:
        return [*pinned, *turn[:wanted]], turn[wanted:]

    def is_seen(group: Group) -> list[bool]:
        return [group_of(group[0]) in names for names in seen]

    new = [group for group in (*pinned, *turn[:wanted]) if not is_seen(group)[0]]
    fitting = [group for group in turn[wanted:] if not is_seen(group)[0]]
    fitting.sort(key=lambda group: (any(task.id in past.fresh for task in group), is_seen(group)))
    added = fitting[: max(0, max(1, wanted // 2) - len(new))]
    removed = [group for group in reversed(turn[:wanted]) if is_seen(group)[0]][: len(added)]
    old = [group for group in (*pinned, *turn[:wanted]) if is_seen(group)[0] and group not in removed]
    pairs = itertools.zip_longest([*new, *added], old)
    chosen = [group for pair in pairs for group in pair if group is not None]
    return chosen, [group for group in turn if group not in chosen]


def _add_places(
    validation: Sequence[Group], places: Sequence[Group], training: Iterable[Group], past: Past
) -> list[Group]:
    """Return the validation groups, alternating with other places where a lesson applies.

    Nobody complained there, so such a place is never trained on. Those of lessons that are trained on tonight come
    first, then those used least often.
    """
    taught = {_lesson_of(task) for group in training for task in group} - {""}

    def rank(group: Group) -> tuple[bool, int]:
        used = max(past.as_val.get(task.id, 0) for task in group)
        return all(_lesson_of(task) not in taught for task in group), used

    pairs = itertools.zip_longest(validation, sorted(places, key=rank))
    return [group for pair in pairs for group in pair if group is not None]


def _lesson_of(task: TaskRecord) -> str:
    return task.reference.moment if isinstance(task.reference, MomentReference) else ""


def _find_pin(group: Iterable[TaskRecord]) -> Split | None:
    """Return the most sealed split that a task of the group is pinned to; None when none is."""
    pins = {task.split for task in group}
    return next((split for split in (Split.TEST, Split.VAL, Split.TRAIN) if split in pins), None)


def _recall_past(
    train: Sequence[TaskRecord], training: Iterable[Group], past: Past, plan: SplitPlan
) -> tuple[TaskRecord, ...]:
    """Used training tasks without a place tonight that resemble the fresh ones."""
    if not plan.recall_k:
        return ()
    dealt = {task.id for task in train}
    used = [task for group in training for task in group if task.id in past.as_val and task.id not in past.fresh]
    fresh = [task for task in train if task.id in past.fresh]
    return recall_similar(fresh, [task for task in used if task.id not in dealt], plan.recall_k)


def _find_sealed(archive: Sequence[TaskRecord], past: Past) -> frozenset[str]:
    """Return the groups of the sealed share, which never changes; a group that was ever used cannot be in it."""
    names = {group_of(task) for task in archive}
    if len(names) < MIN_GROUPS_FOR_TEST:
        return frozenset()
    used = {group_of(task) for task in archive if task.id in past.as_val}
    return frozenset(name for name in names - used if int(sha256(name.encode())[:8], 16) < TEST_SHARE * 16**8)


def _take_groups(groups: Iterable[Group], most: int) -> tuple[TaskRecord, ...]:
    """Whole groups in order, as far as they fit; only a first group larger than the bound is cut."""
    pool: list[TaskRecord] = []
    for group in groups:
        if len(pool) + len(group) <= most:
            pool += group
        elif not pool:
            pool += group[:most]
    return tuple(pool)


def recall_similar(fresh: Sequence[TaskRecord], past: Sequence[TaskRecord], most: int) -> tuple[TaskRecord, ...]:
    """At most ``most`` of the ``past`` tasks: those most similar to a ``fresh`` one; unrelated tasks are left out."""
    from skillopt_sleep.model.near_duplicates import similar  # noqa: PLC0415  rapidfuzz, which `status` does not need

    scores = {task.id: max((similar(task.intent, new.intent) for new in fresh), default=0.0) for task in past}
    resembling = [task for task in past if scores[task.id] > 0]
    return tuple(sorted(resembling, key=lambda task: -scores[task.id])[:most])
