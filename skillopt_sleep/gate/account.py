"""Records what was tried: trials, their evidence rows, and the account of proven rules and of those by chance.

An evidence row records one rollout, so that every figure of a report can be traced and recounted.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.gate.rule import PROMISING, Decision, Verdict, exact_error
from skillopt_sleep.gate.tally import Result, Tally
from skillopt_sleep.model.rollout import ReplayResult
from skillopt_sleep.model.task import Origin, Split, TaskRecord

ALPHA = 0.05
"""The chance allowed to a useless rule to be shown as promising."""
SURE = 0.95
"""How sure the account's sentence is: the quantile of the Poisson distribution that it prints."""

SCHEMA_VERSION = 1
"""The version of the evidence rows."""

RESPONSE_HEAD = 4_000
"""Characters of a response that are kept: enough to lay two answers side by side."""


class Tried(Struct, frozen=True, kw_only=True):
    """The life of one rule that was tried."""

    id: str
    night: str
    """The night that first tried it."""
    k: int
    """The score that proves it."""
    verdict: Verdict
    """What became of it so far."""


class Account(Struct, frozen=True, kw_only=True):
    """What a person's nights have tried and proven."""

    tried: int = 0
    accepted: int = 0
    by_chance: float = 0.0
    """The useless rules that chance proves on average: the sum of the error bounds of all rules tried."""
    k: int = PROMISING
    """The score from which a rule is promising."""
    at_most: int = 0
    """The number of useless rules among the accepted ones that is exceeded in at most 5 of 100 cases."""


def compute_account(tried: Sequence[Tried]) -> Account:
    """Compute the account of these rules; every life counts once, however often it was looked at.

    Whether a useless rule is proven is a coin with a chance of at most ``exact_error`` of its score. The number of
    rare, nearly independent events is Poisson distributed (Le Cam 1960), so the 95 % quantile for the sum of the
    bounds limits how many there are.
    """
    accepted = sum(life.verdict is Verdict.ACCEPT for life in tried)
    by_chance = math.fsum(exact_error(life.k) for life in tried)
    return Account(
        tried=len(tried),
        accepted=accepted,
        by_chance=round(by_chance, 4),
        at_most=min(accepted, find_poisson_quantile(by_chance)),
    )


def find_poisson_quantile(mean: float, share: float = SURE) -> int:
    """Return the smallest count that a Poisson variable with this mean exceeds with a chance of at most 1 - share."""
    count, chance = 0, math.exp(-mean)
    below = chance
    while below < share:
        count += 1
        chance *= mean / count
        below += chance
    return count


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
        """The number of pairs whose answers a judge saw in one call."""
        return self.first + self.second + self.ties

    @property
    def chance(self) -> float:
        """The probability that a judge without a preference for a place splits its verdicts at least as unevenly."""
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
        """How often the answer shown first, or second, won the pairs that a judge saw in one call."""
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
