"""What ``run --dry-run`` prints: the tasks a night would use now, and the model calls it would make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.night.forecast import Rehearsal
from skillopt_sleep.reports import trust
from skillopt_sleep.reports.words import PHASES, number, plain

INTENT = 90
"""Characters of a task."""

MOST = 8
"""Tasks shown of each kind."""


def render(rehearsal: Rehearsal) -> str:
    """The lines, not ended by a newline."""
    pools = rehearsal.pools
    sections = [
        list(_read(rehearsal)),
        list(_tasks("To learn from", pools.train)),
        [*_tasks("To test on", pools.val), *([said] if (said := trust.missing(rehearsal.shortfall)) else [])],
        list(_calls(rehearsal)),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _read(rehearsal: Rehearsal) -> Iterator[str]:
    pools = rehearsal.pools
    yield "This is what a night would do now. No model was called, and nothing was written."
    yield ""
    found = len(pools.train) + len(pools.val) + len(pools.test) + pools.left
    yield f"It would take up {number(rehearsal.sessions, 'session')}, with {number(found, 'task')} from them or before."
    left = (
        (rehearsal.waiting, "session", "kept for a later night"),
        (rehearsal.out_of_scope, "session", "of other projects"),
        (rehearsal.refused, "task", "refused"),
        (pools.left, "task", "kept for a later night"),
    )
    if said := "; ".join(f"{number(count, noun)} {what}" for count, noun, what in left if count):
        yield f"Left out: {said}."


def _tasks(heading: str, tasks: Sequence[TaskRecord]) -> Iterator[str]:
    yield f"{heading}: {len(tasks) or 'none'}"
    yield from (f"  {plain(task.intent, INTENT)}" for task in tasks[:MOST])
    if len(tasks) > MOST:
        yield f"  and {len(tasks) - MOST} more"


def _calls(rehearsal: Rehearsal) -> Iterator[str]:
    usual, cap = number(rehearsal.usual_calls), number(rehearsal.cap)
    yield f"Model calls: about {usual}, and never more than {cap}"
    for each in rehearsal.expected:
        calls = f"{number(each.usual)}, at most {number(each.most)}" if each.most > each.usual else number(each.usual)
        yield f"  {each.phase:<7}  {calls:<15}  {PHASES.get(each.phase, '')}".rstrip()
