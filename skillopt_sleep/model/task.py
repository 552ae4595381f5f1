"""A replayable unit of one person's work, mined from sessions, with what it is judged by.

Machine-checkable conditions on an answer: a closed set of kinds, each refused by name when malformed.

How far a person's work is from carrying a verdict: how many more tasks, and how many days of such work.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from skillopt_sleep.model import Json
from skillopt_sleep.model.json_schema import check_schema
from skillopt_sleep.model.text import did_you_mean


class CheckKind(enum.StrEnum):
    """What a check looks at. ``value`` and ``section`` of the check are read as said here."""

    CONTAINS = "contains"
    NOT_CONTAINS = "not_contains"
    REGEX = "regex"
    SECTION_PRESENT = "section_present"
    SECTION_CONTAINS = "section_contains"
    MIN_CHARS = "min_chars"
    MAX_CHARS = "max_chars"
    NO_REFUSAL = "no_refusal"
    TOOL_CALLED = "tool_called"
    JSON_SCHEMA = "json_schema"


class Check(Struct, frozen=True, kw_only=True):
    """One condition. ``value``: a string, a length in characters, or a JSON Schema, by ``kind``.

    ``section`` is the heading that ``section_present`` and ``section_contains`` look for.
    """

    kind: CheckKind
    value: Json = None
    section: str = ""


SECTION_KINDS = frozenset({CheckKind.SECTION_PRESENT, CheckKind.SECTION_CONTAINS})

SPELLINGS = {
    "kind": ("kind", "op", "type"),
    "value": ("value", "pattern", "text", "schema"),
    "section": ("section", "heading"),
}
"""What each field may be called by those who write checks: people, models and the files of the reference."""


def parse_check(raw: Json) -> Check:
    """Read one check.

    Raises ``ValueError`` with one line that names what is unknown, missing or malformed.
    """
    if not isinstance(raw, dict):
        raise ValueError(f"a check is an object with kind and value, not {str(raw)[:60]!r}")  # noqa: TRY004  data, no call
    fields = _fields(raw)
    name = str(fields.get("kind"))
    if name not in list(CheckKind):
        raise ValueError(f"unknown check {name!r}{_nearest(name, list(CheckKind))}")
    kind, value, section = CheckKind(name), fields.get("value"), fields.get("section") or ""
    if kind is CheckKind.SECTION_PRESENT and not section:
        value, section = "", value or ""
    if not isinstance(section, str) or bool(section.strip()) is not (kind in SECTION_KINDS):
        raise ValueError(f"{kind}: {'needs a' if kind in SECTION_KINDS else 'takes no'} section, got {section!r:.60}")
    return Check(kind=kind, value=_VALUES[kind](kind, value), section=section)


def _fields(raw: dict[str, Json]) -> dict[str, Json]:
    """The fields under their own names."""
    canonical = {spelling: field for field, spellings in SPELLINGS.items() for spelling in spellings}
    fields: dict[str, Json] = {}
    for spelling, value in raw.items():
        if spelling not in canonical:
            raise ValueError(f"a check has no {spelling!r}{_nearest(spelling, list(canonical))}")
        field = canonical[spelling]
        if field in fields:
            raise ValueError(f"a check has its {field} twice, once as {spelling!r}")
        fields[field] = value
    return fields


def _nothing(kind: CheckKind, value: Json) -> None:
    if value:
        raise ValueError(f"{kind}: takes no value, got {value!r:.60}")


def _text(kind: CheckKind, value: Json) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{kind}: needs a text that is not empty, got {value!r:.60}")
    return value


def _length(kind: CheckKind, value: Json) -> int:
    """A length, also one written as a string, which is all that some structured output can carry."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{kind}: needs a number of characters, got {value!r:.60}")
    return number


def _pattern(kind: CheckKind, value: Json) -> str:
    import regex  # noqa: PLC0415  17 ms that most commands need not wait for

    pattern = _text(kind, value)
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"{kind}: {pattern!r:.60} is no regular expression: {error}") from None
    return pattern


def _schema(kind: CheckKind, value: Json) -> dict[str, Json]:
    """A JSON Schema, also one written as a string, for the same reason as a length."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise ValueError(f"{kind}: no JSON: {error}") from None
    check_schema(value)
    if not isinstance(value, dict) or not value:
        raise ValueError(f"{kind}: an empty schema holds of everything")
    return value


_VALUES: Mapping[CheckKind, Callable[[CheckKind, Json], Json]] = {
    CheckKind.CONTAINS: _text,
    CheckKind.NOT_CONTAINS: _text,
    CheckKind.REGEX: _pattern,
    CheckKind.SECTION_PRESENT: _nothing,
    CheckKind.SECTION_CONTAINS: _text,
    CheckKind.MIN_CHARS: _length,
    CheckKind.MAX_CHARS: _length,
    CheckKind.NO_REFUSAL: _nothing,
    CheckKind.TOOL_CALLED: _text,
    CheckKind.JSON_SCHEMA: _schema,
}
"""How the value of each kind is read."""


def _nearest(name: str, known: list[str]) -> str:
    return did_you_mean(name, known) or f"; known are {', '.join(known)}"


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


DECIDING = 5
"""Different requests that must decide on a change: with fewer, a verdict is about those few and says so."""

GROUPS_FOR_VERDICT = 3 * DECIDING
"""Different requests it takes: one in three decides, for what a change was learnt from cannot also prove it."""


class Shortfall(Struct, frozen=True, kw_only=True):
    """``groups`` counts the different requests there are, ``missing`` those a verdict still takes.

    ``days`` is how many days of such work that is, None where none are missing or the tasks carry no times.
    """

    groups: int = 0
    missing: int = 0
    days: int | None = None


def shortfall(tasks: Sequence[TaskRecord]) -> Shortfall:
    """Count the groups of ``tasks``; a day of work is one on which any of them was asked."""
    groups = len({group_of(task) for task in tasks})
    days = len({origin.at[:10] for task in tasks for origin in task.origins} - {""})
    missing = max(0, GROUPS_FOR_VERDICT - groups)
    return Shortfall(
        groups=groups,
        missing=missing,
        days=-(-missing * days // groups) if missing and days and groups else None,
    )
