"""What a verdict is, the paper's rule, and the exact error of the paired one; pure, and apart from running the trial.

How pairs are counted is told in ``paired``. How often chance alone gets to a score is counted out here, and so is the
score that accepts: no constant is typed in that the formula gives.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from msgspec import Struct

__all__ = [
    "MIN_MEASURED_SHARE",
    "MOST_LOSSES",
    "Decision",
    "GateMode",
    "Pair",
    "Verdict",
    "decide_strict",
    "exact_error",
    "threshold",
]

MIN_MEASURED_SHARE = 0.8
"""Below this share of measured pairs nothing is decided: what transport lost may be what mattered."""
MOST_LOSSES = 6
"""The loss after this many drops an edit, whatever its wins."""


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
    baseline = math.fsum(base for base, _ in measured) / len(measured)
    candidate = math.fsum(new for _, new in measured) / len(measured)
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


def exact_error(k: int, most_losses: int = MOST_LOSSES) -> float:
    """The chance that an edit which helps no more than it harms ever has a score of ``k``, with so few losses.

    In the worst case a pair that is no tie is a win or a loss with equal chance. A path that reaches ``k`` after ``c``
    losses has k + 2c wins, so n = k + 3c steps, each of chance 1/2. Of the C(n, c) orders of its steps the share k/n
    has not been at ``k`` before its end: read backwards, by the cycle lemma (Dvoretzky and Motzkin 1947; Concrete
    Mathematics, section 7.5), exactly k of the n rotations of a path with steps of at most +1 that ends at k stay
    above 0. So the chance is the sum over c = 0 .. most_losses of k/n C(n, c) 2^-n. Without a limit of losses the sum
    is phi**-k, phi being the golden ratio. Being dropped at a low score, stopping and spent caps take paths away and
    can only lower it.
    """
    return math.fsum(k / n * math.comb(n, c) * 0.5**n for c in range(most_losses + 1) for n in (k + 3 * c,))


def threshold(alpha: float) -> int:
    """The lowest score whose exact error is at most ``alpha``: 6 for .05, 7 for .03, 8 for .02, 10 for .01."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is a chance between 0 and 1, not {alpha}")
    k = 1
    while exact_error(k) > alpha:
        k += 1
    return k
