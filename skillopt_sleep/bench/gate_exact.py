"""The paired gate without chance: every tally of an edit and its exact share, pair by pair.

Where all tasks are alike and nothing is lost, the tallies are a Markov chain of a few hundred states; its figures
check the simulation cell by cell, and have no error of their own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cache
from random import Random

from skillopt_sleep.bench.gate_cells import Cell, Law, Spread, law, tasks_of
from skillopt_sleep.bench.gate_figures import Estimate, Figures
from skillopt_sleep.domain.paired import PAIRS_A_LIFE, PAIRS_A_NIGHT, Result, Tally, decide, go_on_tonight
from skillopt_sleep.domain.verdict import Verdict

__all__ = ["exact_paired"]


def exact_paired(cell: Cell, k: int) -> Figures | None:
    """The figures of a cell, or None where its tasks differ or transport loses pairs."""
    if cell.spread is not Spread.EVEN or cell.lost_baseline or cell.lost_candidate:
        return None
    chances = law(cell, tasks_of(cell, Random(0))[0])
    tonight, pairs = _followed(chances, k, PAIRS_A_NIGHT, cell.tasks)
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
def _followed(chances: Law, k: int, most: int, a_round: int | None = None) -> tuple[float, float]:
    """The share accepted within ``most`` pairs, and the pairs replayed on average.

    With ``a_round``, one night of rounds of so many pairs, which an edit that is not ahead does not see the end of.
    Over a life pauses change nothing, as the edit comes back to the next pair with the tally it had.
    """
    steps = ((Result.WIN, chances.win), (Result.LOSS, chances.loss), (Result.TIE, 1 - chances.win - chances.loss))
    alive = {Tally(): 1.0}
    accepted: list[float] = []
    replayed: list[float] = []
    for pairs in range(1, most + 1):
        replayed.append(math.fsum(alive.values()))
        ahead: defaultdict[Tally, float] = defaultdict(float)
        for tally, chance in alive.items():
            for result, step in steps:
                ahead[tally.add(result)] += chance * step
        ends_round = a_round is not None and pairs % a_round == 0
        alive = {}
        for tally, chance in ahead.items():
            verdict = decide(tally, k)
            if verdict is Verdict.ACCEPT:
                accepted.append(chance)
            elif verdict is Verdict.UNDECIDED and (not ends_round or go_on_tonight(tally, pairs)):
                alive[tally] = chance
    return math.fsum(accepted), math.fsum(replayed)
