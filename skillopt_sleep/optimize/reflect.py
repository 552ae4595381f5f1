"""Reflect: what train rollouts have in common becomes a few bounded edits of one document.

The optimizer sees requests, answers and the person's own words of the train tasks. It never sees a rubric, a check or
a judge's rationale, nor anything of a val or test task: an edit that quotes the examiner proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from msgspec import Struct

from skillopt_sleep.domain import Json
from skillopt_sleep.domain.call import Prompt
from skillopt_sleep.domain.candidate import Candidate
from skillopt_sleep.domain.document import DocumentKind, region
from skillopt_sleep.domain.edit import AppliedEdit, EditRecord, parse_edits
from skillopt_sleep.domain.quoting import disarm
from skillopt_sleep.domain.replies import extract_json
from skillopt_sleep.domain.report import Refusal
from skillopt_sleep.domain.rollout import GateMetric, ReplayResult, combine, rollout_stats
from skillopt_sleep.domain.task import TaskRecord
from skillopt_sleep.domain.words import excerpt
from skillopt_sleep.errors import TransientBackend
from skillopt_sleep.optimize.replay import Models
from skillopt_sleep.prompts import render

__all__ = ["Lesson", "Reflection", "reflect"]

MOST_CONTRASTS = 6
"""Tasks of the widest spread that are shown side by side, as in the reference implementation."""
MOST_FAILURES = 24
EXCERPT = 900
"""Characters shown of one answer."""

TAGS = (
    "document",
    "preferences",
    "rejected-before",
    "requests",
    "request",
    "asked",
    "answer",
    "better-answer",
    "worse-answer",
    "the-developer-said",
    "accepted-in-the-end",
)

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
    """What a reflection is to keep in mind besides the rollouts."""

    edit_budget: int = 4
    preferences: str = ""
    rejected: tuple[AppliedEdit, ...] = ()
    metric: GateMetric = GateMetric.MIXED
    mixed_weight: float = 0.5


class Reflection(Struct, frozen=True, kw_only=True):
    """Edits within the budget, the replies they came from, and what of them could not be used.

    ``nothing`` says why there are no edits; it is "" when there are.
    """

    edits: tuple[EditRecord, ...] = ()
    raw: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    nothing: str = ""


def reflect(
    kind: DocumentKind,
    candidate: Candidate,
    rollouts: Sequence[ReplayResult],
    tasks: Sequence[TaskRecord],
    models: Models,
    *,
    lesson: Lesson,
) -> Reflection:
    """Ask for edits of the candidate's document of that kind.

    Tasks whose samples differ are shown by contrast, those that failed every time on their own; each is one prompt,
    and both are asked at once. Raises ``FatalBackend`` and ``BudgetSpent``; a reply that transport lost or nobody can
    read is a reflection without edits that says so.
    """
    document = candidate[kind]
    if document is None:
        return Reflection(nothing=f"there is no {kind} document")
    material = _material(tasks, rollouts, lesson)
    if not material:
        measured = any(result.score is not None for result in rollouts)
        return Reflection(
            nothing="every measured training task passed" if measured else "no training task could be measured"
        )
    prompts = [_prompt(template, cases, kind, region(document), lesson) for template, cases in material.items()]
    known = frozenset(task.id for task in tasks)

    def ask(prompt: Prompt) -> Reflection:
        return _ask(prompt, kind, known, models)

    return _join(models.parallel(ask, prompts), lesson.edit_budget)


def _ask(prompt: Prompt, kind: DocumentKind, known: frozenset[str], models: Models) -> Reflection:
    try:
        reply = models.optimizer(prompt, phase=f"reflect {kind}")
    except TransientBackend as error:
        return Reflection(nothing=f"the reflection was lost: {type(error).__name__}: {error}")
    try:
        edits, refused = parse_edits(extract_json(reply.text), known_tasks=known, document=kind)
    except ValueError as error:
        return Reflection(raw=(reply.text,), nothing=f"the reflection cannot be read: {error}")
    return Reflection(
        edits=edits, raw=(reply.text,), refused=refused, nothing="" if edits else "the optimizer proposed no edit"
    )


def _join(reflections: Sequence[Reflection], edit_budget: int) -> Reflection:
    """Take edits in turn from each reflection, each edit once, up to the budget."""
    in_turn = [edit for row in zip_longest(*(each.edits for each in reflections)) for edit in row if edit is not None]
    edits = tuple({edit.id: edit for edit in in_turn}.values())
    over = tuple(
        Refusal(subject=edit.id, words=edit.text, why=f"over the edit budget of {edit_budget}")
        for edit in edits[edit_budget:]
    )
    return Reflection(
        edits=edits[:edit_budget],
        raw=tuple(text for each in reflections for text in each.raw),
        refused=(*(refusal for each in reflections for refusal in each.refused), *over),
        nothing="" if edits else "; ".join(dict.fromkeys(each.nothing for each in reflections)),
    )


def _prompt(template: str, cases: Sequence[str], kind: DocumentKind, document: str, lesson: Lesson) -> Prompt:
    system, user = render(
        template,
        kind=kind,
        edit_budget=str(lesson.edit_budget),
        document=document.strip() or "(empty)",
        preferences=lesson.preferences.strip() or "(none stated)",
        rejected="\n".join(f"- {each.edit.text} ({each.why})" for each in lesson.rejected) or "(none)",
        cases="\n\n".join(cases),
    )
    return Prompt(system=system, user=user, schema=SCHEMA)


def _material(tasks: Sequence[TaskRecord], rollouts: Sequence[ReplayResult], lesson: Lesson) -> dict[str, list[str]]:
    """What to show, by the template that shows it; empty when nothing went wrong."""
    contrasts: list[tuple[float, str]] = []
    failures: list[tuple[bool, float, str]] = []
    for task in tasks:
        measured = [result for result in rollouts if result.task_id == task.id and result.score is not None]
        stats = rollout_stats(measured, lesson.metric, lesson.mixed_weight)
        if stats is None:
            continue
        if stats.spread > 0:
            best = max(measured, key=lambda result: _value(result, lesson))
            worst = min(measured, key=lambda result: _value(result, lesson))
            answers = f"{_quote('better-answer', best.response)}\n{_quote('worse-answer', worst.response)}"
            contrasts.append((-stats.spread, _case(task, answers)))
        elif stats.pass_rate < 1:
            failures.append((not task.feedback, stats.best, _case(task, _quote("answer", measured[0].response))))
    shown = {
        "contrast": [case for _, case in sorted(contrasts)[:MOST_CONTRASTS]],
        "reflect": [case for *_, case in sorted(failures)[:MOST_FAILURES]],
    }
    return {template: cases for template, cases in shown.items() if cases}


def _value(result: ReplayResult, lesson: Lesson) -> float:
    return combine(result.score, lesson.metric, lesson.mixed_weight) if result.score else 0.0


def _case(task: TaskRecord, answers: str) -> str:
    said = "".join(f"\n{_quote('the-developer-said', words)}" for words in task.feedback)
    accepted = f"\n{_quote('accepted-in-the-end', task.accepted)}" if task.accepted else ""
    return f'<request id="{task.id}">\n{_quote("asked", task.intent)}\n{answers}{said}{accepted}\n</request>'


def _quote(tag: str, text: str) -> str:
    """Material between tags that it can neither close nor open anew."""
    return f"<{tag}>\n{disarm(excerpt(text, EXCERPT), *TAGS)}\n</{tag}>"
