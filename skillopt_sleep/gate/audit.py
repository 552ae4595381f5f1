"""The audit: whether the assumptions of the verdict hold, from replays that were made anyway.

Two replays of one task under the same documents and model are what a candidate that changes nothing would get. How
often those of different nights differ is the noise that a real edit has to stand out from; if the later of them did
better or worse more often than chance has it, then so would the arm that is replayed later. Those of one night may
share more than the documents, the hour and the service's load, so they are counted apart. And which answer of a pair
the judge was shown first is drawn by lot, so the one shown first must win half of what is decided.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from skillopt_sleep.gate.power import detectable
from skillopt_sleep.gate.rule import Result, Tally, Verdict, judge_pair, margin_for
from skillopt_sleep.model.call import Spend
from skillopt_sleep.model.rollout import GateMetric, Score, combine

ENOUGH = 10
"""Replays repeated on another night from which their noise is a figure to go by."""

SUSPICIOUS = 0.01
"""A chance under which "by luck" is no longer said."""

ON_REQUEST = "audit-"
"""What the name of a trial on request begins with, before the moment that names every night."""

WEEK = 7


class BaseReplay(Struct, frozen=True, kw_only=True):
    """One measured replay of a task under documents that were live.

    ``base`` is the digest of the documents; ``phase`` is what it was made for (train or val: they are judged in
    different ways); ``sample`` numbers replays of a task within a ``night``. ``hard`` and ``soft`` are its score.
    """

    task: str
    night: str
    base: str
    model: str
    phase: str
    sample: int
    hard: float
    soft: float

    def value(self, metric: GateMetric, mixed_weight: float) -> float:
        """The one number that a gate compares."""
        return combine(Score(hard=self.hard, soft=self.soft), metric, mixed_weight)


class Position(Struct, frozen=True, kw_only=True):
    """Pairs whose two answers a judge saw in one call, by the place of the answer that won."""

    first: int = 0
    second: int = 0
    ties: int = 0

    def __add__(self, other: Position) -> Position:
        return Position(first=self.first + other.first, second=self.second + other.second, ties=self.ties + other.ties)

    @property
    def judged(self) -> int:
        """How many pairs were judged so."""
        return self.first + self.second + self.ties

    @property
    def chance(self) -> float:
        """How often a judge who does not mind the order decides at least as unevenly."""
        return chance_as_uneven(self.first, self.second)


class Audit(Struct, frozen=True, kw_only=True):
    """What the replays say of the measurement itself. Shares lie in [0, 1] and are None where nothing was repeated.

    ``repeats`` counts nights beyond the first in which a task was replayed, over ``tasks`` tasks. ``differ`` is how
    often two of them differ beyond the margin of the gate, ``flips`` how often one passes and the other fails, ``sd``
    the standard deviation of the score of one task. Of pairs of an earlier and a later replay, ``later_better`` and
    ``later_worse`` differ. ``tonight`` and ``in_a_week`` are the smallest gains, in points of a hundred, that an edit
    must bring to be accepted with a chance of 80 % with ``val_tasks`` tasks at the score ``k``; None where no gain is
    large enough, or the noise is not known. ``differ_same_night`` is the same of two replays within one night, of
    which there are ``repeats_same_night`` beyond the first.
    """

    repeats: int = 0
    tasks: int = 0
    differ: float | None = None
    flips: float | None = None
    sd: float | None = None
    later_better: int = 0
    later_worse: int = 0
    position: Position = Position()
    val_tasks: int = 0
    k: int = 0
    tonight: int | None = None
    in_a_week: int | None = None
    repeats_same_night: int = 0
    differ_same_night: float | None = None

    @property
    def known(self) -> bool:
        """Whether enough was repeated to speak of noise."""
        return self.differ is not None and self.repeats >= ENOUGH

    @property
    def drift(self) -> float:
        """How often replays of equal worth come out as unevenly between the earlier and the later."""
        return chance_as_uneven(self.later_better, self.later_worse)


class NullTrial(Struct, frozen=True, kw_only=True):
    """A trial whose candidate was the baseline, byte for byte, so that nothing but noise could tell them apart.

    ``k`` is the score that would have accepted it. ``audit`` is what all replays say by now, these among them.
    """

    tasks: int
    tally: Tally
    k: int
    verdict: Verdict
    why: str
    spend: Spend
    audit: Audit


def audit(
    replays: Iterable[BaseReplay],
    position: Position,
    *,
    metric: GateMetric,
    mixed_weight: float,
    val_tasks: int,
    k: int,
) -> Audit:
    """Estimate the noise, look for a bias, and say what gain could be shown.

    Tasks weigh by the replays they have beyond the first. Pairs of an earlier and a later replay share no replay, so
    their counts are those of independent coins. With no val tasks, or too few repeats, nothing is said of gains.
    """
    same_night, alike = _repeated(replays)
    repeats = sum(len(group) - 1 for group in alike)

    def compared(earlier: BaseReplay, later: BaseReplay) -> Result:
        before, after = (each.value(metric, mixed_weight) for each in (earlier, later))
        return judge_pair(before, after, margin_for(metric))

    def differs(one: BaseReplay, other: BaseReplay) -> bool:
        return compared(one, other) is not Result.TIE

    later = [compared(one, other) for group in alike for one, other in _in_twos(group)]
    differ = _share(alike, differs)
    known = differ is not None and repeats >= ENOUGH and val_tasks > 0
    return Audit(
        repeats=repeats,
        tasks=len({group[0].task for group in alike}),
        differ=differ,
        flips=_share(alike, lambda one, other: one.hard != other.hard),
        sd=_deviation([[each.value(metric, mixed_weight) for each in group] for group in alike]),
        later_better=later.count(Result.WIN),
        later_worse=later.count(Result.LOSS),
        position=position,
        val_tasks=val_tasks,
        k=k,
        tonight=detectable(differ, val_tasks, k) if known and differ is not None else None,
        in_a_week=detectable(differ, val_tasks, k, nights=WEEK) if known and differ is not None else None,
        repeats_same_night=sum(len(group) - 1 for group in same_night),
        differ_same_night=_share(same_night, differs),
    )


def chance_as_uneven(one: int, other: int) -> float:
    """How often fair coins fall at least as unevenly: the two-sided exact binomial test."""
    n = one + other
    tail = sum(math.comb(n, i) for i in range(min(one, other) + 1))
    return min(1.0, 2 * tail * 0.5**n)


def _repeated(replays: Iterable[BaseReplay]) -> tuple[list[list[BaseReplay]], list[list[BaseReplay]]]:
    """Replays that differ by luck alone, in the order they were made: those within a night, and one of each night.

    Only where there are two or more. Within a night only those of val: equal answers that teach are judged once.
    """
    groups: defaultdict[tuple[str, str, str, str], list[BaseReplay]] = defaultdict(list)
    for each in replays:
        groups[each.task, each.base, each.model, each.phase].append(each)
    nights = [
        [[*each] for _, each in itertools.groupby(sorted(group, key=_moment), key=lambda each: each.night)]
        for group in groups.values()
    ]
    within = [night for each in nights for night in each if len(night) > 1 and night[0].phase == "val"]
    return within, [[night[0] for night in each] for each in nights if len(each) > 1]


def _moment(replay: BaseReplay) -> tuple[str, str, int]:
    """Sorts by time: a night is named by when it began, and one on request by that behind ``ON_REQUEST``."""
    return replay.night.removeprefix(ON_REQUEST), replay.night, replay.sample


def _in_twos(group: Sequence[BaseReplay]) -> Iterable[tuple[BaseReplay, BaseReplay]]:
    """An earlier and a later replay, each in one pair only, the first half with the second, to show what creeps."""
    half = len(group) // 2
    return zip(group[:half], group[len(group) - half :], strict=True)


def _share(alike: Sequence[Sequence[BaseReplay]], holds: Callable[[BaseReplay, BaseReplay], bool]) -> float | None:
    """Of two replays of a task, how often that holds: the mean over all its pairs, which for one task is unbiased."""
    if not alike:
        return None
    shares = [_mean([holds(one, other) for one, other in itertools.combinations(group, 2)]) for group in alike]
    weights = [len(group) - 1 for group in alike]
    return round(math.fsum(map(math.prod, zip(shares, weights, strict=True))) / sum(weights), 4)


def _deviation(alike: Sequence[Sequence[float]]) -> float | None:
    """The standard deviation within a task, pooled over tasks."""
    freedom = sum(len(group) - 1 for group in alike)
    if not freedom:
        return None
    means = [_mean(group) for group in alike]
    squares = ((value - mean) ** 2 for group, mean in zip(alike, means, strict=True) for value in group)
    return round(math.sqrt(math.fsum(squares) / freedom), 4)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)  # the module statistics takes longer to import than `status` may
