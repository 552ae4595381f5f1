"""Thirty nights of one person: proposals of every kind, a budget of calls, and what each gate makes of them.

A gate is not judged by one edit but by where a month of its verdicts leads: how many of the rules it let in do harm,
and how much better the agent is in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

from msgspec import Struct

from skillopt_sleep.bench.gate_figures import Estimate, mean, ratio
from skillopt_sleep.bench.gate_trial import MEAN_RULES
from skillopt_sleep.domain.paired import (
    PAIRS_A_LIFE,
    PAIRS_A_NIGHT,
    Tally,
    decide,
    exact_error,
    expected_false,
    judge_pair,
    stricter,
)
from skillopt_sleep.domain.verdict import Verdict

__all__ = ["GATES", "STRICT_AS_USED", "Month", "NightsFigures", "Proposal", "nights"]

NIGHTS = 30
CALLS_A_NIGHT = 176
CALLS_A_PROPOSAL = 8
VAL_TASKS = 40
"""More than the pairs of a night: no round ends within one, so an edit goes on until it is decided or has had them."""
BASE_SHAPE = 0.6
"""Both parameters of the Beta distribution of base pass rates: most tasks nearly always pass or nearly always fail."""
TASK_EFFECT = 0.2
"""The standard deviation of an edit's effect from task to task."""
HIGHER = 8
"""The threshold while the account is overdrawn."""


class Proposal(Struct, frozen=True, kw_only=True):
    """An edit: the mean effect it was drawn with, and the pass rate of every val task with it."""

    drawn: float
    rates: tuple[float, ...]


class NightsFigures(Struct, frozen=True, kw_only=True):
    """What a gate made of a month, on average over many.

    ``wrong`` is the share of the accepted whose true mean effect on the val tasks was at most 0, ``wrong_drawn`` of
    those drawn with such a mean. ``gain`` is the true mean pass rate of the last morning less that of the first.
    """

    gate: str
    tried: Estimate
    accepted: Estimate
    wrong: Estimate
    wrong_drawn: Estimate
    gain: Estimate
    calls_a_night: Estimate


class Month:
    """One person's val tasks, what has been adopted, and the calls of the night under way."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rates = tuple(random.betavariate(BASE_SHAPE, BASE_SHAPE) for _ in range(VAL_TASKS))
        self._first = self.rates
        self.tried = self.accepted = self.wrong = self.wrong_drawn = self.calls = 0
        self.left = 0

    @property
    def gain(self) -> float:
        """What the month was worth."""
        return (sum(self.rates) - sum(self._first)) / VAL_TASKS

    def nights(self) -> Iterator[int]:
        """Thirty times a fresh budget."""
        for night in range(NIGHTS):
            self.left = CALLS_A_NIGHT
            yield night

    def propose(self) -> Proposal:
        """60 % slightly bad, 15 % harmful, 15 % a small gain, 10 % a large one."""
        self.tried += 1
        self._pay(CALLS_A_PROPOSAL)
        kind, slightly_bad = self.random.random(), self.random.uniform(-0.05, 0.0)
        drawn = slightly_bad if kind < 0.6 else -0.13 if kind < 0.75 else 0.11 if kind < 0.9 else 0.25  # noqa: PLR2004
        rates = (rate + self.random.gauss(drawn, TASK_EFFECT) for rate in self.rates)
        return Proposal(drawn=drawn, rates=tuple(min(1.0, max(0.0, rate)) for rate in rates))

    def replay(self, rate: float) -> float:
        """Pass or fail, for one call."""
        self._pay(1)
        return float(self.random.random() < rate)

    def adopt(self, proposal: Proposal) -> None:
        """The edit goes live; whether that was right is known here only."""
        self.accepted += 1
        self.wrong += sum(proposal.rates) <= sum(self.rates)
        self.wrong_drawn += proposal.drawn <= 0
        self.rates = proposal.rates

    def _pay(self, calls: int) -> None:
        self.left -= calls
        self.calls += calls


class _Trial:
    """A proposal and its tally; the pairs stand against what is live, so the next accept ends it."""

    def __init__(self, proposal: Proposal, k: int) -> None:
        self.proposal = proposal
        self.tally = Tally()
        self._k = k

    @property
    def verdict(self) -> Verdict:
        return decide(self.tally, self._k)

    @property
    def is_open(self) -> bool:
        return self.verdict is Verdict.UNDECIDED and self.tally.pairs < PAIRS_A_LIFE

    def replay(self, month: Month, order: Sequence[int], live: dict[int, float]) -> None:
        """Pairs in this order until it is decided or calls run out; ``live`` are tonight's replays of what is live."""
        for task in order:
            if not self.is_open or month.left < 1 + (task not in live):
                return
            if task not in live:
                live[task] = month.replay(month.rates[task])
            self.tally = self.tally.add(judge_pair(live[task], month.replay(self.proposal.rates[task]), 0.0))


