"""The account of a person's nights: how many edits were tried, how many accepted, how many of those by chance.

The evidence of a night: one row for each rollout, so that every figure of a report can be traced and recounted.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.gate.rule import Verdict, exact_error, expected_false, stricter, threshold
from skillopt_sleep.model.rollout import ReplayResult
from skillopt_sleep.model.task import Origin, Split, TaskRecord

ALPHA = 0.05
STRICT_ALPHA = 0.02
"""What new edits are held to while chance may account for too many of the accepted ones; auto-adopt always."""


class Tried(Struct, frozen=True, kw_only=True):
    """One edit that was tried: the score that would have accepted it, and what came of it so far."""

    id: str
    night: str
    k: int
    verdict: Verdict


class Account(Struct, frozen=True, kw_only=True):
    """``by_chance`` bounds the accepts that are expected to be wrong; ``k`` is what the next new edit needs."""

    tried: int = 0
    accepted: int = 0
    by_chance: float = 0.0
    k: int = threshold(ALPHA)


def add_up(tried: Sequence[Tried]) -> Account:
    """The account of these edits."""
    accepted = sum(each.verdict is Verdict.ACCEPT for each in tried)
    by_chance = expected_false(exact_error(each.k) for each in tried)
    alpha = STRICT_ALPHA if stricter(accepted, by_chance) else ALPHA
    return Account(tried=len(tried), accepted=accepted, by_chance=round(by_chance, 4), k=threshold(alpha))


def score_needed(total: Account, alpha: float = ALPHA, *, by_itself: bool = False) -> int:
    """The score that accepts the next new edit: what was asked for or what the account asks for, the higher of both.

    ``by_itself``: what is accepted is to be adopted without a question, which takes more. Raises ValueError for an
    ``alpha`` that is no chance.
    """
    return max(total.k, threshold(alpha), threshold(STRICT_ALPHA) if by_itself else 0)


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
