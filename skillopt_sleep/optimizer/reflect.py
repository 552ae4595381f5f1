"""Reflects: shows minibatches of trajectories to analysts in parallel; each analyst proposes a few bounded edits.

`night` and `train` both call ``analyse``, each with its own minibatches: ``reflect`` builds those of a night, `train`
builds its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Prompt
from skillopt_sleep.model.document import Candidate, DocumentKind, read_region
from skillopt_sleep.model.edit import AppliedEdit, EditRecord, parse_edits
from skillopt_sleep.model.replies import Refusal, extract_json
from skillopt_sleep.model.rollout import GateMetric, ReplayResult, combine, summarize_rollouts
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.optimizer.aggregate import EditPatch, Learnt, Proposal
from skillopt_sleep.optimizer.client import Optimizer, quote
from skillopt_sleep.optimizer.replay import Models
from skillopt_sleep.prompts import render
from skillopt_sleep.safety.guard import guard

MOST_CONTRASTS = 6
"""Maximum tasks shown with a better and a worse answer, those with the widest spread, as in the original SkillOpt."""
MOST_FAILURES = 24
"""Maximum failed tasks shown in one prompt."""

LAPSE_CAP = 300
"""Maximum characters of one reminder of a rule that the agent did not keep to."""

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


LAPSES_FROM = {"both": frozenset(Learnt), "failure_only": frozenset({Learnt.FAILURE})}
"""For each value of ``skill_aware_appendix_source``, the kinds of attempts that are searched for rules not kept to."""
LAPSES: Json = {"type": "array", "items": {"type": "string"}}
SCHEMA_WITH_LAPSES: dict[str, Json] = SCHEMA | {
    "required": ["edits", "lapses"],
    "properties": {**cast("dict[str, Json]", SCHEMA["properties"]), "lapses": LAPSES},
}


class Lesson(Struct, frozen=True, kw_only=True):
    """The information that an analyst is given besides the trajectories."""

    edit_budget: int = 4
    """Maximum number of edits that one analyst may propose."""
    preferences: str = ""
    """The person's stated preferences; "" in training, which shows none."""
    rejected: tuple[AppliedEdit, ...] = ()
    """Edits that were tried before, each with the reason why it was rejected."""
    metric: GateMetric = GateMetric.MIXED
    mixed_weight: float = 0.5
    """Weight of the soft score under the mixed metric, from 0 to 1."""
    notes: str = ""
    """The optimizer's own notes from earlier epochs of training; "" in a night."""
    lapses_from: frozenset[Learnt] = frozenset()
    """The kinds of attempts in which analysts also look for rules that were not kept to (skill-aware reflection)."""


class Minibatch(Struct, frozen=True, kw_only=True):
    """The trajectories that one analyst is shown."""

    template: str
    """The name of the prompt template that shows the trajectories."""
    cases: tuple[str, ...]
    """One text for each trajectory, as it is shown in the prompt."""
    learnt: Learnt = Learnt.FAILURE


class Analysis(Struct, frozen=True, kw_only=True):
    """The result of asking one analyst: the proposed edits, or the reason why there are none."""

    patch: EditPatch
    raw: tuple[str, ...] = ()
    """The analyst's replies, verbatim."""
    refused: tuple[Refusal, ...] = ()
    """The parts of the analyst's reply that could not be used."""
    nothing: str = ""
    """The reason why the analyst proposed no edit, or "" when there are edits."""
    lost: bool = False
    """Whether the call failed, so that no reply came."""
    lapses: tuple[str, ...] = ()
    """Reminders of rules that are in the document and that the agent did not keep to."""


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
    """Show each minibatch to an analyst, in parallel, and return one analysis per minibatch, in order.

    A lost or unreadable reply becomes an analysis without edits, which gives the reason. Raises ``FatalBackend`` and
    ``BudgetSpent``.
    """

    def ask(minibatch: Minibatch) -> Analysis:
        prompt = _make_prompt(minibatch, kind, document, optimizer, lesson)
        answer = optimizer.answer(prompt, phase=phase)
        empty = EditPatch(learnt=minibatch.learnt, cases=len(minibatch.cases))
        if answer.error:
            what = "was lost" if answer.lost else "cannot be read"
            return Analysis(patch=empty, nothing=f"the reflection {what}: {answer.error}", lost=answer.lost)
        try:
            reply = _patch(extract_json(answer.text))
            given = reply.get("lapses") if isinstance(reply, dict) and lesson.lapses_from else None
            lapses, unusable = read_lapses(given)
            edits, refused = parse_edits(reply, known_tasks=known_tasks, document=kind)
        except ValueError as error:
            return Analysis(patch=empty, raw=(answer.text,), nothing=f"the reflection cannot be read: {error}")
        patch = EditPatch(
            proposals=tuple(Proposal(edit=edit, learnt=minibatch.learnt) for edit in edits[: lesson.edit_budget]),
            reasoning="\n".join(dict.fromkeys(edit.reason for edit in edits if edit.reason)),
            learnt=minibatch.learnt,
            cases=len(minibatch.cases),
        )
        return Analysis(
            patch=patch,
            raw=(answer.text,),
            refused=(*refused, *unusable, *refuse_over_budget(edits[lesson.edit_budget :], lesson.edit_budget)),
            nothing="" if edits else "the optimizer proposed no edit",
            lapses=lapses,
        )

    return tuple(optimizer.parallel(ask, minibatches))


