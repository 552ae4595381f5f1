"""Machine-checkable conditions on an answer: a closed set of kinds, each refused by name when malformed."""

from __future__ import annotations

import enum

from msgspec import Struct

from skillopt_sleep.domain import Json

__all__ = ["Check", "CheckKind"]


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
