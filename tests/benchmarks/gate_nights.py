"""Thirty nights of one person, and where each gate leads: wrong accepts, and how much better the agent gets.

A gate is not judged by one edit but by a month of its verdicts. What a rule on means does in a month depends on how it
is run: the reference implementation scores one or two proposals a night on the 4 to 13 validation tasks of that night,
and leaves most of the 176 calls unspent. It could also spend them. The benchmark has a row for each such reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from msgspec import Struct

from skillopt_sleep.gate.rule import (
    PAIRS_A_LIFE,
    PAIRS_A_NIGHT,
    Tally,
    Verdict,
    compare_scores,
    decide,
    exact_error,
    expected_false_accepts,
    margin_for,
    may_start_round,
    needs_higher_score,
    next_pairs,
    threshold,
)
from skillopt_sleep.model.rollout import GateMetric
from tests.benchmarks.gate_figures import Estimate, mean, ratio
from tests.benchmarks.gate_trial import MEAN_RULES

NIGHTS = 30
CALLS_A_NIGHT = 176
CALLS_A_PROPOSAL = 8
VAL_TASKS = 40
BASE_SHAPE = 0.6
"""Both parameters of the Beta distribution of base pass rates: most tasks nearly always pass or nearly always fail."""
TASK_EFFECT = 0.2
"""The standard deviation of an edit's effect from task to task."""
MOOD = 0.1
"""The standard deviation of a noisy judge's grade around 1 for a pass and 0 for a fail."""
WEIGHT_OF_GRADE = 0.5
"""What a grade counts beside pass or fail under the metric ``mixed``, the default."""


class Proposal(Struct, frozen=True, kw_only=True):
    """An edit: the mean effect it was drawn with, and the pass rate of every val task with it."""

    drawn: float
    rates: tuple[float, ...]


class Month:
    """What has been adopted, what came of it, and the calls of the night under way. ``noisy``: the judge is."""

    def __init__(self, random: Random, *, noisy: bool) -> None:
        self.random = random
        self.rates = tuple(random.betavariate(BASE_SHAPE, BASE_SHAPE) for _ in range(VAL_TASKS))
        self._first = self.rates
        self._mood = MOOD * WEIGHT_OF_GRADE if noisy else 0.0
        self.tried = self.accepted = self.wrong = self.wrong_drawn = self.calls = 0
        self.left = 0

    @property
    def gain(self) -> float:
        """What the month was worth: the true mean pass rate of the last morning, less that of the first."""
        return (sum(self.rates) - sum(self._first)) / VAL_TASKS

    def nights(self) -> Iterator[int]:
        """Thirty times a fresh budget."""
        for night in range(NIGHTS):
            self.left = CALLS_A_NIGHT
            yield night

    def affords(self, calls: int) -> bool:
        """Whether a proposal and so many replays can still be paid for tonight."""
        return self.left >= CALLS_A_PROPOSAL + calls

    def propose(self) -> Proposal:
        """60 % slightly bad, 15 % harmful, 15 % a small gain, 10 % a large one."""
        self.tried += 1
        self._pay(CALLS_A_PROPOSAL)
        kind, slightly_bad = self.random.random(), self.random.uniform(-0.05, 0.0)
        drawn = slightly_bad if kind < 0.6 else -0.13 if kind < 0.75 else 0.11 if kind < 0.9 else 0.25
        rates = (rate + self.random.gauss(drawn, TASK_EFFECT) for rate in self.rates)
        return Proposal(drawn=drawn, rates=tuple(min(1.0, max(0.0, rate)) for rate in rates))

    def replay(self, rate: float) -> float:
        """The score of one replay, for one call: pass or fail, and half of it the judge's mood if there is one."""
        self._pay(1)
        passed = float(self.random.random() < rate)
        return passed + self.random.gauss(0.0, self._mood) if self._mood else passed

    def adopt(self, proposal: Proposal) -> None:
        """The edit goes live; whether that was right is known here only."""
        self.accepted += 1
        self.wrong += sum(proposal.rates) <= sum(self.rates)
        self.wrong_drawn += proposal.drawn <= 0
        self.rates = proposal.rates

    def _pay(self, calls: int) -> None:
        self.left -= calls
        self.calls += calls


HIGHER = threshold(0.02)
"""The threshold while the account is overdrawn."""
VAL_A_NIGHT = 12
"""The val tasks of a night by default: the archive has 40, and they rotate."""
NO_LIMIT = CALLS_A_NIGHT
"""More proposals than a night can pay for."""
NOISY = "noisy judge: "
"""Before the name of a gate whose judge is noisy."""
ONCE = "1 a night"
"""At the end of the name of a gate that is asked once a night."""


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


class _Trial:
    """A proposal and its tally; the pairs stand against what is live, so the next accept ends it."""

    def __init__(self, proposal: Proposal, k: int, margin: float) -> None:
        self.proposal = proposal
        self.tally = Tally()
        self._k = k
        self._margin = margin

    @property
    def verdict(self) -> Verdict:
        return decide(self.tally, self._k)

    @property
    def is_open(self) -> bool:
        return self.verdict is Verdict.UNDECIDED and self.tally.pairs < PAIRS_A_LIFE

    def night(self, month: Month, live: _Live) -> None:
        """Rounds over tonight's tasks as a trial makes them, until the rule stops or calls run out."""
        tonight = 0
        for number, order in enumerate(live.rounds):
            left = list(order)
            while size := next_pairs(self.tally, self._k, pairs_tonight=tonight, left=len(left)):
                chunk, left = left[:size], left[size:]
                for task in chunk:
                    if month.left < live.price(number, task) + 1:
                        return
                    old, new = live.score(month, number, task), month.replay(self.proposal.rates[task])
                    self.tally = self.tally.add(compare_scores(old, new, self._margin))
                    tonight += 1
            if self.verdict is not Verdict.UNDECIDED or not may_start_round(self.tally, tonight):
                return


