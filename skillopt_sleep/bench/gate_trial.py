"""Puts the edit of a cell through a gate, again and again: the paired rule over its nights, and two rules to compare.

The pairs are drawn, the rule is the program's own: it is asked for every verdict, every round and every missing pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from random import Random

from skillopt_sleep.bench.gate_cells import GRADE_NOISE, Cell, Judge, Law, Spread, Task, law, tasks_of
from skillopt_sleep.bench.gate_figures import Figures, mean, share
from skillopt_sleep.domain.paired import (
    PAIRS_A_LIFE,
    PAIRS_A_NIGHT,
    Tally,
    decide,
    go_on_tonight,
    too_little_measured,
)
from skillopt_sleep.domain.verdict import MIN_MEASURED_SHARE, Verdict

__all__ = ["MEAN_RULES", "simulate_mean_rules", "simulate_paired"]

MEAN_RULES = ("strict", "mean + 1 se")
"""One look at one pair a task: the candidate's mean is higher; or higher by a standard error of the differences."""


@cache
def _verdict(wins: int, losses: int, k: int) -> Verdict:
    """The verdict of the rule, asked once: ties do not change it."""
    return decide(Tally(wins=wins, losses=losses), k)


class _Trial:
    """One edit on its way through the paired gate."""

    def __init__(self, cell: Cell, laws: Iterable[Law], k: int, random: Random) -> None:
        self._k = k
        self._draw = random.random
        self._shuffle = random.shuffle
        self._laws = [*laws]
        self._alike = cell.spread is Spread.EVEN
        only_baseline = cell.lost_baseline * (1 - cell.lost_candidate)
        only_candidate = cell.lost_candidate * (1 - cell.lost_baseline)
        both = cell.lost_baseline * cell.lost_candidate
        self._lost_by = tuple(accumulate((only_baseline, only_candidate, both)))
        self._lossy = self._lost_by[2] > 0
        self._lost = [0, 0]
        self._wins = self._losses = self._ties = 0
        self.planned = 0
        self.verdict = Verdict.UNDECIDED

    @property
    def spent(self) -> bool:
        """Whether it had all the pairs of a life."""
        return self._wins + self._losses + self._ties >= PAIRS_A_LIFE

    @property
    def doubt(self) -> str | None:
        """Why too little was measured so far."""
        return too_little_measured(
            planned=self.planned,
            measured=self._wins + self._losses + self._ties,
            lost_baseline=self._lost[0],
            lost_candidate=self._lost[1],
        )

    def night(self) -> None:
        """Rounds over all tasks, each in a new order, while the rule goes on; ends in the trial's verdict."""
        before, going = self.planned, True
        while going:
            if not self._alike:
                self._shuffle(self._laws)
            for each in self._laws:
                self._pair(each)
                if self.verdict is not Verdict.UNDECIDED or self.spent or self.planned - before == PAIRS_A_NIGHT:
                    return
            tally = Tally(wins=self._wins, losses=self._losses, ties=self._ties)
            going = go_on_tonight(tally, self.planned - before)

    def _pair(self, chances: Law) -> None:
        """Replay one pair; an accept stands only if enough came back to believe it, a reject in any case."""
        self.planned += 1
        if self._lossy and self._lose():
            return
        drawn = self._draw()
        if drawn < chances.win:
            self._wins += 1
        elif drawn < chances.win + chances.loss:
            self._losses += 1
        else:
            self._ties += 1
        verdict = _verdict(self._wins, self._losses, self._k)
        if verdict is Verdict.ACCEPT and self._lossy and self.doubt:
            return
        self.verdict = verdict

    def _lose(self) -> bool:
        """Whether transport loses this pair: one arm of it, the other, or both, by one draw."""
        drawn = self._draw()
        if drawn >= self._lost_by[2]:
            return False
        self._lost[0] += drawn < self._lost_by[0] or drawn >= self._lost_by[1]
        self._lost[1] += drawn >= self._lost_by[0]
        return True


def _laws(cell: Cell, random: Random) -> tuple[Law, ...]:
    return tuple(law(cell, task) for task in tasks_of(cell, random))


def simulate_paired(cell: Cell, k: int, repeats: int, seed: str) -> Figures:
    """``repeats`` edits of this cell, each followed night after night to its verdict or to its last pair."""
    random = Random(f"{seed} paired {k} {cell}")
    laws = _laws(cell, random)
    tonight = within = life = unmeasured = 0
    pairs: list[int] = []
    pairs_life: list[int] = []
    for _ in range(repeats):
        if cell.spread is Spread.RANDOM:
            laws = _laws(cell, random)
        trial = _Trial(cell, laws, k, random)
        trial.night()
        pairs.append(trial.planned)
        tonight += trial.verdict is Verdict.ACCEPT
        unmeasured += trial.verdict is Verdict.UNDECIDED and trial.doubt is not None
        while trial.verdict is Verdict.UNDECIDED and not trial.spent:
            trial.night()
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
    )


def simulate_mean_rules(cell: Cell, repeats: int, seed: str) -> tuple[Figures, ...]:
    """The two rules on means, each looking at the same ``repeats`` measurements of every task under both arms."""
    random = Random(f"{seed} means {cell}")
    higher = clearly = unmeasured = 0
    tasks = tasks_of(cell, random)
    for _ in range(repeats):
        if cell.spread is Spread.RANDOM:
            tasks = tasks_of(cell, random)
        gains = _gains(cell, tasks, random)
        if len(gains) < MIN_MEASURED_SHARE * cell.tasks:
            unmeasured += 1
            continue
        total = math.fsum(gains)
        higher += total > 0
        clearly += total > 0 and _beyond_its_error(total, gains)
    looks = mean([cell.tasks] * repeats)
    return tuple(
        Figures(
            rule=rule,
            tonight=share(accepted, repeats),
            within_36=share(accepted, repeats),
            life=share(accepted, repeats),
            unmeasured=share(unmeasured, repeats),
            pairs=looks,
            pairs_life=looks,
        )
        for rule, accepted in zip(MEAN_RULES, (higher, clearly), strict=True)
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


def _beyond_its_error(total: float, gains: Sequence[float]) -> bool:
    """Whether the mean gain exceeds the standard error of its mean."""
    n = len(gains)
    centre = total / n
    return centre**2 * n > math.fsum((gain - centre) ** 2 for gain in gains) / (n - 1)
