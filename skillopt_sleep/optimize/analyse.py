"""Show minibatches of trajectories to analysts, all at once; each proposes a few bounded edits, with its reasons.

What is shown of a trajectory is the caller's: a night has its own (``material.py``), training has its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.domain import Json
from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.edit import AppliedEdit, EditRecord, parse_edits
from skillopt_sleep.domain.patch import EditPatch, Learnt, Proposal
from skillopt_sleep.domain.refusal import Refusal
from skillopt_sleep.domain.replies import extract_json
from skillopt_sleep.domain.rollout import GateMetric
from skillopt_sleep.optimize.optimizer import Optimizer

__all__ = ["SCHEMA", "Analysis", "Lesson", "Minibatch", "analyse", "over_budget", "told"]

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
