"""Checks the measurement itself: how noisy replays are, whether they are biased, and which gain could be shown.

Two replays of a task under the same documents and model are what a candidate that changes nothing would get. How often
those of different nights differ is the noise that a real edit has to stand out from; if the later one is better more
often than by chance, so is the arm that is replayed later. Replays of one night may share more (the hour, the load of
the service), so they are counted apart. The answer a judge is shown first is drawn by lot, so it must win half of the
decided pairs. ``smallest_detectable_gain`` adds up the chances of the exact rule; nothing is simulated, because a
trial has only a few dozen states (score and losses). See docs/gate.md.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from skillopt_sleep.gate.account import Position, chance_as_uneven
from skillopt_sleep.gate.rule import (
    PAIRS_A_LIFE,
    Verdict,
    compare_scores,
    decide,
    margin_for,
    may_start_round,
    next_pairs,
)
from skillopt_sleep.gate.tally import Result, Tally
from skillopt_sleep.model.call import Spend
from skillopt_sleep.model.rollout import GateMetric, Score, combine

ENOUGH = 10
"""Replays repeated on another night from which their noise is a usable figure."""

SUSPICIOUS = 0.01
"""A chance below which a bias is no longer put down to luck."""

ON_REQUEST = "audit-"
"""Prefix of the name of an A/A test run on request, before the moment that names every night."""

WEEK = 7

RELIABLY = 0.8
"""The chance of acceptance from which a gain counts as one that can be shown."""

MOST_DIFFER = 0.5
"""Largest share of pass-or-fail replay pairs that can differ; it is reached at a pass rate of one half."""

State = tuple[int, int]
"""Score and losses of a trial; the wins follow from them."""


class BaseReplay(Struct, frozen=True, kw_only=True):
    """One measured replay of a task under documents that were live."""

    task: str
    night: str
    base: str
    """The digest of the documents."""
    model: str
    phase: str
    """What it was made for, train or val; the two are judged in different ways."""
    sample: int
    """Numbers the replays of a task within a night."""
    hard: float
    soft: float

    def value(self, metric: GateMetric, mixed_weight: float) -> float:
        """Return the one number that the gate compares."""
        return combine(Score(hard=self.hard, soft=self.soft), metric, mixed_weight)


class NoiseReport(Struct, frozen=True, kw_only=True):
    """What repeated replays say about the measurement. Shares lie in [0, 1] and are None where nothing was repeated."""

    repeats: int = 0
    """Nights beyond the first in which a task was replayed, summed over the tasks."""
    tasks: int = 0
    differ: float | None = None
    """How often two replays of a task differ beyond the margin of the gate."""
    flips: float | None = None
    """How often one of two replays passes and the other fails."""
    sd: float | None = None
    """Standard deviation of the score of one task."""
    later_better: int = 0
    """Pairs of an earlier and a later replay in which the later one won."""
    later_worse: int = 0
    position: Position = Position()
    val_tasks: int = 0
    k: int = 0
    """The score that accepts an edit."""
    tonight: int | None = None
    """Smallest gain, in percentage points, that is accepted tonight with a chance of 80 %; None when none is."""
    in_a_week: int | None = None
    """The same for a week of nights."""
    repeats_same_night: int = 0
    differ_same_night: float | None = None
    """``differ`` for two replays within one night."""

    @property
    def known(self) -> bool:
        """Whether enough was repeated to state the noise."""
        return self.differ is not None and self.repeats >= ENOUGH

    @property
    def drift(self) -> float:
        """How often equally good replays are split as unevenly between the earlier and the later."""
        return chance_as_uneven(self.later_better, self.later_worse)


class AATest(Struct, frozen=True, kw_only=True):
    """A trial of your files against themselves, so that nothing but noise could tell the two arms apart."""

    tasks: int
    tally: Tally
    k: int
    """The score that would have accepted it."""
    verdict: Verdict
    why: str
    spend: Spend
    audit: NoiseReport
    """What all replays say by now, these among them."""


def measure_noise(
    replays: Iterable[BaseReplay],
    position: Position,
    *,
    metric: GateMetric,
    mixed_weight: float,
    val_tasks: int,
    k: int,
) -> NoiseReport:
    """Estimate the noise, look for a bias, and compute which gain could be shown.

    Tasks weigh by the replays they have beyond the first. Pairs of an earlier and a later replay share no replay, so
    they count as independent coins. Without val tasks, or with too few repeats, no gain is stated.
    """
    same_night, alike = _group_repeats(replays)
    repeats = sum(len(group) - 1 for group in alike)

    def compare(earlier: BaseReplay, later: BaseReplay) -> Result:
        before, after = earlier.value(metric, mixed_weight), later.value(metric, mixed_weight)
        return compare_scores(before, after, margin_for(metric))

    def differs(one: BaseReplay, other: BaseReplay) -> bool:
        return compare(one, other) is not Result.TIE

    later = [compare(one, other) for group in alike for one, other in _pair_up(group)]
    differ = _share(alike, differs)
    known = differ is not None and repeats >= ENOUGH and val_tasks > 0
    return NoiseReport(
        repeats=repeats,
        tasks=len({group[0].task for group in alike}),
        differ=differ,
        flips=_share(alike, lambda one, other: one.hard != other.hard),
        sd=_deviation([[replay.value(metric, mixed_weight) for replay in group] for group in alike]),
        later_better=later.count(Result.WIN),
        later_worse=later.count(Result.LOSS),
        position=position,
        val_tasks=val_tasks,
        k=k,
        tonight=smallest_detectable_gain(differ, val_tasks, k) if known and differ is not None else None,
        in_a_week=smallest_detectable_gain(differ, val_tasks, k, nights=WEEK) if known and differ is not None else None,
        repeats_same_night=sum(len(group) - 1 for group in same_night),
        differ_same_night=_share(same_night, differs),
    )


def _group_repeats(replays: Iterable[BaseReplay]) -> tuple[list[list[BaseReplay]], list[list[BaseReplay]]]:
    """Group replays that differ by luck alone, in order: those within one night, and the first of each night.

    Groups have two replays or more. Within a night only val counts: equal training answers are judged once.
    """
    groups: defaultdict[tuple[str, str, str, str], list[BaseReplay]] = defaultdict(list)
    for replay in replays:
        groups[replay.task, replay.base, replay.model, replay.phase].append(replay)
    nights = [
        [[*night] for _, night in itertools.groupby(sorted(group, key=_moment), key=lambda replay: replay.night)]
        for group in groups.values()
    ]
    within = [night for group in nights for night in group if len(night) > 1 and night[0].phase == "val"]
    return within, [[night[0] for night in group] for group in nights if len(group) > 1]


def _moment(replay: BaseReplay) -> tuple[str, str, int]:
    """Sort key by time: a night is named by when it began, an A/A test by that after ``ON_REQUEST``."""
    return replay.night.removeprefix(ON_REQUEST), replay.night, replay.sample


def _pair_up(group: Sequence[BaseReplay]) -> Iterable[tuple[BaseReplay, BaseReplay]]:
    """Pair the first half with the second, so each replay is in one pair only and a slow drift shows."""
    half = len(group) // 2
    return zip(group[:half], group[len(group) - half :], strict=True)


def _share(alike: Sequence[Sequence[BaseReplay]], holds: Callable[[BaseReplay, BaseReplay], bool]) -> float | None:
    """Compute how often ``holds`` is true of two replays of a task: the mean over all its pairs, unbiased per task."""
    if not alike:
        return None
    shares = [_mean([holds(one, other) for one, other in itertools.combinations(group, 2)]) for group in alike]
    weights = [len(group) - 1 for group in alike]
    return round(math.fsum(map(math.prod, zip(shares, weights, strict=True))) / sum(weights), 4)


def _deviation(alike: Sequence[Sequence[float]]) -> float | None:
    """Compute the standard deviation within a task, pooled over tasks."""
    freedom = sum(len(group) - 1 for group in alike)
    if not freedom:
        return None
    means = [_mean(group) for group in alike]
    squares = ((value - mean) ** 2 for group, mean in zip(alike, means, strict=True) for value in group)
    return round(math.sqrt(math.fsum(squares) / freedom), 4)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)  # the module statistics takes longer to import than `status` may


# --- the gain that could be shown ---------------------------------------------------------------------------------


def smallest_detectable_gain(differ: float, tasks: int, k: int, *, nights: int = 1) -> int | None:
    """Find the smallest gain, in percentage points, that is accepted with a chance of ``RELIABLY``; None when none is.

    ``differ`` is how often two replays under the same documents differ. After its first night an edit gets pairs of
    half of the tasks, because it waits while others are tried. Several nights show no more than all pairs of a life.
    """

    def reliable(points: int) -> bool:
        win, loss = pair_rates(differ, points / 100)
        within = chance_in_pairs(win, loss, k, PAIRS_A_LIFE)
        return (
            within >= RELIABLY and chance_in_nights(nights, win, loss, k, tasks, later=max(tasks // 2, 1)) >= RELIABLY
        )

    low, high = 0, math.ceil(100 * (1 - _pass_rate(differ)))
    if not tasks or not reliable(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reliable(middle) else (middle, high)
    return high


def pair_rates(differ: float, gain: float) -> tuple[float, float]:
    """Compute how often a pair is won, and lost, by an edit that lifts the pass rate of such tasks by ``gain``.

    A task that passes with the chance p differs from itself 2p(1 - p) of the time; of the two solutions the lower p
    counts, because above it there is less to gain. Grades may differ more often than any p explains: then half of the
    differing pairs are won and half lost, shifted by half of the gain.
    """
    if differ > MOST_DIFFER:
        return min((differ + gain) / 2, 1.0), max((differ - gain) / 2, 0.0)
    base = _pass_rate(differ)
    new = min(base + gain, 1.0)
    return (1 - base) * new, base * (1 - new)


def _pass_rate(differ: float) -> float:
    return 0.0 if differ > MOST_DIFFER else (1 - math.sqrt(1 - 2 * differ)) / 2


def chance_in_nights(nights: int, win: float, loss: float, k: int, tasks: int, *, later: int | None = None) -> float:
    """Compute the chance that a new edit is accepted within ``nights`` of ``tasks`` val tasks, undisturbed by others.

    ``win`` and ``loss`` are the chances of a pair; ``later`` is the number of tasks from the second night on. Each
    night runs as a trial does, pair by pair and round by round. The limit of pairs in a life is not applied: see
    ``chance_in_pairs``.
    """
    open_: Mapping[State, float] = {(0, 0): 1.0}
    accepted = 0.0
    for night in range(nights):
        open_, gained = _night(open_, win, loss, k, tasks if later is None or not night else later)
        accepted += gained
    return accepted


def chance_in_pairs(win: float, loss: float, k: int, pairs: int) -> float:
    """Compute the chance that an edit is accepted within ``pairs``, in as many nights as they take."""
    open_: Mapping[State, float] = {(0, 0): 1.0}
    accepted = 0.0
    for _ in range(pairs):
        open_, gained = _after_a_pair(open_, win, loss, k)
        accepted += gained
    return accepted


def _night(
    begun: Mapping[State, float], win: float, loss: float, k: int, tasks: int
) -> tuple[Mapping[State, float], float]:
    """Return the open states after one night, with their chances, and the chance of acceptance in it."""
    waiting = begun
    over: list[Mapping[State, float]] = []
    accepted = 0.0
    pairs = 0
    while waiting:
        under_way: dict[int, Mapping[State, float]] = {0: waiting}  # by the pairs already begun
        for left in range(tasks, 0, -1):
            stopped, under_way = _begin_pairs(under_way, k, pairs, left)
            over.append(stopped)
            after: dict[int, Mapping[State, float]] = {}
            for promised, states in under_way.items():
                after[promised - 1], gained = _after_a_pair(states, win, loss, k)
                accepted += gained
            under_way = after
            pairs += 1
        ended = _merge([*under_way.values()])
        waiting = {state: chance for state, chance in ended.items() if may_start_round(_tally(state), pairs)}
        over.append({state: chance for state, chance in ended.items() if state not in waiting})
    return _merge(over), accepted


def _begin_pairs(
    under_way: Mapping[int, Mapping[State, float]], k: int, pairs: int, left: int
) -> tuple[Mapping[State, float], dict[int, Mapping[State, float]]]:
    """Split states into those that stop for tonight and those with pairs running, by how many still run."""
    by_size: defaultdict[int, list[Mapping[State, float]]] = defaultdict(list)
    for promised, states in under_way.items():
        if promised:
            by_size[promised].append(states)
            continue
        for state, chance in states.items():
            by_size[next_pairs(_tally(state), k, pairs_tonight=pairs, left=left)].append({state: chance})
    stopped = _merge(by_size.pop(0, []))
    return stopped, {size: _merge(states) for size, states in by_size.items()}


def _merge(parts: Sequence[Mapping[State, float]]) -> dict[State, float]:
    whole: defaultdict[State, float] = defaultdict(float)
    for part in parts:
        for state, chance in part.items():
            whole[state] += chance
    return whole


def _after_a_pair(open_: Mapping[State, float], win: float, loss: float, k: int) -> tuple[Mapping[State, float], float]:
    """Return the open states after one more pair, and the chance of acceptance by it."""
    after: defaultdict[State, float] = defaultdict(float)
    accepted = 0.0
    for (score, losses), chance in open_.items():
        after[score, losses] += chance * (1 - win - loss)
        for state, share in (((score + 1, losses), win), ((score - 2, losses + 1), loss)):
            match _decide(state, k):
                case Verdict.UNDECIDED:
                    after[state] += chance * share
                case Verdict.ACCEPT:
                    accepted += chance * share
                case _:
                    pass
    return after, accepted


@functools.lru_cache(maxsize=10_000)
def _decide(state: State, k: int) -> Verdict:
    """Decide on a state; one computation meets each of them thousands of times."""
    return decide(_tally(state), k)


@functools.lru_cache(maxsize=10_000)
def _tally(state: State) -> Tally:
    score, losses = state
    return Tally(wins=score + 2 * losses, losses=losses)
