"""Decides about a rule: the strict comparison of the SkillOpt paper, and the paired score with its exact error.

Everything here is pure; `trial` does the replays. A won pair counts one and a lost pair minus two; a rule that reaches
the score ``k`` is accepted. ``exact_error`` computes how often chance alone gets there; docs/gate.md has the reasons.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.gate.tally import Result, Tally
from skillopt_sleep.model.rollout import GateMetric

MIN_MEASURED_SHARE = 0.8
"""Below this share of measured pairs nothing is decided: what transport lost may be what mattered."""
PROMISING = 6
"""The score from which a rule is shown as promising: by luck in 4.96 % of useless rules."""
PROVEN = 9
"""The score that proves a rule which rests on two or more requests: by luck in 1.05 % of useless rules."""
PROVEN_ALONE = 12
"""The score that proves a rule which rests on one request: by luck in .22 % of useless rules."""
LEAST_SIZE = 8.0
"""The ``Tally.size`` (a betting fortune that starts at 1) that an accept needs, so that many small gains do not
outweigh a few large harms."""
MOST_LOSSES = 6
"""Most losses of a rule: one more drops it, whatever its wins."""
DROP = -6
"""The score at which an edit is dropped: after three losses in a row, acceptance takes twelve wins in a row."""
PAIRS_A_NIGHT = 36
PAIRS_A_LIFE = 108
"""Most pairs an edit may cost in a night (``PAIRS_A_NIGHT``) and in its life. Like every stop that is not a verdict,
they only save money."""
GO_ON_AT = 1
"""The score from which one more round in the same night is worth its price."""
PAUSE_AT = -2
"""The score at which a round that has begun is left for another night: one loss that no win makes up for.

Measured (docs/gate.md): an edit that helps and harms alike stops after six pairs in the median instead of ten; one
that lifts the pass rate from .3 to .7 is accepted in its first night in 77 of 100 cases instead of 82, and in the end
as often.
"""
GRADED_MARGIN = 0.1
"""How far two graded scores must differ to count: less is the judge's mood."""
ROUNDING = 1e-9
"""Tolerance for inexact grades such as 0.3: 0.4 - 0.3 exceeds 0.1 by rounding alone."""


class Effect(enum.StrEnum):
    """What the trial of a part shows."""

    CARRIES = "carries weight"
    HARMS = "does harm"
    NONE = "no effect seen"
    UNMEASURED = "not measured"


class Verdict(enum.StrEnum):
    """What a night can say about an edit."""

    ACCEPT = "accept"
    REJECT = "reject"
    UNDECIDED = "undecided"
    UNMEASURED = "unmeasured"


class GateMode(enum.StrEnum):
    """How edits are accepted: by pairs, by the paper's comparison of two means, or all of them untested."""

    PAIRED = "paired"
    STRICT = "strict"
    OFF = "off"


class Decision(Struct, frozen=True, kw_only=True):
    """A verdict with its numbers."""

    verdict: Verdict
    why: str
    baseline: float | None = None
    """Mean score over the measured pairs, None without any."""
    candidate: float | None = None
    pairs: int = 0
    """Pairs replayed tonight."""
    measured: int = 0
    """Pairs of which both replays came back."""
    wins: int = 0
    losses: int = 0


# --- the strict rule ----------------------------------------------------------------------------------------------


def is_strictly_better(candidate: float, current: float) -> bool:
    """Apply the rule of the SkillOpt paper: one measured mean must be above the other; a tie keeps what there is.

    The rule compares one noisy measurement with another and has no stated error rate.
    """
    return candidate > current


def is_enough_measured(measured: int, planned: int) -> bool:
    """Tell whether the replays that came back may speak for those that transport lost."""
    return measured > 0 and measured >= MIN_MEASURED_SHARE * planned


def decide_strict(pairs: Sequence[tuple[float | None, float | None]]) -> Decision:
    """Accept when the candidate's mean over the measured pairs is strictly above the baseline's.

    A pair holds the scores of a task under baseline and candidate, None where transport lost one. Without pairs the
    verdict is undecided; with too few measured ones, unmeasured.
    """
    if not pairs:
        return Decision(verdict=Verdict.UNDECIDED, why="there are no validation tasks apart from the training ones")
    measured = [(old, new) for old, new in pairs if old is not None and new is not None]
    if not is_enough_measured(len(measured), len(pairs)):
        return Decision(
            verdict=Verdict.UNMEASURED,
            why=f"only {len(measured)} of {len(pairs)} validation pairs could be measured",
            pairs=len(pairs),
            measured=len(measured),
        )
    baseline = math.fsum(base for base, _ in measured) / len(measured)
    candidate = math.fsum(new for _, new in measured) / len(measured)
    return Decision(
        verdict=Verdict.ACCEPT if is_strictly_better(candidate, baseline) else Verdict.REJECT,
        why=f"validation mean {baseline:.3f} -> {candidate:.3f} over {len(measured)} tasks",
        baseline=baseline,
        candidate=candidate,
        pairs=len(pairs),
        measured=len(measured),
        wins=sum(new > base for base, new in measured),
        losses=sum(new < base for base, new in measured),
    )


# --- the paired rule ----------------------------------------------------------------------------------------------


