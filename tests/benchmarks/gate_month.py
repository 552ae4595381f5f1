"""One person's month: val tasks, a budget of calls each night, and proposals whose true effect is known."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from msgspec import Struct

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
