"""The paired gate without chance: every tally of an edit and its exact share, as many pairs at once as a trial replays.

Where all tasks are alike and nothing is lost, the tallies are a Markov chain of a few hundred states; its figures
check the simulation cell by cell, and have no error of their own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from random import Random

from skillopt_sleep.gate.rule import (
    PAIRS_A_LIFE,
    PAIRS_A_NIGHT,
    Result,
    Tally,
    Verdict,
    decide,
    may_start_round,
    next_pairs,
)
from tests.benchmarks.gate_cells import Cell, Law, Spread, law, tasks_of
from tests.benchmarks.gate_figures import Estimate, Figures


def exact_paired(cell: Cell, k: int) -> Figures | None:
    """The figures of a cell, or None where its tasks differ or transport loses pairs."""
    if cell.spread is not Spread.EVEN or cell.lost_baseline or cell.lost_candidate:
        return None
    chances = law(cell, tasks_of(cell, Random(0))[0])
    tonight, pairs = _first_night(chances, k, cell.tasks)
    within, _ = _followed(chances, k, PAIRS_A_NIGHT)
    life, pairs_life = _followed(chances, k, PAIRS_A_LIFE)
    return Figures(
        rule=f"paired {k}",
        tonight=Estimate(value=tonight),
        within_36=Estimate(value=within),
        life=Estimate(value=life),
        unmeasured=Estimate(value=0.0),
        pairs=Estimate(value=pairs),
        pairs_life=Estimate(value=pairs_life),
    )


@cache
def _first_night(chances: Law, k: int, tasks: int) -> tuple[float, float]:
    """The share accepted in the first night, and the pairs replayed in it on average: with every stop of a trial."""
    accepted: list[float] = []
    replayed: list[float] = []
    under_way: list[defaultdict[Tally, float]] = [defaultdict(float) for _ in range(PAIRS_A_NIGHT + 1)]
    under_way[0][Tally()] = 1.0
    for pairs, tallies in enumerate(under_way):
        for tally, chance in tallies.items():
            verdict = decide(tally, k)
            size = _next(tally, k, pairs, tasks)
            if verdict is Verdict.ACCEPT:
                accepted.append(chance)
            if not size:
                replayed.append(chance * pairs)
                continue
            for after, share in _after(tally, size, chances):
                under_way[pairs + size][after] += chance * share
    return math.fsum(accepted), math.fsum(replayed)


def _next(tally: Tally, k: int, pairs: int, tasks: int) -> int:
    """The next pairs that are replayed at once, in this round or in the first of another one; 0 when the night ends."""
    over = pairs > 0 and pairs % tasks == 0
    if over and not may_start_round(tally, pairs):
        return 0
    return next_pairs(tally, k, pairs_tonight=pairs, left=tasks - pairs % tasks)


def _after(tally: Tally, size: int, chances: Law) -> Iterator[tuple[Tally, float]]:
    """Every tally that so many pairs can lead to, and how likely it does."""
    ties = 1 - chances.win - chances.loss
    for wins in range(size + 1):
        for losses in range(size + 1 - wins):
            tied = size - wins - losses
            orders = math.comb(size, wins) * math.comb(size - wins, losses)
            share = orders * chances.win**wins * chances.loss**losses * ties**tied
            yield Tally(wins=tally.wins + wins, losses=tally.losses + losses, ties=tally.ties + tied), share


@cache
def _followed(chances: Law, k: int, most: int) -> tuple[float, float]:
    """The share accepted within ``most`` pairs of a life, and the pairs replayed on average.

    In whatever nights: after a pause the edit comes back to the next pair with the tally it had, so pair by pair.
    """
    steps = ((Result.WIN, chances.win), (Result.LOSS, chances.loss), (Result.TIE, 1 - chances.win - chances.loss))
    alive: Mapping[Tally, float] = {Tally(): 1.0}
    accepted: list[float] = []
    replayed: list[float] = []
    for _ in range(most):
        replayed.append(math.fsum(alive.values()))
        ahead: defaultdict[Tally, float] = defaultdict(float)
        for tally, chance in alive.items():
            for result, step in steps:
                ahead[tally.add(result)] += chance * step
        accepted += [chance for tally, chance in ahead.items() if decide(tally, k) is Verdict.ACCEPT]
        alive = {tally: chance for tally, chance in ahead.items() if decide(tally, k) is Verdict.UNDECIDED}
    return math.fsum(accepted), math.fsum(replayed)
