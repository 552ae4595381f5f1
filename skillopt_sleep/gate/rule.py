"""What a verdict is, the paper's rule, and the exact error of the paired one; pure, and apart from running the trial.

How pairs are counted is told in ``paired``. How often chance alone gets to a score is counted out here, and so is the
score that accepts: no constant is typed in that the formula gives.

The paired gate: a win counts one, a loss minus two, and an edit that gets six ahead is accepted.

The rule has to be believed by the person whose agent obeys its outcome, so it is one line of arithmetic. Its error is
exact, and ``verdict`` computes it, and the score that accepts, from the formula that explains them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model.rollout import GateMetric

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


def is_strictly_better(candidate: float, current: float) -> bool:
    """Apply the rule of the SkillOpt paper: one measured mean must be above the other; a tie keeps what there is.

    The rule compares one noisy measurement with another and has no stated error rate.
    """
    return candidate > current


def is_enough_measured(measured: int, planned: int) -> bool:
    """Whether the replays that came back may speak for those that transport lost."""
    return measured > 0 and measured >= MIN_MEASURED_SHARE * planned


def decide_strict(pairs: Sequence[Pair]) -> Decision:
    """Accept when the candidate's mean over the measured pairs is strictly above the baseline's.

    See ``is_strictly_better``. Without pairs the verdict is undecided; with too few measured ones, unmeasured.
    """
    if not pairs:
        return Decision(verdict=Verdict.UNDECIDED, why="there are no validation tasks apart from the training ones")
    measured = [(p.baseline, p.candidate) for p in pairs if p.baseline is not None and p.candidate is not None]
    if not is_enough_measured(len(measured), len(pairs)):
        return Decision(
            verdict=Verdict.UNMEASURED,
            why=f"only {len(measured)} of {len(pairs)} validation pairs could be measured",
            pairs=len(pairs),
            measured=len(measured),
        )
    baseline = math.fsum(base for base, _ in measured) / len(measured)
    candidate = math.fsum(new for _, new in measured) / len(measured)
    better = is_strictly_better(candidate, baseline)
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


PHI = (1 + math.sqrt(5)) / 2
"""The golden ratio: the base at which one step up and two steps down are a fair game, PHI / 2 + PHI**-2 / 2 = 1."""

DROP = -6
"""The score at which an edit is dropped: three losses in a row, after which acceptance takes twelve wins in a row."""
PAIRS_A_NIGHT = 36
PAIRS_A_LIFE = 108
"""What an edit may cost, in pairs. Caps, like every stop that is not a verdict, only save money."""
GO_ON_AT = 1
"""The score from which a further round in the same night is worth its price."""
PAUSE_AT = -2
"""The score at which a round that has begun is left for another night: one loss that no win makes up for.

An edit that helps and harms alike is left after six pairs in the median instead of ten; one that lifts the pass rate
from .3 to .7 is accepted in its first night 77 times in a hundred instead of 82, and in the end as often as without.
"""

GRADED_MARGIN = 0.1
"""How far two grades must differ to count: less is the judge's mood."""
ROUNDING = 1e-9
"""Grades are shares and decimals such as 0.3: 0.4 - 0.3 exceeds 0.1 by rounding only, and is not beyond it."""

CHANCE_SHARE = 1 / 4
"""The share of wrong accepts, expected among those accepted, above which new edits need the higher threshold."""


class Result(enum.StrEnum):
    """What one pair says of the candidate."""

    WIN = "win"
    LOSS = "loss"
    TIE = "tie"


