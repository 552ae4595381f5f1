"""``diagnostics.json``: a night as data, and the JSON Schema that is published for it.

Every key is always written, so a reader needs no defaults and the schema can require all of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from skillopt_sleep.errors import DiskError
from skillopt_sleep.model import Json
from skillopt_sleep.night.report import SCHEMA_VERSION, NightReport
from skillopt_sleep.reports.words import to_json


def render(report: NightReport) -> bytes:
    """The file: indented JSON, keys in the order of ``NightReport``."""
    return msgspec.json.format(to_json(report), indent=2) + b"\n"


def parse(data: bytes, *, path: str) -> NightReport:
    """The report in a file; ``path`` is named when it cannot be read.

    Raises ``DiskError``, also for a file that a newer version of this program wrote.
    """
    try:
        report = msgspec.json.decode(data, type=NightReport)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DiskError(f"{path} is not a diagnostics.json: {error}") from error
    if report.schema_version != SCHEMA_VERSION:
        raise DiskError(f"{path} has schema_version {report.schema_version}, this program reads {SCHEMA_VERSION}")
    return report


def schema() -> dict[str, Json]:
    """JSON Schema (2020-12) of ``diagnostics.json``; descriptions are the docstrings of the values."""
    generated = msgspec.json.schema(NightReport)
    definitions = {name: _strict(each) for name, each in generated["$defs"].items()}
    night = definitions.pop("NightReport")
    night["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **night,
        "title": "diagnostics.json of SkillOpt-Sleep",
        "$defs": definitions,
    }


def schema_bytes() -> bytes:
    """The published file."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2) + b"\n"


def _strict(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition with its description on one line; an object is closed, and requires every key."""
    strict = {**definition, "description": " ".join(definition["description"].replace("``", "`").split())}
    if "properties" in definition:
        shapes = {
            name: {keyword: value for keyword, value in shape.items() if keyword != "default"}
            for name, shape in definition["properties"].items()
        }
        strict |= {"properties": shapes, "required": list(shapes), "additionalProperties": False}
    return strict