def describe_context(lesson: Lesson) -> dict[str, str]:
    """Return the prompt fields that an analyst in training has besides document and cases: notes and rejected edits."""
    return {"notes": lesson.notes.strip() or "(none yet)", "rejected": _list_rejected(lesson)}


def _list_rejected(lesson: Lesson) -> str:
    return "\n".join(f"- {describe_edit(edit)} ({edit.why})" for edit in lesson.rejected) or "(none)"


def _make_prompt(
    minibatch: Minibatch, kind: DocumentKind, document: str, optimizer: Optimizer, lesson: Lesson
) -> Prompt:
    """Return the prompt of one analyst, which also asks for lapses when the lesson wants them from these attempts."""
    fields = {
        "kind": str(kind),
        "edit_budget": str(lesson.edit_budget),
        "document": document.strip() or "(empty)",
        "cases": "\n\n".join(minibatch.cases),
    }
    if minibatch.template.startswith("analyst_"):
        fields |= describe_context(lesson)
    else:
        fields |= {"preferences": lesson.preferences.strip() or "(none stated)", "rejected": _list_rejected(lesson)}
    prompt = optimizer.prompt(minibatch.template, SCHEMA, **fields)
    if minibatch.learnt not in lesson.lapses_from:
        return prompt
    addition = optimizer.wording.get("lapses", render("lapses")[0])
    return replace(prompt, system=f"{prompt.system}\n\n{addition}", schema=SCHEMA_WITH_LAPSES)


def read_lapses(found: object) -> tuple[tuple[str, ...], tuple[Refusal, ...]]:
    """Return the reminders from a list in a reply, each on one line, and the entries that cannot be used."""
    lapses, refused = [], []
    for number, lapse in enumerate(found if isinstance(found, list) else (), start=1):
        line = " ".join(lapse.split()) if isinstance(lapse, str) else ""
        why = guard(line) if line else "it is no text"
        why = why or (f"it is longer than {LAPSE_CAP} characters" if len(line) > LAPSE_CAP else None)
        if why is None:
            lapses.append(line)
        else:
            refused.append(Refusal(subject=f"lapse {number}", words=excerpt(str(lapse), 120), why=why))
    return tuple(lapses), tuple(refused)


def refuse_over_budget(edits: Sequence[EditRecord], edit_budget: int) -> tuple[Refusal, ...]:
    """Return a refusal for each edit beyond the edit budget."""
    why = f"over the edit budget of {edit_budget}"
    return tuple(Refusal(subject=edit.id, words=edit.text, why=why) for edit in edits)


def _patch(reply: Json) -> Json:
    """Return the part of a reply that has the edits: the reply itself, or its ``patch``, as SkillOpt's prompts ask."""
    inner = reply.get("patch") if isinstance(reply, dict) and "edits" not in reply else None
    return inner if isinstance(inner, dict) else reply


def describe_edit(applied: AppliedEdit) -> str:
    """Describe an edit in one line: the rule that it writes, or its operation and anchor when it writes none."""
    return applied.edit.text or f"{applied.edit.op} {applied.edit.anchor}"


def reflect(
    kind: DocumentKind,
    candidate: Candidate,
    rollouts: Sequence[ReplayResult],
    tasks: Sequence[TaskRecord],
    models: Models,
    *,
    lesson: Lesson,
) -> tuple[Analysis, ...]:
    """Ask the optimizer for edits of one document after a night's training rollouts.

    One prompt shows tasks whose samples differ, with a better and a worse answer; another shows tasks that failed every
    time. Both are asked in parallel. An ``Analysis`` without edits gives the reason in ``nothing``. Raises
    ``FatalBackend`` and ``BudgetSpent``.
    """
    document = candidate[kind]
    if document is None:
        return (Analysis(patch=EditPatch(), nothing=f"there is no {kind} document"),)
    minibatches = night_minibatches(tasks, rollouts, lesson.metric, lesson.mixed_weight)
    if not minibatches:
        measured = any(result.score is not None for result in rollouts)
        why = "every measured training task passed" if measured else "no training task could be measured"
        return (Analysis(patch=EditPatch(), nothing=why),)
    known = frozenset(task.id for task in tasks)
    return analyse(
        minibatches, kind, read_region(document), known, models.as_optimizer, lesson=lesson, phase=f"reflect {kind}"
    )


def night_minibatches(
    tasks: Sequence[TaskRecord], rollouts: Sequence[ReplayResult], metric: GateMetric, mixed_weight: float
) -> tuple[Minibatch, ...]:
    """Build at most one minibatch of contrasts and one of failures; return none when every measured task passed.

    They show requests, answers and the person's words of training tasks only, never a rubric, a check or a judge's
    rationale: an edit that quotes what the judge checks proves nothing.
    """
    contrasts: list[tuple[float, str]] = []
    failures: list[tuple[bool, float, str]] = []
    for task in tasks:
        measured = [result for result in rollouts if result.task_id == task.id and result.score is not None]
        stats = summarize_rollouts(measured, metric, mixed_weight)
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
