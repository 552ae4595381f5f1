"""Records what was tried: trials, their evidence rows, and the account of accepted edits and of those by chance.

The account of a person's nights decides which score the next new edit needs. An evidence row records one rollout, so
that every figure of a report can be traced and recounted.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.gate.rule import (
    Decision,
    Result,
    Tally,
    Verdict,
    exact_error,
    expected_false_accepts,
    needs_higher_score,
    threshold,
)
from skillopt_sleep.model.rollout import ReplayResult
from skillopt_sleep.model.task import Origin, Split, TaskRecord

ALPHA = 0.05
STRICT_ALPHA = 0.02
"""The chance allowed to new edits while chance may explain too many of the accepted ones, and always by auto-adopt."""

SCHEMA_VERSION = 1
"""The version of the evidence rows."""

RESPONSE_HEAD = 600
"""Characters of a response that are kept: enough to see what a judge saw going wrong, too few to copy a file."""


class Tried(Struct, frozen=True, kw_only=True):
    """One edit that was tried."""

    id: str
    night: str
    k: int
    """The score that would have accepted it."""
    verdict: Verdict
    """What became of it so far."""


class Account(Struct, frozen=True, kw_only=True):
    """What a person's nights have tried and accepted."""

    tried: int = 0
    accepted: int = 0
    by_chance: float = 0.0
    """At most so many of the accepted edits are expected to be wrong."""
    k: int = threshold(ALPHA)
    """The score that the next new edit needs."""


def compute_account(tried: Sequence[Tried]) -> Account:
    """Compute the account of these edits."""
    accepted = sum(edit.verdict is Verdict.ACCEPT for edit in tried)
    by_chance = expected_false_accepts(exact_error(edit.k) for edit in tried)
    alpha = STRICT_ALPHA if needs_higher_score(accepted, by_chance) else ALPHA
    return Account(tried=len(tried), accepted=accepted, by_chance=round(by_chance, 4), k=threshold(alpha))


def score_needed(total: Account, alpha: float = ALPHA, *, by_itself: bool = False) -> int:
    """Return the score that accepts the next new edit: the one asked for or the account's, whichever is higher.

    ``by_itself``: what is accepted is adopted without a question, which takes more. Raises ValueError for an ``alpha``
    outside of 0 to 1.
    """
    return max(total.k, threshold(alpha), threshold(STRICT_ALPHA) if by_itself else 0)


class Arm(enum.StrEnum):
    """Which documents the agent had in front of it: the live ones, or the proposed ones."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


class Position(Struct, frozen=True, kw_only=True):
    """How often a judge that saw both answers of a pair in one call preferred the first or the second place."""

    first: int = 0
    second: int = 0
    ties: int = 0

    def __add__(self, other: Position) -> Position:
        return Position(first=self.first + other.first, second=self.second + other.second, ties=self.ties + other.ties)

    @property
    def judged(self) -> int:
        """The number of such pairs."""
        return self.first + self.second + self.ties

    @property
    def chance(self) -> float:
        """The probability that a judge without a taste for a place splits its verdicts at least as unevenly."""
        return chance_as_uneven(self.first, self.second)


class Trial(Struct, frozen=True, kw_only=True):
    """Both arms of a comparison, pair by pair, and the decision."""

    decision: Decision
    baseline: tuple[ReplayResult, ...]
    candidate: tuple[ReplayResult, ...]
    improved: tuple[str, ...] = ()
    """Ids of tasks that won a pair tonight."""
    worsened: tuple[str, ...] = ()
    """Ids of tasks that lost a pair tonight."""
    confirmed_regressions: tuple[str, ...] = ()
    """Of an accepted edit: tasks that lost tonight and twice more."""
    unconfirmed: tuple[str, ...] = ()
    """Of an accepted edit: tasks that lost tonight and could not be replayed again."""
    losses_before: int = 0
    """Of an accepted edit: pairs lost in earlier nights, which are not replayed again."""
    tally: Tally | None = None
    """The pairs over the edit's whole life, under the paired rule."""
    k: int | None = None
    cut: str = ""
    """The cap that ended the trial for tonight, "" for none."""
    results: tuple[Result | None, ...] = ()
    """The outcome of each pair, None where transport lost it."""
    firsts: tuple[Arm | None, ...] = ()
    """The arm a judge saw first, None where no call showed it both answers."""

    @property
    def position(self) -> Position:
        """Which place won, among the pairs whose answers a judge saw in one call."""
        seen = zip(self.firsts, self.results, strict=True)
        judged = [(first, result) for first, result in seen if first is not None and result is not None]
        decided = [(first, result) for first, result in judged if result is not Result.TIE]
        won = sum((first is Arm.CANDIDATE) is (result is Result.WIN) for first, result in decided)
        return Position(first=won, second=len(decided) - won, ties=len(judged) - len(decided))

    @property
    def measured(self) -> tuple[str, ...]:
        """The ids of the tasks with at least one measured pair."""
        pairs = zip(self.baseline, self.candidate, strict=True)
        return tuple(dict.fromkeys(old.task_id for old, new in pairs if old.score and new.score))


class EvidenceRow(Struct, frozen=True, kw_only=True):
    """One rollout."""

    schema_version: int = SCHEMA_VERSION
    night: str
    phase: str
    task_id: str
    split: Split
    arm: Arm
    candidate: str
    """The digest of the documents."""
    sample: int
    """Numbers repeated rollouts of a task from 0."""
    hard: float | None
    """None, like ``soft`` and ``rationale``, when transport lost the rollout."""
    soft: float | None
    rationale: str | None
    response_head: str
    response_len: int
    """Characters of the whole response."""
    call_error: str
    """How transport lost the rollout; "" when it did not."""
    latency: float
    """Seconds."""
    origins: tuple[Origin, ...]
    """The sessions, and the person's own words, that the task comes from."""
    judged_first: Arm | None = None
    """On the candidate's row: the arm whose answer the judge saw first; None when no call showed both answers."""


def evidence_row(
    task: TaskRecord, result: ReplayResult, *, night: str, phase: str, split: Split, arm: Arm
) -> EvidenceRow:
    """Build the row of one rollout of ``task``."""
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


def chance_as_uneven(one: int, other: int) -> float:
    """Compute how often fair coins fall at least as unevenly: the two-sided exact binomial test."""
    n = one + other
    tail = sum(math.comb(n, i) for i in range(min(one, other) + 1))
    return min(1.0, 2 * tail * 0.5**n)