class Lost(enum.StrEnum):
    """What is missing of a pair that says nothing: transport lost an arm or both, or the judge gave no verdict."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"
    BOTH = "both"
    VERDICT = "verdict"


class Tally(Struct, frozen=True, kw_only=True):
    """What the pairs of one edit came to, over all its nights.

    ``lost_baseline`` and ``lost_candidate`` count the pairs of which transport lost the one arm and not the other,
    ``unjudged`` those whose answers a judge had before it and gave no verdict on.
    """

    wins: int = 0
    losses: int = 0
    ties: int = 0
    lost_baseline: int = 0
    lost_candidate: int = 0
    unjudged: int = 0

    @property
    def score(self) -> int:
        """Wins, less twice the losses."""
        return self.wins - 2 * self.losses

    @property
    def hidden(self) -> int:
        """How many losses may hide among the pairs that say nothing.

        An edit that makes calls fail where its answer would have failed too is left with the pairs that speak for it;
        so is one whose worse answers a judge cannot put into a verdict. Transport that fails evenly fails both arms
        about as often, but a judge has both answers before it, so each pair that it fails on may be such a loss.
        """
        return abs(self.lost_candidate - self.lost_baseline) + self.unjudged

    @property
    def doubt(self) -> int:
        """What the score would fall by if all that may be a hidden loss was one.

        If all that sets the arms apart is hidden losses, the score less this never exceeds the true one, so its chance
        of ever reaching k is bounded as exactly.
        """
        return 2 * self.hidden

    @property
    def pairs(self) -> int:
        """How many were measured."""
        return self.wins + self.losses + self.ties

    @property
    def e(self) -> float:
        """The evidence against "it helps no more than it harms", under which its expectation never exceeds 1."""
        return float(PHI**self.score)

    @property
    def in_words(self) -> str:
        """As it is told: "6 wins, 0 losses, 1 tie"."""
        counts = ((self.wins, "win", "wins"), (self.losses, "loss", "losses"), (self.ties, "tie", "ties"))
        return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts)

    def add(self, result: Result | Lost) -> Tally:
        """The tally with one more pair."""
        match result:
            case Result.WIN:
                after = replace(self, wins=self.wins + 1)
            case Result.LOSS:
                after = replace(self, losses=self.losses + 1)
            case Result.TIE:
                after = replace(self, ties=self.ties + 1)
            case Lost.BASELINE:
                after = replace(self, lost_baseline=self.lost_baseline + 1)
            case Lost.CANDIDATE:
                after = replace(self, lost_candidate=self.lost_candidate + 1)
            case Lost.VERDICT:
                after = replace(self, unjudged=self.unjudged + 1)
            case Lost.BOTH:
                after = self
        return after


def margin_for(metric: GateMetric) -> float:
    """How far two scores of one task must differ to count, set before any is seen: nothing under pass or fail.

    A judge that knows only pass and fail differs by 1, or by the weight of ``hard``, and is beyond either margin.
    """
    return 0.0 if metric is GateMetric.HARD else GRADED_MARGIN


def judge_pair(baseline: float, candidate: float, margin: float) -> Result:
    """Win or loss when the scores differ by more than ``margin``, else a tie."""
    gain = candidate - baseline
    if abs(gain) <= margin + ROUNDING:
        return Result.TIE
    return Result.WIN if gain > 0 else Result.LOSS


def decide(tally: Tally, k: int) -> Verdict:
    """Accept at a score of ``k`` that lost pairs leave no ``doubt`` of; reject at ``DROP`` or one loss too many.

    Hidden losses count among the ``MOST_LOSSES`` that an accept may have, for the exact error counts no more. Else
    undecided. Ask after every pair: the first answer that is not "undecided" holds, and no further pair is added
    to such a tally.
    """
    if tally.score <= DROP or tally.losses > MOST_LOSSES:
        return Verdict.REJECT
    stands = tally.score - tally.doubt >= k and tally.losses + tally.hidden <= MOST_LOSSES
    return Verdict.ACCEPT if stands else Verdict.UNDECIDED


def follow(results: Iterable[Result | Lost], k: int, start: Tally = Tally()) -> Tally:  # noqa: B008 - frozen
    """The tally after these pairs, in order, or at the one that decided. Nights are ``follow`` after ``follow``."""
    tally = start
    for result in results:
        if decide(tally, k) is not Verdict.UNDECIDED:
            break
        tally = tally.add(result)
    return tally


def go_on_tonight(tally: Tally, pairs_tonight: int) -> bool:
    """Whether an undecided edit gets another round this night; ``pairs_tonight`` counts the ones transport lost too.

    Stopping looks at nothing but pairs already counted, and they stay counted: it cannot change the error.
    """
    return tally.score >= GO_ON_AT and pairs_tonight < PAIRS_A_NIGHT and tally.pairs < PAIRS_A_LIFE


def next_pairs(tally: Tally, k: int, *, pairs_tonight: int, left: int) -> int:
    """How many of the ``left`` pairs of a round to replay next, all at once; 0 when the round is over for tonight.

    At once go as many as could decide at the earliest, all won or all lost, so none is paid for in vain. A round that
    has begun is left when winning all the rest of it would not earn the edit another one: it could not be accepted
    tonight, and goes on another night, as cheaply. It is left at ``PAUSE_AT`` too. ``pairs_tonight`` counts the ones
    transport lost as well. Like ``go_on_tonight`` this looks at nothing but pairs already counted, and cannot change
    the error.
    """
    if decide(tally, k) is not Verdict.UNDECIDED:
        return 0
    if pairs_tonight > 0 and (tally.score <= PAUSE_AT or tally.score + left < GO_ON_AT):
        return 0
    apart = tally.hidden - tally.unjudged
    short = max(k + tally.doubt - tally.score, 1)
    accept = max(-(-short // 2), short - apart, 1)  # a pair lost by the other arm takes 2 off the doubt
    soonest = min(accept, -((DROP - tally.score) // 2), MOST_LOSSES + 1 - tally.losses)
    return max(0, min(soonest, left, PAIRS_A_NIGHT - pairs_tonight, PAIRS_A_LIFE - tally.pairs))


def needs(tally: Tally, k: int) -> str:
    """What an undecided edit is away from being accepted, if nothing gets worse: "2 more wins"."""
    wins = max(k + tally.doubt - tally.score, 0)
    return f"{wins} more win" if wins == 1 else f"{wins} more wins"


def too_little_measured(tally: Tally, k: int, *, planned: int, measured: int) -> str | None:
    """Why the pairs that came back may not speak for the ones that did not; None when they may.

    ``planned`` pairs were replayed tonight and ``measured`` came back whole. That transport failed one arm more often,
    or that a judge gave no verdict, matters once the score would accept: the tally stays, and more wins may yet take
    away the doubt.
    """
    if measured < MIN_MEASURED_SHARE * planned:
        return f"only {measured} of {planned} validation pairs could be measured"
    if tally.score < k or decide(tally, k) is not Verdict.UNDECIDED:
        return None
    lost = []
    if tally.lost_candidate != tally.lost_baseline:
        lost.append(
            f"transport lost {tally.lost_candidate} replays of the candidate and {tally.lost_baseline} of the baseline"
        )
    if count := tally.unjudged:
        lost.append(f"the judge gave no verdict that can be read on {count} {'pair' if count == 1 else 'pairs'}")
    said = f"{' and '.join(lost)}, and had those been losses, "
    if tally.losses + tally.hidden > MOST_LOSSES:
        return f"{said}there would be more than {MOST_LOSSES} of them"
    return f"{said}a score of {tally.score} would not stand; {needs(tally, k)} would decide"


def expected_false(alphas: Iterable[float]) -> float:
    """How many wrong accepts to expect at most, one ``alpha`` for each edit that was tried, however it ended."""
    return math.fsum(alphas)


def stricter(accepted: int, expected: float) -> bool:
    """Whether new edits need the higher threshold: chance may account for over a quarter of the accepted.

    Before the first accept that one counts as made, else nobody's second edit could be tried at the usual threshold.
    """
    return expected > CHANCE_SHARE * max(accepted, 1)
