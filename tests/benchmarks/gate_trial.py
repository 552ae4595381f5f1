"""Puts the edit of a cell through a gate, again and again: the paired rule over its nights, and two rules to compare.

The pairs are drawn, the rule is the program's own: it is asked for every verdict, for how many pairs come next and
whether there is another round, and for what missing pairs mean. What is modelled here is one edit alone on its nights,
with calls to spare, pair by pair as ``optimize/trial.py`` replays them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import accumulate
from random import Random

from skillopt_sleep.gate.rule import (
    MIN_MEASURED_SHARE,
    PAIRS_A_LIFE,
    PAIRS_A_NIGHT,
    Tally,
    Verdict,
    decide,
    explain_unmeasured,
    may_start_round,
    next_pairs,
)
from tests.benchmarks.gate_cells import GRADE_NOISE, Cell, Judge, Law, Spread, Task, law, tasks_of
from tests.benchmarks.gate_figures import Estimate, Figures, mean, share

MOST_NIGHTS = PAIRS_A_LIFE
"""Enough for all pairs of a life, one a night; an edit whose nights bring less than that is not followed any longer."""
CONFIRMING = 4
"""Replays of each task that lost under an edit which is accepted: twice more under both arms."""


def _higher(gains: Sequence[float]) -> bool:
    """Whether the candidate's mean is higher at all."""
    return math.fsum(gains) > 0


def _clearly_higher(gains: Sequence[float]) -> bool:
    """Whether it is higher by more than the standard error of the mean gain."""
    n = len(gains)
    centre = math.fsum(gains) / n
    return centre > 0 and centre**2 * n > math.fsum((gain - centre) ** 2 for gain in gains) / (n - 1)


MEAN_RULES: dict[str, Callable[[Sequence[float]], bool]] = {"strict": _higher, "mean + 1 se": _clearly_higher}
"""The rules on means: one look at one pair for each task, as gains of the candidate."""


Counts = tuple[int, int, int, int]
"""Wins, losses and pairs, and how many more pairs lost only the candidate than only the baseline."""


def _tally(counts: Counts) -> Tally:
    wins, losses, pairs, uneven = counts
    return Tally(wins=wins, losses=losses, ties=pairs - wins - losses, lost_candidate=uneven)


@cache
def _verdict(counts: Counts, k: int) -> Verdict:
    """The verdict of the rule, asked once."""
    return decide(_tally(counts), k)


@cache
def _next_pairs(counts: Counts, k: int, tonight: int, left: int) -> int:
    """The program's own rule, asked once."""
    return next_pairs(_tally(counts), k, pairs_tonight=tonight, left=left)


class _Trial:
    """One edit on its way through the paired gate.

    ``planned`` are the pairs replayed, measured or not, ``calls`` the target calls of the last night, retries apart.
    """

    def __init__(self, cell: Cell, laws: Iterable[Law], k: int, random: Random) -> None:
        self._k = k
        self._draw = random.random
        self._shuffle = random.shuffle
        self._laws = [(place, each.win, each.win + each.loss) for place, each in enumerate(laws)]
        self._alike = cell.spread is Spread.EVEN
        only_baseline = cell.lost_baseline * (1 - cell.lost_candidate)
        only_candidate = cell.lost_candidate * (1 - cell.lost_baseline)
        both = cell.lost_baseline * cell.lost_candidate
        self._lost_by = tuple(accumulate((only_baseline, only_candidate, both)))
        self._wins = self._losses = self._pairs = self._uneven = 0
        self._tonight = self._lost = 0
        self._worsened: set[int] = set()
        self.planned = self.calls = 0
        self.verdict = Verdict.UNDECIDED

    @property
    def is_open(self) -> bool:
        """Whether another night could decide it."""
        return self.verdict in {Verdict.UNDECIDED, Verdict.UNMEASURED} and self._pairs < PAIRS_A_LIFE

    @property
    def _counts(self) -> Counts:
        return self._wins, self._losses, self._pairs, self._uneven

    def night(self) -> None:
        """Pairs until the rule stops; an accept needs enough measured, a reject stands in any case.

        Every pair stays in the tally, but those of an accept that is not believed: the edit goes on without them.
        """
        before = self._counts
        self._tonight = self._lost = 0
        self._worsened.clear()
        self._rounds()
        self.planned += self._tonight
        self.calls = 2 * self._tonight
        self.verdict = _verdict(self._counts, self._k)
        if self.verdict is not Verdict.REJECT and self._too_little():
            if self.verdict is Verdict.ACCEPT:
                self._wins, self._losses, self._pairs, self._uneven = before
            self.verdict = Verdict.UNMEASURED
        if self.verdict is Verdict.ACCEPT:
            self.calls += CONFIRMING * len(self._worsened)

    def _rounds(self) -> None:
        """Round after round over all tasks, each in a new order, while the rule goes on."""
        while True:
            if not self._alike:
                self._shuffle(self._laws)
            left = len(self._laws)
            while size := _next_pairs(self._counts, self._k, self._tonight, left):
                self._replay(self._laws[-left:][:size])
                left -= size
            tally = _tally(self._counts)
            if decide(tally, self._k) is not Verdict.UNDECIDED or not may_start_round(tally, self._tonight):
                return

    def _replay(self, tasks: Iterable[tuple[int, float, float]]) -> None:
        """One pair of each of these tasks."""
        draw, lossy = self._draw, self._lost_by[2]
        for place, win, win_or_loss in tasks:
            self._tonight += 1
            if lossy and (self._lose() or _verdict(self._counts, self._k) is not Verdict.UNDECIDED):
                continue  # a pair that lost only one arm may itself decide, and those paid for with it count no more
            self._pairs += 1
            drawn = draw()
            if drawn < win:
                self._wins += 1
            elif drawn < win_or_loss:
                self._losses += 1
                self._worsened.add(place)

    def _lose(self) -> bool:
        """Whether transport loses this pair: one arm of it, the other, or both, by one draw."""
        drawn = self._draw()
        if drawn >= self._lost_by[2]:
            return False
        self._lost += 1
        if _verdict(self._counts, self._k) is Verdict.UNDECIDED:
            self._uneven += (self._lost_by[0] <= drawn < self._lost_by[1]) - (drawn < self._lost_by[0])
        return True

    def _too_little(self) -> str | None:
        measured = self._tonight - self._lost
        return explain_unmeasured(_tally(self._counts), self._k, planned=self._tonight, measured=measured)