class _Live:
    """Tonight's tasks in the orders of its rounds, and the replays of what is live, which all proposals share."""

    def __init__(self, random: Random, tasks: int) -> None:
        drawn = random.sample(range(VAL_TASKS), tasks)
        self.rounds = [random.sample(drawn, tasks) for _ in range(-(-PAIRS_A_NIGHT // tasks))]
        self._scores: dict[tuple[int, int], float] = {}

    def price(self, number: int, task: int) -> int:
        """What the replay of a task in a round costs: nothing when there is one."""
        return (number, task) not in self._scores

    def score(self, month: Month, number: int, task: int) -> float:
        """The score of that replay."""
        if (number, task) not in self._scores:
            self._scores[number, task] = month.replay(month.rates[task])
        return self._scores[number, task]

    def forget(self) -> None:
        """After an accept something else is live."""
        self._scores.clear()


def paired_gate(
    random: Random,
    *,
    k: int,
    noisy: bool,
    tasks: int = VAL_A_NIGHT,
    proposals: int = NO_LIMIT,
    account: bool = False,
) -> Month:
    """The paired gate, pending on: each night the highest score first, then new proposals while calls last.

    With ``account`` a new edit needs ``HIGHER`` while chance may explain too many of the accepted.
    """
    month = Month(random, noisy=noisy)
    margin = margin_for(GateMetric.MIXED if noisy else GateMetric.HARD)
    pending: list[_Trial] = []
    alphas: list[float] = []
    for _ in month.nights():
        live = _Live(random, tasks)
        waiting = sorted(pending, key=lambda trial: -trial.tally.score)
        pending = []
        new = 0
        while waiting or (new < proposals and month.affords(2)):
            if waiting:
                trial = waiting.pop(0)
            else:
                new += 1
                needed = HIGHER if account and needs_higher_score(month.accepted, expected_false_accepts(alphas)) else k
                alphas.append(exact_error(needed))
                trial = _Trial(month.propose(), needed, margin)
            trial.night(month, live)
            if trial.verdict is Verdict.ACCEPT:
                month.adopt(trial.proposal)
                waiting, pending = [], []
                live.forget()
            elif trial.is_open:
                pending.append(trial)
    return month


def mean_gate(random: Random, *, rule: str, tasks: int, noisy: bool, proposals: int = NO_LIMIT) -> Month:
    """A rule on means: so many proposals a night, each looked at once, on so many val tasks that rotate too.

    What is live is replayed once a night, and again after an accept, which is what the calls allow at best.
    """
    month = Month(random, noisy=noisy)
    for _ in month.nights():
        order = random.sample(range(VAL_TASKS), tasks)
        live: list[float] = []
        for _ in range(proposals):
            if not month.affords(tasks + (0 if live else tasks)):
                break
            proposal = month.propose()
            live = live or [month.replay(month.rates[task]) for task in order]
            gains = [month.replay(proposal.rates[task]) - old for task, old in zip(order, live, strict=True)]
            if MEAN_RULES[rule](gains):
                month.adopt(proposal)
                live = []
    return month


Gate = Callable[..., Month]
"""Takes a ``Random`` and ``noisy``."""


AS_RUN: dict[str, Gate] = {
    f"strict, {tasks} tasks, {proposals} a night": partial(mean_gate, rule="strict", tasks=tasks, proposals=proposals)
    for proposals in (1, 2)
    for tasks in (4, 8, 12)
}
"""As the reference implementation is run: the val tasks of a night, and its one proposal, or skill and memory."""

GATES: dict[str, Gate] = {
    "paired 6": partial(paired_gate, k=threshold(0.05)),
    "paired 8": partial(paired_gate, k=threshold(0.02)),
    "paired 6, account kept": partial(paired_gate, k=threshold(0.05), account=True),
    "paired 6, 2 proposals a night": partial(paired_gate, k=threshold(0.05), proposals=2),
    "paired 6, all 40 tasks a night": partial(paired_gate, k=threshold(0.05), tasks=VAL_TASKS),
    **AS_RUN,
    "strict, 12 tasks, calls spent": partial(mean_gate, rule="strict", tasks=12),
    "strict, 40 tasks, calls spent": partial(mean_gate, rule="strict", tasks=VAL_TASKS),
    "mean + 1 se, 40 tasks, calls spent": partial(mean_gate, rule="mean + 1 se", tasks=VAL_TASKS),
}
"""The gates compared, each with a judge that knows pass and fail, and with one whose grades have moods."""


def nights(name: str, *, noisy: bool, histories: int, seed: str) -> NightsFigures:
    """Many months of one gate: the same ones for every gate, as far as their first proposals go."""
    months = [GATES[name](Random(f"{seed} nights {number}"), noisy=noisy) for number in range(histories)]
    accepted = [float(month.accepted) for month in months]
    return NightsFigures(
        gate=f"{NOISY if noisy else ''}{name}",
        tried=mean([month.tried for month in months]),
        accepted=mean(accepted),
        wrong=ratio([month.wrong for month in months], accepted),
        wrong_drawn=ratio([month.wrong_drawn for month in months], accepted),
        gain=mean([month.gain for month in months]),
        calls_a_night=mean([month.calls / NIGHTS for month in months]),
    )
