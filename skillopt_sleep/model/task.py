"""A task: a replayable piece of one person's work, mined from sessions, with the reference its judge scores it by."""

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
    """How the work ended in the session, as far as the person's words tell."""

    SUCCESS = "success"
    FAIL = "fail"
    MIXED = "mixed"
    UNKNOWN = "unknown"


class Split(enum.StrEnum):
    """What a task is used for: train feeds reflection, val feeds the gate, test stays sealed."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"


class CheckKind(enum.StrEnum):
    """What a check tests in an answer."""

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
    """The answer the person accepted, compared literally."""

    answer: str


class RubricReference(Struct, frozen=True, kw_only=True, tag="rubric", tag_field="kind"):
    """What a good answer must do, in words; a model judges."""

    rubric: str


class ChecksReference(Struct, frozen=True, kw_only=True, tag="checks", tag_field="kind"):
    """Conditions that a program can check."""

    checks: tuple[Check, ...]


class CommandReference(Struct, frozen=True, kw_only=True, tag="command", tag_field="kind"):
    """Commands whose exit status decides. Only commands the user approved are ever run."""

    commands: tuple[str, ...]


_FORMS = (ExactReference, RubricReference, ChecksReference, CommandReference, MomentReference)
_BUILT_IN: Mapping[str, type[Struct]] = {str(form.__struct_config__.tag): form for form in _FORMS}
"""The references that mining creates itself; every other kind belongs to the judge of that name."""

if TYPE_CHECKING:
    Reference: TypeAlias = Struct | dict[str, Json]
else:
    Reference = Any
"""What a task is judged by.

A tagged Struct of one of the kinds above, or of the kind that a judge declares as its ``reference``. A stored reference
of any other kind is the JSON object as it stands, so a task outlives the package of its judge.
"""


class Origin(Struct, frozen=True, kw_only=True):
    """The place in a session that a task comes from."""

    source: str
    session_id: str
    path: str
    words: str
    """The person's own words."""
    at: str = ""
    """ISO 8601; "" when unknown."""
    cwd: str = ""


class TaskRecord(Struct, frozen=True, kw_only=True):
    """One task."""

    id: str
    """A digest of the intent and the first origin."""
    intent: str
    """What was asked, replayed verbatim."""
    reference: Reference
    """What a good answer is; its ``kind`` names the judge."""
    system: str = ""
    """The task's own framing, verbatim; "" for the default framing."""
    context: str = ""
    """What the agent had in front of it."""
    feedback: tuple[str, ...] = ()
    """The person's own words about a wrong answer."""
    accepted: str = ""
    """The answer that was accepted in the end."""
    rejected: str = ""
    outcome: Outcome = Outcome.UNKNOWN
    origins: tuple[Origin, ...] = ()
    """One entry for each time the task occurred."""
    wordings: tuple[str, ...] = ()
    """Some requests that asked for the same in other words, shortened; used to find near-duplicates."""
    skill_hint: str = ""
    project: str = ""
    commands: tuple[str, ...] = ()
    """Lines the session ran that may tell good work from bad; none is run unless the user approved it."""
    commit: str = ""
    """The state of the project in which the task is replayed."""
    group: str = ""
    """The set of near-duplicate tasks this one belongs to; a group never straddles a split."""
    split: Split | None = None
    """Pins the task to a split; None leaves it to the rule."""
    reviewed: bool = False
    """Whether a person has read the task file it came from; mined tasks need no review."""

    def __post_init__(self) -> None:
        """Read a reference that comes from JSON. Raises ValueError for one that does not name its judge."""
        if not isinstance(self.reference, Struct):
            msgspec.structs.force_setattr(self, "reference", _read_reference(self.reference))


def _read_reference(raw: object) -> Struct | dict[str, Json]:
    if not isinstance(raw, dict) or not isinstance(kind := raw.get("kind"), str) or not kind:
        raise ValueError("a reference is an object whose kind names a judge")
    return msgspec.convert(raw, _BUILT_IN[kind]) if kind in _BUILT_IN else raw


def reference_kind(reference: Reference) -> str:
    """Return the kind a reference is stored under, which is the name of the judge that scores it."""
    return str(reference["kind"] if isinstance(reference, dict) else reference.__struct_config__.tag)


def require_reference(task: TaskRecord, form: type[ReferenceT]) -> ReferenceT:
    """Return the reference of a task as the type its judge declares.

    Raises ``UsageError`` naming the task for a reference of another kind, or one that does not fit the type.
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
    """Whether scoring may take a model call; a judge of another package is assumed to make one."""
    if isinstance(reference, MomentReference):
        return reference.check is None
    return not isinstance(reference, ExactReference | ChecksReference | CommandReference)


def may_vote(task: TaskRecord) -> bool:
    """Whether a verdict may count a task; a task at a moment only counts when its reference is proven."""
    return not isinstance(task.reference, MomentReference) or task.reference.may_vote


def is_sibling(task: TaskRecord) -> bool:
    """Whether a task is at another place where a lesson applies, at which nobody complained."""
    return isinstance(task.reference, MomentReference) and task.reference.sibling


def group_of(task: TaskRecord) -> str:
    """Return the name of a task's group; a task without one is a group of its own."""
    return task.group or task.id


DECIDING = 5
"""Number of different requests needed to decide on a change; a verdict on fewer is about those few only."""

GROUPS_FOR_VERDICT = 3 * DECIDING
"""Number of different requests needed for a verdict: a third decides, as what taught a change cannot prove it."""


class Shortfall(Struct, frozen=True, kw_only=True):
    """How many different requests a person's tasks cover, and how many more a verdict needs."""

    groups: int = 0
    """Number of different requests among the tasks."""
    missing: int = 0
    """Number of further requests that a verdict needs."""
    days: int | None = None
    """Further days of such work that would supply them; None when none are missing or the tasks carry no times."""


def shortfall(tasks: Sequence[TaskRecord]) -> Shortfall:
    """Count the different requests among ``tasks`` and those missing for a verdict."""
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
"""The names each field may have in checks written by people, by models and for the reference implementation."""


def parse_check(raw: Json) -> Check:
    """Read one check.

    Raises ``ValueError`` with one line that names what is unknown, missing or malformed.
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
    """Read a length, also one written as a string: some structured output can carry nothing else."""
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
    """Read a JSON Schema, also one written as a string, for the same reason as a length."""
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
