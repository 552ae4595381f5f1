"""Tasks: replayable pieces of a person's work, mined from sessions, each with the reference that it is judged by."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.model.json_schema import check_schema
from skillopt_sleep.model.moment import MomentReference
from skillopt_sleep.model.text import suggest_name

ReferenceT = TypeVar("ReferenceT", bound=Struct)


class Outcome(enum.StrEnum):
    """How the work ended in the session, judging by what the person said."""

    SUCCESS = "success"
    FAIL = "fail"
    MIXED = "mixed"
    UNKNOWN = "unknown"


class Split(enum.StrEnum):
    """What a task is used for: train tasks feed reflection, val tasks feed the gate, test tasks stay unused by both."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"


class CheckKind(enum.StrEnum):
    """The test that a check applies to an answer."""

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
    """One condition on an answer that a program can test."""

    kind: CheckKind
    value: Json = None
    """A string, a length in characters, or a JSON Schema, depending on ``kind``."""
    section: str = ""
    """The heading that ``section_present`` and ``section_contains`` look for."""


class ExactReference(Struct, frozen=True, kw_only=True, tag="exact", tag_field="kind"):
    """A reference that is the answer the person accepted, compared literally."""

    answer: str


class RubricReference(Struct, frozen=True, kw_only=True, tag="rubric", tag_field="kind"):
    """A reference that says in words what a good answer must do; a model judges."""

    rubric: str


class ChecksReference(Struct, frozen=True, kw_only=True, tag="checks", tag_field="kind"):
    """A reference of conditions that a program can check."""

    checks: tuple[Check, ...]


class CommandReference(Struct, frozen=True, kw_only=True, tag="command", tag_field="kind"):
    """A reference of commands whose exit status decides; only commands that the user approved are ever run."""

    commands: tuple[str, ...]


_FORMS = (ExactReference, RubricReference, ChecksReference, CommandReference, MomentReference)
_BUILT_IN: Mapping[str, type[Struct]] = {str(form.__struct_config__.tag): form for form in _FORMS}
"""The types of references that mining creates, by kind; any other kind belongs to the judge with that name."""

if TYPE_CHECKING:
    Reference: TypeAlias = Struct | dict[str, Json]
else:
    Reference = Any
"""What a task is judged by.

A tagged Struct of one of the kinds above, or of the kind that a judge declares as its ``reference``. A stored
reference of any other kind stays a JSON object, so that a task can be read without the package of its judge.
"""


class Origin(Struct, frozen=True, kw_only=True):
    """The place in a session that a task comes from."""

    source: str
    session_id: str
    path: str
    words: str
    """What the person typed there."""
    at: str = ""
    """The time of the request, ISO 8601; "" when unknown."""
    cwd: str = ""


class TaskRecord(Struct, frozen=True, kw_only=True):
    """One replayable piece of work, with its reference and its origins."""

    id: str
    """A digest of the intent and the first origin."""
    intent: str
    """The request, replayed word for word."""
    reference: Reference
    """The reference that defines a good answer; its ``kind`` names the judge."""
    system: str = ""
    """The system prompt of the task, word for word; "" for the default one."""
    context: str = ""
    """What the agent could see besides the request."""
    feedback: tuple[str, ...] = ()
    """What the person said about a wrong answer."""
    accepted: str = ""
    """The answer that was accepted in the end."""
    rejected: str = ""
    outcome: Outcome = Outcome.UNKNOWN
    origins: tuple[Origin, ...] = ()
    """One entry for each time the task occurred."""
    wordings: tuple[str, ...] = ()
    """Other wordings of the same request, shortened; used to find near-duplicates."""
    skill_hint: str = ""
    project: str = ""
    commands: tuple[str, ...] = ()
    """Commands that the session ran and that may tell good work from bad; none is run unless the user approved it."""
    commit: str = ""
    """The commit of the project at which the task is replayed."""
    group: str = ""
    """Name of the task's set of near-duplicates; a group is never divided between splits."""
    split: Split | None = None
    """The split that the task is pinned to; None when the random split decides."""
    reviewed: bool = False
    """Whether a person has read the task file that the task comes from; mined tasks need no review."""

    def __post_init__(self) -> None:
        """Convert a reference that comes from JSON. Raises ``ValueError`` when it does not name its judge."""
        if not isinstance(self.reference, Struct):
            msgspec.structs.force_setattr(self, "reference", _read_reference(self.reference))


def _read_reference(raw: object) -> Struct | dict[str, Json]:
    if not isinstance(raw, dict) or not isinstance(kind := raw.get("kind"), str) or not kind:
        raise ValueError("a reference is an object whose kind names a judge")
    return msgspec.convert(raw, _BUILT_IN[kind]) if kind in _BUILT_IN else raw


def reference_kind(reference: Reference) -> str:
    """Return the kind of a reference, which is the name of the judge that scores it."""
    return str(reference["kind"] if isinstance(reference, dict) else reference.__struct_config__.tag)


def require_reference(task: TaskRecord, form: type[ReferenceT]) -> ReferenceT:
    """Return the reference of a task, converted to the type that its judge declares.

    Raises ``UsageError``, which names the task, for a reference of another kind or one that does not fit the type.
    """
    reference, kind = task.reference, str(form.__struct_config__.tag)
    if isinstance(reference, form):
        return reference
    found = reference_kind(reference)
    if found != kind:
        raise UsageError(f"task {task.id}: the judge {kind} needs a reference of kind {kind}, not {found}")
    try:
        return msgspec.convert(reference, form)
    except msgspec.ValidationError as error:
        raise UsageError(f"task {task.id}: the judge {kind} cannot read its reference: {error}") from None


