"""The evidence of a night: one row for each rollout, so that every figure of a report can be traced and recounted."""

from __future__ import annotations

import enum

from msgspec import Struct

from skillopt_sleep.domain.rollout import ReplayResult
from skillopt_sleep.domain.task import Origin, Split, TaskRecord

__all__ = ["Arm", "EvidenceRow", "evidence_row"]

SCHEMA_VERSION = 1

RESPONSE_HEAD = 600
"""Characters of a response that are kept: enough to see what a judge saw going wrong, too few to copy a file."""


class Arm(enum.StrEnum):
    """Which documents the agent had in front of it: the live ones, or the proposed ones."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


class EvidenceRow(Struct, frozen=True, kw_only=True):
    """One rollout. ``hard``, ``soft`` and ``rationale`` are None where transport lost it; ``call_error`` says how.

    ``candidate`` is the digest of the documents, ``sample`` numbers repeated rollouts from 0, ``latency`` is in
    seconds, ``response_len`` counts the characters of the whole response. ``origins`` are the sessions and the
    person's own words that the task stands on. ``judged_first`` is on the row of a candidate's replay: the arm whose
    answer the judge was shown first, None where no call showed it both answers of the pair.
    """

    schema_version: int = SCHEMA_VERSION
    night: str
    phase: str
    task_id: str
    split: Split
    arm: Arm
    candidate: str
    sample: int
    hard: float | None
    soft: float | None
    rationale: str | None
    response_head: str
    response_len: int
    call_error: str
    latency: float
    origins: tuple[Origin, ...]
    judged_first: Arm | None = None


def evidence_row(
    task: TaskRecord, result: ReplayResult, *, night: str, phase: str, split: Split, arm: Arm
) -> EvidenceRow:
    """The row of one rollout of ``task``."""
    score = result.score
    return EvidenceRow(
        night=night,
        phase=phase,
        task_id=task.id,
        split=split,
        arm=arm,
        candidate=result.candidate,
        sample=result.sample,
        hard=score.hard if score else None,
        soft=score.soft if score else None,
        rationale=score.rationale if score else None,
        response_head=result.response[:RESPONSE_HEAD],
        response_len=len(result.response),
        call_error=result.call_error,
        latency=result.latency,
        origins=task.origins,
    )
