"""Reflect: what a night's train rollouts have in common becomes a few bounded edits of one document.

Show minibatches of trajectories to analysts, all at once; each proposes a few bounded edits, with its reasons.

What is shown of a trajectory is the caller's: a night has its own (``material.py``), training has its own.

What a night's reflection is shown: tasks that failed every time, and tasks whose attempts differ, side by side.

Requests, answers and the person's own words of train tasks; never a rubric, a check or a judge's rationale, nor
anything of a val or test task: an edit that quotes the examiner proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.model import Json
from skillopt_sleep.model.document import Candidate, DocumentKind, region
from skillopt_sleep.model.edit import AppliedEdit, EditRecord, parse_edits
from skillopt_sleep.model.replies import Refusal, extract_json
from skillopt_sleep.model.rollout import GateMetric, ReplayResult, combine, rollout_stats
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.optimizer.aggregate import EditPatch, Learnt, Proposal, by_support, united
from skillopt_sleep.optimizer.client import Optimizer, quote
from skillopt_sleep.optimizer.replay import Models

SCHEMA: dict[str, Json] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["edits"],
    "properties": {
        "edits": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["op", "document", "text", "anchor", "reason", "tasks"],
                "properties": {
                    "op": {"type": "string", "enum": ["append", "insert_after", "replace", "delete"]},
                    "document": {"type": "string", "enum": ["skill", "memory"]},
                    "text": {"type": "string"},
                    "anchor": {"type": "string"},
                    "reason": {"type": "string"},
                    "tasks": {"type": "array", "items": {"type": "string"}},
                },
            },
        }
    },
}


class Lesson(Struct, frozen=True, kw_only=True):
    """What a reflection is to keep in mind besides the rollouts. ``notes``: the optimizer's own, of earlier epochs."""

    edit_budget: int = 4
    preferences: str = ""
    rejected: tuple[AppliedEdit, ...] = ()
    metric: GateMetric = GateMetric.MIXED
    mixed_weight: float = 0.5
    notes: str = ""


class Minibatch(Struct, frozen=True, kw_only=True):
    """Trajectories for one analyst, each ready to be read, and the template that shows them."""

    template: str
    cases: tuple[str, ...]
    learnt: Learnt = Learnt.FAILURE


class Analysis(Struct, frozen=True, kw_only=True):
    """What came of one minibatch. ``nothing`` says why there are no edits; ``lost``: transport lost the reply."""

    patch: EditPatch
    raw: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    nothing: str = ""
    lost: bool = False


def analyse(
    minibatches: Sequence[Minibatch],
    kind: DocumentKind,
    document: str,
    known_tasks: frozenset[str],
    optimizer: Optimizer,
    *,
    lesson: Lesson,
    phase: str,
) -> tuple[Analysis, ...]:
    """Show each minibatch to an analyst, in parallel; what came of each, in their order.

    A reply that transport lost or nobody can read is an analysis without edits that says so. Raises ``FatalBackend``
    and ``BudgetSpent``.
    """

    def ask(minibatch: Minibatch) -> Analysis:
        fields = {
            "kind": str(kind),
            "edit_budget": str(lesson.edit_budget),
            "document": document.strip() or "(empty)",
            "rejected": "\n".join(f"- {told(each)} ({each.why})" for each in lesson.rejected) or "(none)",
            "cases": "\n\n".join(minibatch.cases),
        }
        if minibatch.template.startswith("analyst_"):
            fields["notes"] = lesson.notes.strip() or "(none yet)"
        else:
            fields["preferences"] = lesson.preferences.strip() or "(none stated)"
        answer = optimizer.answer(optimizer.prompt(minibatch.template, SCHEMA, **fields), phase=phase)
        empty = EditPatch(learnt=minibatch.learnt, cases=len(minibatch.cases))
        if answer.error:
            what = "was lost" if answer.lost else "cannot be read"
            return Analysis(patch=empty, nothing=f"the reflection {what}: {answer.error}", lost=answer.lost)
        try:
            edits, refused = parse_edits(_patch(extract_json(answer.text)), known_tasks=known_tasks, document=kind)
        except ValueError as error:
            return Analysis(patch=empty, raw=(answer.text,), nothing=f"the reflection cannot be read: {error}")
        patch = EditPatch(
            proposals=tuple(Proposal(edit=edit, learnt=minibatch.learnt) for edit in edits[: lesson.edit_budget]),
            reasoning="\n".join(dict.fromkeys(edit.reason for edit in edits if edit.reason)),
            learnt=minibatch.learnt,
            cases=len(minibatch.cases),
        )
        nothing = "" if edits else "the optimizer proposed no edit"
        over = over_budget(edits, lesson.edit_budget)
        return Analysis(patch=patch, raw=(answer.text,), refused=(*refused, *over), nothing=nothing)

    return tuple(optimizer.parallel(ask, minibatches))


def over_budget(edits: Sequence[EditRecord], edit_budget: int) -> tuple[Refusal, ...]:
    """A refusal of each edit beyond the budget; the first ones are within it."""
    why = f"over the edit budget of {edit_budget}"
    return tuple(Refusal(subject=edit.id, words=edit.text, why=why) for edit in edits[edit_budget:])


def _patch(reply: Json) -> Json:
    """What stands in a reply's ``patch``, as prompts written for the reference ask for it; else the reply itself."""
    inner = reply.get("patch") if isinstance(reply, dict) and "edits" not in reply else None
    return inner if isinstance(inner, dict) else reply


def told(applied: AppliedEdit) -> str:
    """An edit in a line: the rule it adds, or the one it takes away."""
    return applied.edit.text or f"{applied.edit.op} {applied.edit.anchor}"


MOST_CONTRASTS = 6
"""Tasks of the widest spread that are shown side by side, as in the reference implementation."""
MOST_FAILURES = 24


def night_material(
    tasks: Sequence[TaskRecord], rollouts: Sequence[ReplayResult], metric: GateMetric, mixed_weight: float
) -> tuple[Minibatch, ...]:
    """At most one minibatch of contrasts and one of failures; none when nothing went wrong."""
    contrasts: list[tuple[float, str]] = []
    failures: list[tuple[bool, float, str]] = []
    for task in tasks:
        measured = [result for result in rollouts if result.task_id == task.id and result.score is not None]
        stats = rollout_stats(measured, metric, mixed_weight)
        if stats is None:
            continue
        if stats.spread > 0:

            def value(result: ReplayResult) -> float:
                return combine(result.score, metric, mixed_weight) if result.score else 0.0

            best, worst = max(measured, key=value), min(measured, key=value)
            answers = f"{quote('better-answer', best.work)}\n{quote('worse-answer', worst.work)}"
            contrasts.append((-stats.spread, _case(task, answers)))
        elif stats.pass_rate < 1:
            failures.append((not task.feedback, stats.best, _case(task, quote("answer", measured[0].work))))
    shown = {
        "contrast": tuple(case for _, case in sorted(contrasts)[:MOST_CONTRASTS]),
        "reflect": tuple(case for *_, case in sorted(failures)[:MOST_FAILURES]),
    }
    return tuple(Minibatch(template=template, cases=cases) for template, cases in shown.items() if cases)


def _case(task: TaskRecord, answers: str) -> str:
    said = "".join(f"\n{quote('the-developer-said', words)}" for words in task.feedback)
    accepted = f"\n{quote('accepted-in-the-end', task.accepted)}" if task.accepted else ""
    return f'<request id="{task.id}">\n{quote("asked", task.intent)}\n{answers}{said}{accepted}\n</request>'


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
