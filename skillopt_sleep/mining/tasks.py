"""What miners yield, and how mined tasks are merged and grouped.

Two measures of similarity are used. Tasks become one by a strict measure, because feedback on one then counts for the
other. Tasks form a group of near-duplicates by a lenient one, because a group must never straddle a split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model.lexicon import strip_pasted
from skillopt_sleep.model.near_duplicates import group_near_duplicates, group_recurrences, terms
from skillopt_sleep.model.replies import Refusal
from skillopt_sleep.model.session import Session, Turn
from skillopt_sleep.model.task import Origin, Outcome, TaskRecord
from skillopt_sleep.model.text import excerpt, fold, sha256

MAX_QUOTE = 400
"""Characters kept of a person's words where they are quoted."""

MAX_ANSWER = 4_000
"""Characters kept of an answer."""

MAX_FEEDBACK = 8
"""Maximum corrections that a task keeps: the first ones."""

MAX_COMMANDS = 8
"""Commands that a task keeps."""

MAX_WORDINGS = 12
"""Maximum other wordings that a task keeps: the first ones."""

MAX_WORDING = 400
"""Characters kept of a wording: the request comes early."""


class Mined(Struct, frozen=True, kw_only=True):
    """The tasks found in some sessions, and what was not made into one."""

    tasks: tuple[TaskRecord, ...] = ()
    refused: tuple[Refusal, ...] = ()
    unmined: tuple[str, ...] = ()
    """Ids of sessions whose reply was lost or unreadable: they go back into the inbox."""
    lost: str = ""
    """Why sessions are ``unmined``."""
    found: int = 0
    """Tasks found in these sessions, new or seen again."""


def build_task_id(intent: str, origin: Origin) -> str:
    """Return the id of a task: a digest of the request and of where it was first made."""
    return sha256(f"{origin.source}\0{origin.session_id}\0{intent}".encode("utf-8", "replace"))[:12]


def build_origin(session: Session, request: Turn, words: str) -> Origin:
    """Return where a request was made, with the person's own words."""
    return Origin(
        source=session.source,
        session_id=session.session_id,
        path=session.path,
        words=excerpt(words, MAX_QUOTE),
        at=request.at or session.started_at,
        cwd=session.cwd,
    )


def shorten_answer(answer: str) -> str:
    """Return the part of an answer that is kept, with its line breaks."""
    return answer if len(answer) <= MAX_ANSWER else answer[: MAX_ANSWER - 1].rstrip() + "…"


def belongs_to_skill(skill: str, invoked: Iterable[str], intent: str, *, description: str = "") -> bool:
    """Tell whether ``skill`` was invoked (with or without its plugin's name), or its subject occurs in the request.

    The subject is the content words of the skill's name and ``description``.
    """
    if any(skill in {name, name.rpartition(":")[2]} for name in invoked):
        return True
    words = f"{skill} {description}".replace("-", " ").replace("_", " ")
    subject = {term for term, weight in terms(words).items() if weight == 1.0}
    return not subject.isdisjoint(terms(intent))


def merge_tasks(known: Sequence[TaskRecord], new: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    """Return the tasks that are new or changed, each with its group.

    A new task that makes the same request as a known one adds its origins and feedback to it; the known id stays. When
    a new task joins two groups, the older name stays.
    """
    before = {task.id: task for task in known}
    tasks = dict(before)
    ids: dict[int, str] = {}
    numbers = group_recurrences([_request_of(task) for task in (*known, *new)])
    for number, task in zip(numbers, known, strict=False):
        ids.setdefault(number, task.id)
    for number, task in zip(numbers[len(known) :], new, strict=True):
        same = ids.setdefault(number, task.id)
        tasks[same] = _combine(tasks[same], task) if same in tasks else task
    return tuple(task for task in group_tasks(tuple(tasks.values())) if before.get(task.id) != task)


def group_given_tasks(known: Sequence[TaskRecord], given: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    """Return the ``given`` tasks with their groups; a near-duplicate of a known task gets that task's group."""
    return group_tasks((*known, *given))[len(known) :]


def group_tasks(tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    """Return the tasks with their groups: existing groups, joined where a text connects them, and new ones.

    All wordings of a task count: one that was merged into it may connect it to others.
    """
    worded = [(task, words) for task in tasks for words in (_request_of(task), *task.wordings)]
    numbers = group_near_duplicates([words for _, words in worded])
    names: dict[str, str] = {}
    first: dict[int, str] = {}
    for number, (task, _) in zip(numbers, worded, strict=True):
        name = _resolve(names, task.group or task.id)
        names[name] = _resolve(names, first.setdefault(number, name))
    return tuple(replace(task, group=_resolve(names, task.group or task.id)) for task in tasks)


def _combine(task: TaskRecord, again: TaskRecord) -> TaskRecord:
    """Return one task for two with the same request; the more instructive one sets the intent and the reference."""
    if task.reviewed or _rank_value(task) >= _rank_value(again):
        best, other = task, again
    else:
        best, other = again, task
    origins = {
        (origin.source, origin.session_id, fold(origin.words)): origin for origin in (*again.origins, *task.origins)
    }
    outcomes = {task.outcome, again.outcome} - {Outcome.UNKNOWN}
    return replace(
        best,
        id=task.id,
        feedback=tuple(dict.fromkeys((*best.feedback, *other.feedback)))[:MAX_FEEDBACK],
        origins=tuple(sorted(origins.values(), key=lambda origin: (origin.at, origin.session_id))),
        outcome=Outcome.MIXED if len(outcomes) > 1 else next(iter(outcomes), Outcome.UNKNOWN),
        skill_hint=best.skill_hint or other.skill_hint,
        project=best.project or other.project,
        commands=tuple(dict.fromkeys((*best.commands, *other.commands)))[:MAX_COMMANDS],
        wordings=_collect_wordings(task, again, intent=_request_of(best)),
        group=task.group,
        split=task.split,
        reviewed=task.reviewed,
    )


def _collect_wordings(task: TaskRecord, again: TaskRecord, *, intent: str) -> tuple[str, ...]:
    """Return the wordings of both tasks that differ from ``intent`` and from each other in their content words."""
    distinct: dict[frozenset[str], str] = {}
    for words in (*task.wordings, _request_of(task), *again.wordings, _request_of(again)):
        distinct.setdefault(frozenset(terms(words)), words[:MAX_WORDING])
    distinct.pop(frozenset(terms(intent)), None)
    return tuple(distinct.values())[:MAX_WORDINGS]


def _rank_value(task: TaskRecord) -> tuple[bool, bool, bool]:
    """Return how much a task teaches: most with feedback on a wrong answer, then an approved one, then any."""
    return bool(task.feedback), task.outcome in {Outcome.SUCCESS, Outcome.MIXED}, bool(task.accepted)


def _resolve(names: dict[str, str], name: str) -> str:
    while names.get(name, name) != name:
        name = names[name]
    return name


def _request_of(task: TaskRecord) -> str:
    return strip_pasted(task.intent) or task.intent
