"""A replayable unit of one person's work, mined from sessions, with what it is judged by."""

from __future__ import annotations

import enum
from typing import TypeAlias

from msgspec import Struct

from skillopt_sleep.domain.check import Check

__all__ = [
    "ChecksReference",
    "CommandReference",
    "ExactReference",
    "Origin",
    "Outcome",
    "Reference",
    "RubricReference",
    "Split",
    "TaskRecord",
    "group_of",
    "reference_kind",
]


class Outcome(enum.StrEnum):
    """How the work ended in the session, as far as the person's words tell."""

    SUCCESS = "success"
    FAIL = "fail"
    MIXED = "mixed"
    UNKNOWN = "unknown"


class Split(enum.StrEnum):
    """Where a task is used: train feeds reflection, val gates, test is sealed."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"


class Origin(Struct, frozen=True, kw_only=True):
    """The session and the person's own words a task stands on. ``at`` is ISO 8601, "" when unknown."""

    source: str
    session_id: str
    path: str
    words: str
    at: str = ""
    cwd: str = ""


class ExactReference(Struct, frozen=True, kw_only=True, tag="exact", tag_field="kind"):
    """The answer the person accepted, compared literally (white space folded, case kept)."""

    answer: str


class RubricReference(Struct, frozen=True, kw_only=True, tag="rubric", tag_field="kind"):
    """What a good answer must do, in words; a model judges."""

    rubric: str


class ChecksReference(Struct, frozen=True, kw_only=True, tag="checks", tag_field="kind"):
    """Conditions a program can check; ``hard`` is all of them, ``soft`` their share."""

    checks: tuple[Check, ...]


class CommandReference(Struct, frozen=True, kw_only=True, tag="command", tag_field="kind"):
    """Commands whose exit status tells; ``hard`` is that all pass. Only those the user approved are ever run."""

    commands: tuple[str, ...]


Reference: TypeAlias = ExactReference | RubricReference | ChecksReference | CommandReference


def reference_kind(reference: Reference) -> str:
    """The tag a reference is stored under, which is also the name of the judge that scores it."""
    return str(reference.__struct_config__.tag)


class TaskRecord(Struct, frozen=True, kw_only=True):
    """One task.

    ``id`` is a digest of intent and first origin; ``intent`` is what was asked, replayed verbatim under ``system``
    (the task's own framing, verbatim; "" = the default framing). ``context`` is what the agent had in front of it.
    ``feedback`` are the person's own words about a wrong answer; ``accepted`` the answer that stood in the end.
    ``origins`` has one entry for each recurrence, ``wordings`` the person's own words of those that put it differently
    (some, cut): what resembles any of them is near this task. ``commands`` are lines the session ran that may tell good
    work from bad; none is run unless the user approved it. ``commit`` is the state of the project it is replayed in.
    ``group`` names the set of near-duplicate intents the task belongs to; a group never straddles a split. ``split``
    pins the task ("" by rule). ``reviewed`` says that a person has read the task file it came from; mined tasks need no
    review.
    """

    id: str
    intent: str
    reference: Reference
    system: str = ""
    context: str = ""
    feedback: tuple[str, ...] = ()
    accepted: str = ""
    rejected: str = ""
    outcome: Outcome = Outcome.UNKNOWN
    origins: tuple[Origin, ...] = ()
    wordings: tuple[str, ...] = ()
    skill_hint: str = ""
    project: str = ""
    commands: tuple[str, ...] = ()
    commit: str = ""
    group: str = ""
    split: Split | None = None
    reviewed: bool = False


def group_of(task: TaskRecord) -> str:
    """The name of the group a task belongs to; without one it is a group of its own."""
    return task.group or task.id
