"""The evidence of a night: one row for each rollout, so that every figure of a report can be traced and recounted."""

from __future__ import annotations

from msgspec import Struct

from skillopt_sleep.domain.task import Split

__all__ = ["EvidenceRow"]

SCHEMA_VERSION = 1


class EvidenceRow(Struct, frozen=True, kw_only=True):
    """One rollout. ``hard`` and ``soft`` are None where transport lost it; ``call_error`` says how.

    ``candidate`` is the digest of the documents that the agent had in front of it, ``sample`` numbers repeated
    rollouts from 0, ``latency`` is in seconds. ``words`` are the person's own that the task stands on.
    """

    schema_version: int = SCHEMA_VERSION
    night: str
    phase: str = ""
    task_id: str
    split: Split
    candidate: str
    sample: int
    hard: float | None
    soft: float | None
    rationale: str
    response_head: str
    call_error: str
    latency: float
    words: tuple[str, ...]
