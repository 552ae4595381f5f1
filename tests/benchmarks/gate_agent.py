"""A whole night's surroundings for one cell of the gate's benchmark, in memory: agent, judge, ledger and clock.

The agent is given what a real one is given, the prompt, and answers as its cell says: better or worse where the rule
under test stands in the documents, with nothing at all when the line drops. All calls pass the program's own wrappers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TypeVar

import msgspec

from skillopt_sleep.calls.budget import Budget, Budgeted
from skillopt_sleep.calls.chain import ATTEMPTS, Breaker, Retried
from skillopt_sleep.calls.parallel import Limited, Limiter
from skillopt_sleep.calls.send import Ledgered, Recorded
from skillopt_sleep.errors import Overloaded, UsageError
from skillopt_sleep.judges.exact import ExactJudge
from skillopt_sleep.model.call import Attempt, Caps, Health, Prompt, Reply, Role, Spend
from skillopt_sleep.model.ports import Ask
from skillopt_sleep.model.rollout import ReplayResult, Score
from skillopt_sleep.model.task import ExactReference, TaskRecord
from skillopt_sleep.night.pools import Pools
from skillopt_sleep.optimizer.replay import Models
from tests.benchmarks.gate_cells import GRADE_NOISE, Cell, Judge, Task

RULE = "Name the unit of every number."
"""The rule under test, in words that stand in no request."""
RIGHT, WRONG = "42 km", "42"
TRAIN = "Task 0: how far is it?"
NUMBER = re.compile(r"Task (\d+):")
ENOUGH = 10**9
"""No cap and no breaker: what a cell loses is in its figures, not in how its night ends."""

T = TypeVar("T")
R = TypeVar("R")


def pools(cell: Cell) -> Pools:
    """One task that fails, to write the rule from, and the val tasks of the cell."""
    return Pools(
        train=(_task(0, TRAIN),), val=tuple(_task(n, f"Task {n}: how far is it?") for n in range(1, cell.tasks + 1))
    )


def _task(number: int, intent: str) -> TaskRecord:
    name = f"t{number}"
    return TaskRecord(id=name, intent=intent, reference=ExactReference(answer=RIGHT), group=name)


@dataclass(slots=True)
class CellAgent:
    """``ports.Backend``: the target and the optimizer of one cell.

    A try is lost by transport with the chance that leaves a call lost, after all its tries, as often as the cell says.
    """

    cell: Cell
    tasks: Sequence[Task]
    random: Random
    name: str = "cell"
    model: str = "cell"
    sees: str = "nobody"

    def probe(self) -> Health:
        """Always there."""
        return Health(ready=True)

    def close(self) -> None:
        """Nothing is open."""

    def complete(self, prompt: Prompt) -> Reply:
        """The rule, where edits are asked for; the failing answer to the train task; else by the law of the cell."""
        if prompt.schema is not None:
            edit = {"op": "append", "document": "skill", "text": RULE, "anchor": "", "reason": "", "tasks": ["t0"]}
            return Reply(text=msgspec.json.encode({"edits": [edit]}).decode())
        found = NUMBER.search(prompt.user)
        if found is None:
            raise UsageError(f"the agent of a cell knows no such request: {prompt.user[-80:]!r}")
        if found[1] == "0":
            return Reply(text=WRONG)
        return Reply(text=self._answer(self.tasks[int(found[1]) - 1], candidate=RULE in prompt.system + prompt.user))

    def _answer(self, task: Task, *, candidate: bool) -> str:
        cell, draw = self.cell, self.random
        lost, own, rate = (
            (cell.lost_candidate, cell.own_candidate, task.candidate)
            if candidate
            else (cell.lost_baseline, cell.own_baseline, task.baseline)
        )
        if lost and draw.random() < lost ** (1 / ATTEMPTS):
            raise Overloaded("the line dropped")
        failed = bool(own) and draw.random() < own
        if cell.judge is Judge.GRADED:
            return repr(0.0 if failed else draw.gauss(rate, GRADE_NOISE))
        return RIGHT if not failed and draw.random() < rate else WRONG


class GradeJudge:
    """``ports.Judge`` of a graded cell: the answer is its own grade; the failing one is worth nothing."""

    name = "exact"

    def score(self, task: TaskRecord, rollout: ReplayResult, ask: Ask) -> Score:
        """Read the grade."""
        soft = 0.0 if rollout.response == WRONG else float(rollout.response)
        return Score(hard=float(soft > 0.5), soft=soft)


@dataclass(slots=True)
class MemoryLedger:
    """``ports.Ledger`` that keeps nothing; ``calls`` and ``tries`` count by phase."""

    replies: dict[tuple[Role, str, int], Reply] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    tries: Counter[str] = field(default_factory=Counter)

    def find(self, role: Role, prompt: Prompt, model: str) -> Reply | None:
        """The reply to this prompt and sample."""
        return self.replies.get((role, prompt.digest, prompt.sample))

    def reuse(self, phase: str) -> None:
        """Reuse costs nothing."""

    def commit(self, role: Role, prompt: Prompt, model: str, reply: Reply, attempt: Attempt) -> None:
        """Keep a reply."""
        self.replies[role, prompt.digest, prompt.sample] = reply
        self.record(attempt)

    def record(self, attempt: Attempt) -> None:
        """Count a try, and with the first one the call."""
        self.tries[attempt.phase] += 1
        self.calls[attempt.phase] += attempt.number == 1

    def spent(self) -> Spend:
        """Nothing before this night."""
        return Spend()

    def spent_on(self, day: str) -> Spend:
        """Nothing besides."""
        return Spend()


class _Clock:
    """``ports.Clock`` that waits for nobody."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        """A moment that only rises."""
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """The seconds slept."""
        return self._seconds

    def sleep(self, seconds: float) -> None:
        """Pass the time at once."""
        self._seconds += seconds


def connect(cell: Cell, tasks: Sequence[Task], ledger: MemoryLedger, random: Random) -> Models:
    """Both models of a night behind the wrappers of ``calls``, one after the other, without caps and breaker.

    ``calls.chain`` builds the same with a breaker, which ends a night after four calls lost in a row.
    """
    clock = _Clock()
    agent = CellAgent(cell=cell, tasks=tasks, random=random)
    caps = Caps(calls=ENOUGH, tokens=ENOUGH, minutes=ENOUGH, usd=ENOUGH)
    budget, limiter, breaker = Budget(caps, ledger.spent(), clock), Limiter(1, clock), Breaker(ENOUGH)

    def link(role: Role) -> Ask:
        recorded = Recorded(role=role, model=agent.model, backend=agent, ledger=ledger, clock=clock)
        budgeted = Budgeted(budget=budget, send=Limited(limiter=limiter, send=recorded))
        retried = Retried(send=budgeted, clock=clock, breaker=breaker)
        return Ledgered(role=role, model=agent.model, ledger=ledger, send=retried)

    judge = GradeJudge() if cell.judge is Judge.GRADED else ExactJudge()
    return Models(
        target=link(Role.TARGET), optimizer=link(Role.OPTIMIZER), judges={"exact": judge}, parallel=_one_by_one
    )


def _one_by_one(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``ports.Parallel`` without threads."""
    return [work(item) for item in items]
