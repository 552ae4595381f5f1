"""A night as data: ``diagnostics.json``, its published JSON Schema, and ``evidence.jsonl``.

Every key is always written, so a reader needs no defaults and the schema can require all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from skillopt_sleep.errors import DiskError
from skillopt_sleep.gate.account import EvidenceRow
from skillopt_sleep.model import Json
from skillopt_sleep.night.report import SCHEMA_VERSION, NightReport
from skillopt_sleep.reports.formatting import to_json


def render_diagnostics(report: NightReport) -> bytes:
    """Return the file: indented JSON, keys in the order of ``NightReport``."""
    return msgspec.json.format(to_json(report), indent=2) + b"\n"


def parse_diagnostics(data: bytes, *, path: str) -> NightReport:
    """Read a report back; ``path`` is named in errors.

    Raises ``DiskError``, also for a file that a newer version of this program wrote.
    """
    try:
        report = msgspec.json.decode(data, type=NightReport)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DiskError(f"{path} is not a diagnostics.json: {error}") from error
    if report.schema_version != SCHEMA_VERSION:
        raise DiskError(f"{path} has schema_version {report.schema_version}, this program reads {SCHEMA_VERSION}")
    return report


def render_evidence(rows: Iterable[EvidenceRow]) -> bytes:
    """``evidence.jsonl``: one rollout on each line, in order, with every key."""
    return b"".join(to_json(row) + b"\n" for row in rows)


def build_schema() -> dict[str, Json]:
    """JSON Schema (2020-12) of ``diagnostics.json``; descriptions are the docstrings of the classes."""
    generated = msgspec.json.schema(NightReport)
    definitions = {name: _close(definition) for name, definition in generated["$defs"].items()}
    night = definitions.pop("NightReport")
    night["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **night,
        "title": "diagnostics.json of SkillOpt-Sleep",
        "$defs": definitions,
    }


def render_schema() -> bytes:
    """Return the schema as the file that is published in docs/."""
    return msgspec.json.format(msgspec.json.encode(build_schema()), indent=2) + b"\n"


def _close(definition: dict[str, Any]) -> dict[str, Any]:
    """Put the description on one line; make an object require every key and allow no other."""
    closed = {**definition, "description": " ".join(definition["description"].replace("``", "`").split())}
    if "properties" in definition:
        properties = {
            name: {keyword: value for keyword, value in keywords.items() if keyword != "default"}
            for name, keywords in definition["properties"].items()
        }
        closed |= {"properties": properties, "required": list(properties), "additionalProperties": False}
    return closed
