"""How often the gate proves a useless rule, and how soon a useful one: lives of made-up rules through the real trial.

Every rule's true effect is known, so a user need not believe what this project says of its gate: change the seed, or
the cells below, and look. What is simulated is the answers' scores; rounds, waves, limits and decisions are the real
code (``gate.trial``).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from math import sqrt

from msgspec import Struct

from skillopt_sleep.gate.pairs import PairedPlan, PairRow
from skillopt_sleep.gate.pending import IDLE_PAIRS
from skillopt_sleep.gate.rule import PAIRS_A_LIFE, PROMISING, PROVEN, PROVEN_ALONE, Verdict, decide, exact_error
from skillopt_sleep.gate.tally import Tally
from skillopt_sleep.gate.trial import RuleTrial, run_rule_trials
from skillopt_sleep.model.rollout import GateMetric, ReplayResult, Score

THRESHOLDS = (PROMISING, PROVEN, PROVEN_ALONE)
ARCHIVES = (4, 12, 40)
NIGHTS = 30
VAL = 12
"""Requests that a night tests on at most."""

Draw = Callable[[random.Random], tuple[float, float]]
"""The pass rates of one request without and with the rule."""


class Request(Struct, frozen=True):
    """One made-up request."""

    id: str
    before: float
    after: float


class Cell(Struct, frozen=True):
    """One kind of rule."""

    name: str
    draw: Draw
    useless: bool
    lost: float = 0.0
    """Share of the candidate's failing replays that transport loses."""


def _clip(rate: float) -> float:
    return max(0.0, min(1.0, rate))


def _noise(luck: random.Random) -> tuple[float, float]:
    rate = luck.betavariate(0.6, 0.6)
    return rate, rate


def _wobble(luck: random.Random) -> tuple[float, float]:
    return 0.5, _clip(0.5 + luck.gauss(0.0, 0.2))


def _flips(luck: random.Random) -> tuple[float, float]:
    outcome = float(luck.random() < 0.5)
    return outcome, 1.0 - outcome if luck.random() < 0.1 else outcome


def _gain(points: float) -> Draw:
    def draw(luck: random.Random) -> tuple[float, float]:
        rate = luck.betavariate(0.6, 0.6)
        return rate, _clip(rate + points)

    return draw


def _repairs(luck: random.Random) -> tuple[float, float]:
    return (0.0, 1.0) if luck.random() < 1 / 6 else (0.5, 0.5)


CELLS = (
    Cell("useless, independent noise", _noise, useless=True),
    Cell("useless, wobble .2 per request", _wobble, useless=True),
    Cell("useless, one request in ten flipped", _flips, useless=True),
    Cell("useless, a third of its failures lost", _noise, useless=True, lost=0.36),
    Cell("harmful, -.13", _gain(-0.13), useless=True),
    Cell("+.2", _gain(0.2), useless=False),
    Cell("+.4", _gain(0.4), useless=False),
    Cell("repairs 1 request in 6", _repairs, useless=False),
)


def live(cell: Cell, archive: int, k: int, luck: random.Random) -> bool:
    """Whether one rule is accepted at ``k`` in its life."""
    requests = [Request(f"r{number}", *cell.draw(luck)) for number in range(archive)]
    names = {request.id: request.id for request in requests}
    tally = Tally()
    for night in range(NIGHTS):
        tasks = luck.sample(requests, min(VAL, archive))
        plan = PairedPlan(k=k, metric=GateMetric.HARD, mixed_weight=0.5, seed=night, first_sample=1000 * night)
        trial = RuleTrial(tasks, plan, before=tally, requests=names)
        run_rule_trials([trial], lambda wave: [_answer(cell, task, sample, luck) for _, task, sample in wave])
        done = trial.conclude(lambda pairs: [_answer(cell, task, sample, luck) for task, sample in pairs])
        tally = done.tally or tally
        if done.decision.verdict in {Verdict.ACCEPT, Verdict.REJECT}:
            return done.decision.verdict is Verdict.ACCEPT
        if tally.pairs >= PAIRS_A_LIFE or (tally.pairs >= IDLE_PAIRS and tally.score <= 0):
            return False
    return decide(tally, k) is Verdict.ACCEPT


def _answer(cell: Cell, request: Request, sample: int, luck: random.Random) -> PairRow:
    def arm(name: str, rate: float, lost: float) -> ReplayResult:
        passed = luck.random() < rate
        blank = ReplayResult(task_id=request.id, candidate=name, sample=sample)
        if not passed and luck.random() < lost:
            return ReplayResult(task_id=request.id, candidate=name, sample=sample, call_error="lost")
        return ReplayResult(
            task_id=blank.task_id, candidate=name, sample=sample, score=Score(hard=float(passed), soft=float(passed))
        )

    old, new = arm("base", request.before, 0.0), arm("rule", request.after, cell.lost)
    return PairRow.of(old, new, metric=GateMetric.HARD, mixed_weight=0.5)


def measure(cell: Cell, archive: int, k: int, rules: int, seed: int) -> float:
    """The share of rules that are accepted; the draws depend on the seed and the cell alone."""
    luck = random.Random(f"{seed} {cell.name} {archive} {k}")
    return sum(live(cell, archive, k, luck) for _ in range(rules)) / rules


def main(options: Sequence[str]) -> int:
    """Print the table; 1 when a useless rule is accepted more often than its bound, beyond 99 % chance."""
    parser = argparse.ArgumentParser(prog="bench gate", description=__doc__)
    parser.add_argument("--rules", type=int, default=400, help="rules a cell (400)")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(options)
    broken = 0
    print(f"{chosen.rules} rules a cell; percent accepted at " + ", ".join(map(str, THRESHOLDS)) + "\n")
    print(f"{'':40}" + "".join(f"{f'{archive} requests':>28}" for archive in ARCHIVES))
    for cell in CELLS:
        row = f"{cell.name:40}"
        for archive in ARCHIVES:
            shares = [measure(cell, archive, k, chosen.rules, chosen.seed) for k in THRESHOLDS]
            errors = [sqrt(max(share * (1 - share), 1e-9) / chosen.rules) for share in shares]
            fair = cell.name in {CELLS[0].name, CELLS[3].name}
            for k, share, error in zip(THRESHOLDS, shares, errors, strict=True):
                broken += fair and share - 2.58 * error > exact_error(k)
            row += f"{'  '.join(f'{100 * s:.1f}±{100 * e:.1f}' for s, e in zip(shares, errors, strict=True)):>28}"
        print(row)
    print(f"\n{broken} bounds broken" if broken else "\nevery bound holds")
    return int(broken > 0)
