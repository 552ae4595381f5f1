"""Recurrences: tasks that ask for one thing become one task, and near-duplicates one group.

Two measures of likeness are at work. Recurrence is strict, for it decides that words said about one task hold for
another; near-duplicates are told leniently, for that decides what must not stand on both sides of a split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from skillopt_sleep.mining.episodes import own_words
from skillopt_sleep.model.near_duplicates import group_near_duplicates, group_recurrences, terms
from skillopt_sleep.model.task import Origin, Outcome, TaskRecord
from skillopt_sleep.model.text import fold

FEEDBACK = 8
"""Words about wrong answers that a task keeps; the first ones."""

COMMANDS = 8
"""Commands that a task keeps."""

WORDINGS = 12
"""Other wordings that a task keeps, the first ones."""

WORDING = 400
"""Characters of a wording that are kept: what is asked comes early."""


def task_id(intent: str, origin: Origin) -> str:
    """The name of a task: a digest of what was asked and of where it was asked first."""
    return hashlib.sha256(f"{origin.source}\0{origin.session_id}\0{intent}".encode("utf-8", "replace")).hexdigest()[:12]


def merge(known: Sequence[TaskRecord], new: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    """The tasks that are new or no longer as they were known, each with its group.

    A new task that asks for what a known one does adds its origins and words to it; the known id stays. A group that
    a new task ties to another takes the name of the older one.
    """
    before = {task.id: task for task in known}
    tasks = dict(before)
    homes: dict[int, str] = {}
    same = group_recurrences([_key(task) for task in (*known, *new)])
    for number, task in zip(same, known, strict=False):
        homes.setdefault(number, task.id)
    for number, task in zip(same[len(known) :], new, strict=True):
        home = homes.setdefault(number, task.id)
        tasks[home] = _absorb(tasks[home], task) if home in tasks else task
    return tuple(task for task in grouped(tuple(tasks.values())) if before.get(task.id) != task)


def beside(known: Sequence[TaskRecord], given: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    """The ``given`` tasks with their groups; one that asks for what a known one does is of its group."""
    return grouped((*known, *given))[len(known) :]


def grouped(tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    """The tasks with their groups: those they have, joined where a text ties them, and new ones named after a task.

    All wordings of a task count: one that it has absorbed may be what ties it to others.
    """
    said = [(task, words) for task in tasks for words in (_key(task), *task.wordings)]
    numbers = group_near_duplicates([words for _, words in said])
    names: dict[str, str] = {}
    first: dict[int, str] = {}
    for number, (task, _) in zip(numbers, said, strict=True):
        name = _resolve(names, task.group or task.id)
        names[name] = _resolve(names, first.setdefault(number, name))
    return tuple(replace(task, group=_resolve(names, task.group or task.id)) for task in tasks)


def _absorb(task: TaskRecord, again: TaskRecord) -> TaskRecord:
    """One task of two that ask for the same: what teaches more sets what is asked and how it is judged."""
    if task.reviewed or _worth(task) >= _worth(again):
        best, other = task, again
    else:
        best, other = again, task
    feedback = tuple(dict.fromkeys((*best.feedback, *other.feedback)))[:FEEDBACK]
    origins = {(each.source, each.session_id, fold(each.words)): each for each in (*again.origins, *task.origins)}
    return replace(
        best,
        id=task.id,
        feedback=feedback,
        origins=tuple(sorted(origins.values(), key=lambda origin: (origin.at, origin.session_id))),
        outcome=_both(task.outcome, again.outcome),
        skill_hint=best.skill_hint or other.skill_hint,
        project=best.project or other.project,
        commands=tuple(dict.fromkeys((*best.commands, *other.commands)))[:COMMANDS],
        wordings=_wordings(task, again, intent=_key(best)),
        group=task.group,
        split=task.split,
        reviewed=task.reviewed,
    )


def _wordings(task: TaskRecord, again: TaskRecord, *, intent: str) -> tuple[str, ...]:
    """How else the two were worded than ``intent``: of wordings in the same terms, the first."""
    said = (*task.wordings, _key(task), *again.wordings, _key(again))
    distinct: dict[frozenset[str], str] = {}
    for words in said:
        distinct.setdefault(frozenset(terms(words)), words[:WORDING])
    distinct.pop(frozenset(terms(intent)), None)
    return tuple(distinct.values())[:WORDINGS]


def _worth(task: TaskRecord) -> tuple[bool, bool, bool]:
    """How much a task teaches: words about a wrong answer before an approved one before any at all."""
    return bool(task.feedback), task.outcome in {Outcome.SUCCESS, Outcome.MIXED}, bool(task.accepted)


def _both(one: Outcome, other: Outcome) -> Outcome:
    outcomes = {one, other} - {Outcome.UNKNOWN}
    return Outcome.MIXED if len(outcomes) > 1 else outcomes.pop() if outcomes else Outcome.UNKNOWN


def _resolve(names: dict[str, str], name: str) -> str:
    while names.get(name, name) != name:
        name = names[name]
    return name


def _key(task: TaskRecord) -> str:
    return own_words(task.intent) or task.intent
