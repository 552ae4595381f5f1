"""The rule that says whether a candidate is better; pure, and apart from running the trial."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import fsum

from msgspec import Struct

__all__ = ["MIN_MEASURED_SHARE", "Decision", "GateMode", "Pair", "Verdict", "decide_strict"]

MIN_MEASURED_SHARE = 0.8
"""Below this share of measured pairs nothing is decided: what transport lost may be what mattered."""


class Verdict(enum.StrEnum):
    """What a night can say about an edit."""

    ACCEPT = "accept"
    REJECT = "reject"
    UNDECIDED = "undecided"
    UNMEASURED = "unmeasured"


class GateMode(enum.StrEnum):
    """How edits are let through: many pairs, the paper's rule on two means, or every edit, val not scored."""

    PAIRED = "paired"
    STRICT = "strict"
    OFF = "off"


class Pair(Struct, frozen=True, kw_only=True):
    """One val task under baseline and candidate, each one number under the gate metric; None = lost by transport."""

    task_id: str
    baseline: float | None
    candidate: float | None

    @property
    def measured(self) -> bool:
        """Whether both arms came back."""
        return self.baseline is not None and self.candidate is not None


class Decision(Struct, frozen=True, kw_only=True):
    """A verdict with its numbers. Means are over measured pairs, None where there were none."""

    verdict: Verdict
    why: str
    baseline: float | None = None
    candidate: float | None = None
    pairs: int = 0
    measured: int = 0
    wins: int = 0
    losses: int = 0


def decide_strict(pairs: Sequence[Pair]) -> Decision:
    """Accept when the candidate's mean over the measured pairs is strictly above the baseline's.

    This is the rule of the SkillOpt paper: one noisy measurement of each arm. It has no stated error rate.
    Without pairs the verdict is undecided; with under ``MIN_MEASURED_SHARE`` of them measured, unmeasured.
    """
    if not pairs:
        return Decision(verdict=Verdict.UNDECIDED, why="there are no validation tasks apart from the training ones")
    measured = [(p.baseline, p.candidate) for p in pairs if p.baseline is not None and p.candidate is not None]
    if len(measured) < MIN_MEASURED_SHARE * len(pairs):
        return Decision(
            verdict=Verdict.UNMEASURED,
            why=f"only {len(measured)} of {len(pairs)} validation pairs could be measured",
            pairs=len(pairs),
            measured=len(measured),
        )
    baseline = fsum(base for base, _ in measured) / len(measured)
    candidate = fsum(new for _, new in measured) / len(measured)
    better = candidate > baseline
    return Decision(
        verdict=Verdict.ACCEPT if better else Verdict.REJECT,
        why=f"validation mean {baseline:.3f} -> {candidate:.3f} over {len(measured)} tasks",
        baseline=baseline,
        candidate=candidate,
        pairs=len(pairs),
        measured=len(measured),
        wins=sum(new > base for base, new in measured),
        losses=sum(new < base for base, new in measured),
    )