def _laws(cell: Cell, random: Random) -> tuple[Law, ...]:
    return tuple(law(cell, task) for task in tasks_of(cell, random))


def simulate_paired(cell: Cell, k: int, repeats: int, seed: str) -> Figures:
    """``repeats`` edits of this cell, each followed night after night to its verdict or to the end of its life."""
    random = Random(f"{seed} paired {k} {cell}")
    laws = _laws(cell, random)
    tonight = within = life = unmeasured = 0
    pairs: list[int] = []
    calls: list[int] = []
    pairs_life: list[int] = []
    for _ in range(repeats):
        if cell.spread is Spread.RANDOM:
            laws = _laws(cell, random)
        trial = _Trial(cell, laws, k, random)
        trial.night()
        pairs.append(trial.planned)
        calls.append(trial.calls)
        tonight += trial.verdict is Verdict.ACCEPT
        unmeasured += trial.verdict is Verdict.UNMEASURED
        nights = 1
        while trial.is_open and nights < MOST_NIGHTS:
            trial.night()
            nights += 1
        pairs_life.append(trial.planned)
        life += trial.verdict is Verdict.ACCEPT
        within += trial.verdict is Verdict.ACCEPT and trial.planned <= PAIRS_A_NIGHT
    return Figures(
        rule=f"paired {k}",
        tonight=share(tonight, repeats),
        within_36=share(within, repeats),
        life=share(life, repeats),
        unmeasured=share(unmeasured, repeats),
        pairs=mean(pairs),
        pairs_life=mean(pairs_life),
        calls=mean(calls),
    )


def simulate_mean_rules(cell: Cell, repeats: int, seed: str) -> tuple[Figures, ...]:
    """The two rules on means, each looking at the same ``repeats`` measurements of every task under both arms."""
    random = Random(f"{seed} means {cell}")
    accepted = dict.fromkeys(MEAN_RULES, 0)
    unmeasured = 0
    tasks = tasks_of(cell, random)
    for _ in range(repeats):
        if cell.spread is Spread.RANDOM:
            tasks = tasks_of(cell, random)
        gains = _gains(cell, tasks, random)
        if len(gains) < MIN_MEASURED_SHARE * cell.tasks:
            unmeasured += 1
            continue
        for name, holds in MEAN_RULES.items():
            accepted[name] += holds(gains)
    looks = Estimate(value=float(cell.tasks))
    return tuple(
        Figures(
            rule=name,
            tonight=share(hits, repeats),
            within_36=share(hits, repeats),
            life=share(hits, repeats),
            unmeasured=share(unmeasured, repeats),
            pairs=looks,
            pairs_life=looks,
            calls=Estimate(value=2.0 * cell.tasks),
        )
        for name, hits in accepted.items()
    )


def _gains(cell: Cell, tasks: Iterable[Task], random: Random) -> list[float]:
    """Candidate less baseline for each task of which transport lost neither."""
    return [
        _score(cell.judge, task.candidate, cell.own_candidate, random)
        - _score(cell.judge, task.baseline, cell.own_baseline, random)
        for task in tasks
        if random.random() >= cell.lost_baseline and random.random() >= cell.lost_candidate
    ]


def _score(judge: Judge, rate: float, own: float, random: Random) -> float:
    if random.random() < own:
        return 0.0
    return float(random.random() < rate) if judge is Judge.BINARY else random.gauss(rate, GRADE_NOISE)
