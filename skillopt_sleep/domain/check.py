"""Machine-checkable conditions on an answer: a closed set of kinds, each refused by name when malformed."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from skillopt_sleep.domain import Json
from skillopt_sleep.domain.nearest import did_you_mean
from skillopt_sleep.domain.schema import check_schema

__all__ = ["Check", "CheckKind", "parse_check"]


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