def paired_gate(random: Random, *, k: int, account: bool = False) -> Month:
    """The paired gate, pending on: each night the highest score first, then new proposals while calls last.

    With ``account`` a new edit needs ``HIGHER`` while chance may explain too many of the accepted.
    """
    month = Month(random)
    pending: list[_Trial] = []
    alphas: list[float] = []
    for _ in month.nights():
        order = random.sample(range(VAL_TASKS), PAIRS_A_NIGHT)
        live: dict[int, float] = {}
        waiting = sorted(pending, key=lambda trial: -trial.tally.score)
        pending = []
        while waiting or month.left >= CALLS_A_PROPOSAL + 2:
            if waiting:
                trial = waiting.pop(0)
            else:
                needed = HIGHER if account and stricter(month.accepted, expected_false(alphas)) else k
                alphas.append(exact_error(needed))
                trial = _Trial(month.propose(), needed)
            trial.replay(month, order, live)
            if trial.verdict is Verdict.ACCEPT:
                month.adopt(trial.proposal)
                waiting, pending, live = [], [], {}
            elif trial.is_open:
                pending.append(trial)
    return month


def mean_gate(random: Random, *, rule: str, tasks: int, proposals: int) -> Month:
    """A rule on means: so many proposals a night, each looked at once on so many of the val tasks."""
    month = Month(random)
    for _ in month.nights():
        order = random.sample(range(VAL_TASKS), tasks)
        live: list[float] = []
        for _ in range(proposals):
            proposal = month.propose()
            live = live or [month.replay(month.rates[task]) for task in order]
            gains = [month.replay(proposal.rates[task]) - old for task, old in zip(order, live, strict=True)]
            if MEAN_RULES[rule](gains):
                month.adopt(proposal)
                live = []
    return month


STRICT_AS_USED = "strict, 12 tasks, 1 a night"
"""The best case of how people run it: on few tasks, the proposal of the night."""

GATES: dict[str, Callable[[Random], Month]] = {
    "paired 6": partial(paired_gate, k=6),
    "paired 8": partial(paired_gate, k=8),
    "paired 6, account kept": partial(paired_gate, k=6, account=True),
    "strict, 40 tasks, 2 a night": partial(mean_gate, rule="strict", tasks=40, proposals=2),
    "mean + 1 se, 40 tasks, 2 a night": partial(mean_gate, rule="mean + 1 se", tasks=40, proposals=2),
    STRICT_AS_USED: partial(mean_gate, rule="strict", tasks=12, proposals=1),
    "strict, 8 tasks, 1 a night": partial(mean_gate, rule="strict", tasks=8, proposals=1),
    "strict, 4 tasks, 1 a night": partial(mean_gate, rule="strict", tasks=4, proposals=1),
}
"""The gates compared. With two proposals on every task a rule on means takes the whole budget; people run it on few."""


def nights(histories: int, seed: str) -> Iterator[NightsFigures]:
    """The same months for every gate, as far as their first proposals go."""
    for name, gate in GATES.items():
        months = [gate(Random(f"{seed} nights {number}")) for number in range(histories)]
        accepted = [float(month.accepted) for month in months]
        yield NightsFigures(
            gate=name,
            tried=mean([month.tried for month in months]),
            accepted=mean(accepted),
            wrong=ratio([month.wrong for month in months], accepted),
            wrong_drawn=ratio([month.wrong_drawn for month in months], accepted),
            gain=mean([month.gain for month in months]),
            calls_a_night=mean([month.calls / NIGHTS for month in months]),
        )