def may_ask_model(reference: Reference) -> bool:
    """Return whether scoring by a reference may need a model call; for a judge of another package this is assumed."""
    if isinstance(reference, MomentReference):
        return reference.check is None
    return not isinstance(reference, ExactReference | ChecksReference | CommandReference)


def may_vote(task: TaskRecord) -> bool:
    """Return whether a verdict may count a task: at a moment, only when the task's reference is proven."""
    return not isinstance(task.reference, MomentReference) or task.reference.may_vote


def is_sibling(task: TaskRecord) -> bool:
    """Return whether a task is at a place where a lesson applies but nobody complained."""
    return isinstance(task.reference, MomentReference) and task.reference.sibling


def group_of(task: TaskRecord) -> str:
    """Return the name of a task's group; a task without a group is a group of its own, named by the task's id."""
    return task.group or task.id


DECIDING = 5
"""Number of different requests needed to decide on a change; a verdict on fewer holds for those requests only."""

GROUPS_FOR_VERDICT = 3 * DECIDING
"""Number of different requests needed for a verdict; only a third of them decide, as the others teach the change."""


class Shortfall(Struct, frozen=True, kw_only=True):
    """How many different requests a person's tasks cover, and how many more a verdict needs."""

    groups: int = 0
    """Number of different requests among the tasks."""
    missing: int = 0
    """Number of further different requests that a verdict needs."""
    days: int | None = None
    """Days of similar work that would supply the missing requests; None when none are missing or no times are known."""


def shortfall(tasks: Sequence[TaskRecord]) -> Shortfall:
    """Return how many different requests ``tasks`` cover, and how many more a verdict needs."""
    groups = len({group_of(task) for task in tasks})
    days = len({origin.at[:10] for task in tasks for origin in task.origins} - {""})
    missing = max(0, GROUPS_FOR_VERDICT - groups)
    return Shortfall(
        groups=groups,
        missing=missing,
        days=-(-missing * days // groups) if missing and days and groups else None,
    )


SECTION_KINDS = frozenset({CheckKind.SECTION_PRESENT, CheckKind.SECTION_CONTAINS})

SPELLINGS = {
    "kind": ("kind", "op", "type"),
    "value": ("value", "arg", "pattern", "text", "schema"),
    "section": ("section", "heading"),
}
"""For each field of a check, the names it may have, as people, models and the reference implementation write them."""


def parse_check(raw: Json) -> Check:
    """Return the check that a JSON object describes.

    Raises ``ValueError``, with one line that names what is unknown, missing or malformed.
    """
    if not isinstance(raw, dict):
        raise ValueError(f"a check is an object with kind and value, not {str(raw)[:60]!r}")  # noqa: TRY004  data, no call
    fields = _list_canonical_fields(raw)
    name = str(fields.get("kind"))
    if name not in list(CheckKind):
        raise ValueError(f"unknown check {name!r}{_hint(name, list(CheckKind))}")
    kind, value, section = CheckKind(name), fields.get("value"), fields.get("section") or ""
    if kind is CheckKind.SECTION_PRESENT and not section:
        value, section = "", value or ""
    if not isinstance(section, str) or bool(section.strip()) is not (kind in SECTION_KINDS):
        raise ValueError(f"{kind}: {'needs a' if kind in SECTION_KINDS else 'takes no'} section, got {section!r:.60}")
    return Check(kind=kind, value=_READERS[kind](kind, value), section=section)


def _list_canonical_fields(raw: dict[str, Json]) -> dict[str, Json]:
    canonical = {spelling: field for field, spellings in SPELLINGS.items() for spelling in spellings}
    fields: dict[str, Json] = {}
    for spelling, value in raw.items():
        if spelling not in canonical:
            raise ValueError(f"a check has no {spelling!r}{_hint(spelling, list(canonical))}")
        field = canonical[spelling]
        if field in fields:
            raise ValueError(f"a check has its {field} twice, once as {spelling!r}")
        fields[field] = value
    return fields


def _read_nothing(kind: CheckKind, value: Json) -> None:
    if value:
        raise ValueError(f"{kind}: takes no value, got {value!r:.60}")


def _read_text(kind: CheckKind, value: Json) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{kind}: needs a text that is not empty, got {value!r:.60}")
    return value


def _read_length(kind: CheckKind, value: Json) -> int:
    """Return a length, also one written as a string, as some models' structured output can contain strings only."""
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{kind}: needs a number of characters, got {value!r:.60}")
    return number


def _read_pattern(kind: CheckKind, value: Json) -> str:
    import regex  # noqa: PLC0415  17 ms that most commands need not wait for

    pattern = _read_text(kind, value)
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"{kind}: {pattern!r:.60} is not a regular expression: {error}") from None
    return pattern


def _read_schema(kind: CheckKind, value: Json) -> dict[str, Json]:
    """Return a JSON Schema, also one written as a string, as some models' structured output has strings only."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise ValueError(f"{kind}: not JSON: {error}") from None
    check_schema(value)
    if not isinstance(value, dict) or not value:
        raise ValueError(f"{kind}: an empty schema accepts everything")
    return value


_READERS: Mapping[CheckKind, Callable[[CheckKind, Json], Json]] = {
    CheckKind.CONTAINS: _read_text,
    CheckKind.NOT_CONTAINS: _read_text,
    CheckKind.REGEX: _read_pattern,
    CheckKind.SECTION_PRESENT: _read_nothing,
    CheckKind.SECTION_CONTAINS: _read_text,
    CheckKind.MIN_CHARS: _read_length,
    CheckKind.MAX_CHARS: _read_length,
    CheckKind.NO_REFUSAL: _read_nothing,
    CheckKind.TOOL_CALLED: _read_text,
    CheckKind.JSON_SCHEMA: _read_schema,
}


def _hint(name: str, known: list[str]) -> str:
    return suggest_name(name, known) or f"; known are {', '.join(known)}"
