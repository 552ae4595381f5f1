"""Slow update: after an epoch, the same tasks under the skill of the epoch before and of now, and guidance from that.

A step sees one batch, so what it repairs it may break elsewhere and never notice. The guidance is written into a part
of the skill that steps cannot touch (``domain/skill_text.py``).

What the optimizer remembers from step to step and from epoch to epoch; none of it ever reaches the target.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model.edit import AppliedEdit, EditStatus
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.optimizer.client import Optimizer, object_schema, quote
from skillopt_sleep.optimizer.reflect import describe_edit
from skillopt_sleep.safety.guard import guard
from skillopt_sleep.train.skill_text import GUIDANCE_CAP, guidance_of, with_guidance

PHASE = "slow update"
SCHEMA = object_schema(guidance={"type": "string"})
MOST_SHOWN = 8
"""Tasks of one course that are shown; their number is told."""


class Course(enum.StrEnum):
    """What an epoch did to one task."""

    IMPROVED = "improved"
    REGRESSED = "regressed"
    PERSISTENT_FAIL = "persistent_fail"
    STABLE_SUCCESS = "stable_success"


class Revisit(Struct, frozen=True, kw_only=True):
    """One task under both skills: whether it passed, and the two attempts as a model is shown them."""

    id: str
    passed_before: bool
    passed_now: bool
    asked: str = ""
    before: str = ""
    now: str = ""


class Guidance(Struct, frozen=True, kw_only=True):
    """The skill with new guidance; ``nothing`` says why it is the same as before."""

    skill: str
    nothing: str = ""


class _Reply(Struct, frozen=True, kw_only=True):
    guidance: str


def course_of(revisit: Revisit) -> Course:
    """Which way a task went."""
    if revisit.passed_now:
        return Course.STABLE_SUCCESS if revisit.passed_before else Course.IMPROVED
    return Course.REGRESSED if revisit.passed_before else Course.PERSISTENT_FAIL


def sorted_out(revisits: Sequence[Revisit]) -> Mapping[Course, tuple[Revisit, ...]]:
    """The tasks by their course, every course named."""
    return {course: tuple(each for each in revisits if course_of(each) is course) for course in Course}


def slow_update(skill: str, revisits: Sequence[Revisit], optimizer: Optimizer) -> Guidance:
    """The skill with guidance from what its tasks went through. Raises ``FatalBackend`` and ``BudgetSpent``."""
    if not revisits:
        return Guidance(skill=skill, nothing="no task of the sample could be measured under both skills")
    old = guidance_of(skill)
    prompt = optimizer.prompt(
        "slow_update",
        SCHEMA,
        most=str(GUIDANCE_CAP),
        document=with_guidance(skill, "").strip() or "(empty)",
        guidance=quote("guidance", old or "(none yet)", GUIDANCE_CAP),
        cases="\n\n".join(_shown(course, each) for course, each in sorted_out(revisits).items()),
    )
    reply, answer = optimizer.read(prompt, _Reply, phase=PHASE)
    if reply is None:
        return Guidance(skill=skill, nothing=answer.error)
    text = reply.guidance.strip()
    if not text:
        return Guidance(skill=skill, nothing="the optimizer wrote no guidance")
    for line in filter(None, map(str.strip, text.splitlines())):
        if (why := guard(line)) is not None:
            return Guidance(skill=skill, nothing=f"its guidance is held back: {why}")
    try:
        changed = with_guidance(skill, text)
    except ValueError as error:
        return Guidance(skill=skill, nothing=str(error))
    return Guidance(skill=changed, nothing="it is the guidance that was there" if changed == skill else "")


def _shown(course: Course, revisits: Sequence[Revisit]) -> str:
    head = f"{course}: {len(revisits)} of the sample"
    if course is Course.STABLE_SUCCESS:  # their number is all there is to learn from them
        return head
    return "\n".join([head, *(_case(each) for each in revisits[:MOST_SHOWN])])


def _case(revisit: Revisit) -> str:
    parts = (quote("asked", revisit.asked), quote("before", revisit.before), quote("now", revisit.now))
    return "\n".join([f'<request id="{revisit.id}">', *parts, "</request>"])


REJECTED_KEPT = 30
"""Rejected edits that later reflections are shown, the latest first."""
NOTES_CAP = 2_000
"""Characters of the optimizer's own notes: they are in front of every analyst."""
NOTES_PHASE = "meta skill"
NOTES_SCHEMA = object_schema(notes={"type": "string"})


class StepNote(Struct, frozen=True, kw_only=True):
    """What one step tried and what came of it, as the optimizer looks back on it."""

    step: int
    edits: tuple[str, ...]
    outcome: str


class _NotesReply(Struct, frozen=True, kw_only=True):
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
        NOTES_SCHEMA,
        most=str(NOTES_CAP),
        notes=quote("notes", notes or "(none yet)", NOTES_CAP),
        history=quote("history", "\n".join(lines) or "(no step changed anything)", 12_000),
        guidance=quote("guidance", guidance or "(none)", NOTES_CAP),
    )
    reply, answer = optimizer.read(prompt, _NotesReply, phase=NOTES_PHASE)
    if reply is None:
        return notes, answer.error
    if not reply.notes.strip():
        return notes, "the optimizer wrote no notes"
    return reply.notes.strip()[:NOTES_CAP], ""


def rejected_rules(buffer: Sequence[AppliedEdit]) -> str:
    """The buffer as an environment that reflects by itself is told of it."""
    return "\n".join(f"- {describe_edit(each)} ({each.why})" for each in buffer)
