"""What the optimizer remembers from step to step and from epoch to epoch; none of it ever reaches the target."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.edit import AppliedEdit, EditStatus
from skillopt_sleep.domain.words import excerpt
from skillopt_sleep.optimize.analyse import told
from skillopt_sleep.optimize.optimizer import Optimizer, object_schema, quote

__all__ = ["NOTES_CAP", "StepNote", "meta_skill", "rejected_rules", "remember"]

REJECTED_KEPT = 30
"""Rejected edits that later reflections are shown, the latest first."""
NOTES_CAP = 2_000
"""Characters of the optimizer's own notes: they are in front of every analyst."""
PHASE = "meta skill"
SCHEMA = object_schema(notes={"type": "string"})


class StepNote(Struct, frozen=True, kw_only=True):
    """What one step tried and what came of it, as the optimizer looks back on it."""

    step: int
    edits: tuple[str, ...]
    outcome: str


class _Reply(Struct, frozen=True, kw_only=True):
    notes: str


def remember(
    buffer: Sequence[AppliedEdit], edits: Sequence[AppliedEdit], *, before: float, after: float
) -> tuple[AppliedEdit, ...]:
    """The buffer of rejected edits with these in front, each with what the score did; every rule once.

    ``before`` and ``after`` are the selection scores without and with them.
    """
    why = f"rejected: the selection score went from {before:.3f} to {after:.3f} ({after - before:+.3f})"
    new = [replace(each, status=EditStatus.REJECTED, why=why) for each in edits if each.status is EditStatus.APPLIED]
    unique = {(each.edit.op, each.edit.text, each.edit.anchor): each for each in reversed([*new, *buffer])}
    return tuple(reversed(unique.values()))[:REJECTED_KEPT]


def meta_skill(notes: str, history: Sequence[StepNote], guidance: str, optimizer: Optimizer) -> tuple[str, str]:
    """The optimizer's notes after an epoch, and why they stayed as they were ("" when they changed).

    Never over ``NOTES_CAP``. Raises ``FatalBackend`` and ``BudgetSpent``.
    """
    lines = [
        f"step {each.step}: {each.outcome}\n" + "\n".join(f"  - {excerpt(edit, 200)}" for edit in each.edits)
        for each in history
    ]
    prompt = optimizer.prompt(
        "meta_skill",
        SCHEMA,
        most=str(NOTES_CAP),
        notes=quote("notes", notes or "(none yet)", NOTES_CAP),
        history=quote("history", "\n".join(lines) or "(no step changed anything)", 12_000),
        guidance=quote("guidance", guidance or "(none)", NOTES_CAP),
    )
    reply, answer = optimizer.read(prompt, _Reply, phase=PHASE)
    if reply is None:
        return notes, answer.error
    if not reply.notes.strip():
        return notes, "the optimizer wrote no notes"
    return reply.notes.strip()[:NOTES_CAP], ""


def rejected_rules(buffer: Sequence[AppliedEdit]) -> str:
    """The buffer as an environment that reflects by itself is told of it."""
    return "\n".join(f"- {told(each)} ({each.why})" for each in buffer)