def exact_error(k: int, most_losses: int = MOST_LOSSES) -> float:
    """Compute the chance that a rule which helps no more than it harms ever reaches the score ``k``.

    In the worst case a pair that is no tie is won or lost with equal chance. A path that reaches ``k`` after ``c``
    losses has k + 2c wins, so n = k + 3c steps, each of chance 1/2. Of the C(n, c) orders of its steps the share k/n
    was not at ``k`` before its end: read backwards, by the cycle lemma (Dvoretzky and Motzkin 1947; Concrete
    Mathematics, section 7.5), exactly k of the n rotations of a path with steps of at most +1 that ends at k stay
    above 0. So the chance is the sum over c = 0 .. most_losses of k/n C(n, c) 2^-n. Without a limit of losses it is
    phi**-k, phi being the golden ratio. Dropping at a low score, stopping and spent caps only remove paths, so they
    can only lower the chance.
    """
    return math.fsum(k / n * math.comb(n, c) * 0.5**n for c in range(most_losses + 1) for n in (k + 3 * c,))


def threshold(alpha: float) -> int:
    """Find the lowest score whose exact error is at most ``alpha``: 6 for .05, 7 for .03, 9 for .011, 12 for .0025.

    Raises ValueError for an ``alpha`` outside of 0 to 1.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is a chance between 0 and 1, not {alpha}")
    k = 1
    while exact_error(k) > alpha:
        k += 1
    return k


def margin_for(metric: GateMetric) -> float:
    """Return how far two scores of one task must differ to count: not at all under pass or fail.

    A judge that knows only pass and fail differs by 1, or by the weight of ``hard``, and is beyond either margin.
    """
    return 0.0 if metric is GateMetric.HARD else GRADED_MARGIN


def compare_scores(baseline: float, candidate: float, margin: float) -> Result:
    """Call a pair won or lost when its scores differ by more than ``margin``, else a tie."""
    gain = candidate - baseline
    if abs(gain) <= margin + ROUNDING:
        return Result.TIE
    return Result.WIN if gain > 0 else Result.LOSS


def decide(tally: Tally, k: int) -> Verdict:
    """Accept at a score of ``k`` beyond all ``doubt``, and enough ``size``; reject at ``DROP`` or one loss too many.

    Hidden losses count among the ``MOST_LOSSES`` of an accept, because the exact error allows no more. Ask after every
    pair: the first answer that is not "undecided" holds, and no further pair is added to such a tally.
    """
    if tally.score <= DROP or tally.losses > MOST_LOSSES:
        return Verdict.REJECT
    reached = tally.score - tally.doubt >= k and tally.losses + tally.hidden <= MOST_LOSSES
    large = not tally.fortunes or tally.size >= LEAST_SIZE
    return Verdict.ACCEPT if reached and large else Verdict.UNDECIDED


def choose_threshold(requests: int) -> int:
    """Return the score that proves a rule which rests on so many different requests."""
    return PROVEN if requests > 1 else PROVEN_ALONE


def may_start_round(tally: Tally, pairs_tonight: int) -> bool:
    """Tell whether an undecided edit gets one more round tonight; ``pairs_tonight`` includes those that transport lost.

    The answer depends only on pairs already counted, which stay counted, so it cannot change the error.
    """
    return tally.score >= GO_ON_AT and pairs_tonight < PAIRS_A_NIGHT and tally.pairs < PAIRS_A_LIFE


def next_pairs(tally: Tally, k: int, *, pairs_tonight: int, left: int) -> int:
    """Return how many of the ``left`` pairs of a round to replay next, at once; 0 ends the round for tonight.

    As many run at once as could decide at the earliest, all won or all lost, so none is paid for in vain. A round is
    left at ``PAUSE_AT``, and when even winning the rest of it would not earn another: it could not be accepted tonight
    and continues another night as cheaply. Like ``may_start_round`` this cannot change the error.
    """
    if decide(tally, k) is not Verdict.UNDECIDED:
        return 0
    if pairs_tonight > 0 and (tally.score <= PAUSE_AT or tally.score + left < GO_ON_AT):
        return 0
    uneven = tally.hidden - tally.unjudged
    short = max(k + tally.doubt - tally.score, 1)
    accept = max(-(-short // 2), short - uneven, 1)  # a pair that the other arm loses takes 2 off the doubt
    soonest = min(accept, -((DROP - tally.score) // 2), MOST_LOSSES + 1 - tally.losses)
    return max(0, min(soonest, left, PAIRS_A_NIGHT - pairs_tonight, PAIRS_A_LIFE - tally.pairs))


def describe_needs(tally: Tally, k: int) -> str:
    """Say what an undecided rule lacks for acceptance if nothing gets worse: "2 more wins"."""
    wins = max(k + tally.doubt - tally.score, 0)
    if not wins and tally.fortunes and tally.size < LEAST_SIZE:
        return "larger gains"
    return f"{wins} more win" if wins == 1 else f"{wins} more wins"


def explain_unmeasured(tally: Tally, k: int, *, planned: int, measured: int) -> str | None:
    """Say why the pairs that came back may not speak for the ones that did not; None when they may.

    ``planned`` pairs were replayed tonight and ``measured`` came back whole. An arm that transport lost more often, or
    a missing verdict, matters only once the score would accept; the tally stays, and more wins may remove the doubt.
    """
    if measured < MIN_MEASURED_SHARE * planned:
        return f"only {measured} of {planned} validation pairs could be measured"
    if not tally.hidden or tally.score < k or decide(tally, k) is not Verdict.UNDECIDED:
        return None
    lost = []
    if tally.lost_candidate != tally.lost_baseline:
        lost.append(
            f"transport lost {tally.lost_candidate} replays of the candidate and {tally.lost_baseline} of the baseline"
        )
    if count := tally.unjudged:
        lost.append(f"the judge gave no readable verdict on {count} {'pair' if count == 1 else 'pairs'}")
    cause = f"{' and '.join(lost)}; if those had been losses, "
    if tally.losses + tally.hidden > MOST_LOSSES:
        return f"{cause}there would be more than {MOST_LOSSES} of them"
    return f"{cause}a score of {tally.score} would not be enough; {describe_needs(tally, k)} would decide"
