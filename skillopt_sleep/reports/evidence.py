"""``evidence.jsonl``: every rollout of a night, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable

from skillopt_sleep.gate.account import EvidenceRow
from skillopt_sleep.reports.words import to_json


def render(rows: Iterable[EvidenceRow]) -> bytes:
    """The rows in their order, each with every key, each line ended."""
    return b"".join(to_json(row) + b"\n" for row in rows)
