"""Reflect: what a night's train rollouts have in common becomes a few bounded edits of one document."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.domain.candidate import Candidate
from skillopt_sleep.domain.document import DocumentKind, region
from skillopt_sleep.domain.edit import EditRecord
from skillopt_sleep.domain.patch import by_support, united
from skillopt_sleep.domain.refusal import Refusal
from skillopt_sleep.domain.rollout import ReplayResult
from skillopt_sleep.domain.task import TaskRecord
from skillopt_sleep.optimize.analyse import Analysis, Lesson, analyse, over_budget
from skillopt_sleep.optimize.material import night_material
from skillopt_sleep.optimize.optimizer import Optimizer
from skillopt_sleep.optimize.replay import Models

__all__ = ["Lesson", "Reflection", "reflect"]


class Reflection(Struct, frozen=True, kw_only=True):
    """Edits within the budget, the replies they came from, and what of them could not be used.

    ``nothing`` says why there are no edits; it is "" when there are. ``lost``: transport lost every reply.
    """

    edits: tuple[EditRecord, ...] = ()
    raw: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    nothing: str = ""
    lost: bool = False


def reflect(
    kind: DocumentKind,
    candidate: Candidate,
    rollouts: Sequence[ReplayResult],
    tasks: Sequence[TaskRecord],
    models: Models,
    *,
    lesson: Lesson,
) -> Reflection:
    """A night's reflection: ask for edits of the candidate's document of that kind.

    Tasks whose samples differ are shown by contrast, those that failed every time on their own; each is one prompt,
    and both are asked at once. Raises ``FatalBackend`` and ``BudgetSpent``; a reply that transport lost or nobody can
    read is a reflection without edits that says so.
    """
    document = candidate[kind]
    if document is None:
        return Reflection(nothing=f"there is no {kind} document")
    minibatches = night_material(tasks, rollouts, lesson.metric, lesson.mixed_weight)
    if not minibatches:
        measured = any(result.score is not None for result in rollouts)
        return Reflection(
            nothing="every measured training task passed" if measured else "no training task could be measured"
        )
    optimizer = Optimizer(ask=models.optimizer, parallel=models.parallel)
    known = frozenset(task.id for task in tasks)
    analyses = analyse(minibatches, kind, region(document), known, optimizer, lesson=lesson, phase=f"reflect {kind}")
    return _joined(analyses, lesson.edit_budget)


def _joined(analyses: Sequence[Analysis], edit_budget: int) -> Reflection:
    edits = [each.edit for each in by_support(united([each.patch for each in analyses]).proposals)]
    over = over_budget(edits, edit_budget)
    return Reflection(
        edits=tuple(edits[:edit_budget]),
        raw=tuple(text for each in analyses for text in each.raw),
        refused=(*(refusal for each in analyses for refusal in each.refused), *over),
        nothing="" if edits else "; ".join(dict.fromkeys(each.nothing for each in analyses)),
        lost=all(each.lost for each in analyses),
    )
