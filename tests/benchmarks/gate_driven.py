"""Puts the edits of the gate's benchmark through whole nights (``night.consolidate``) with an agent in memory.

It covers what the simulation of the rule leaves out: reflection, applying the edit, shared base replays, every call's
wrappers and retries, judging, and edits that wait for the next night. The agent gets the prompt a real one gets and
answers as its cell says: better or worse where the rule under test is in the documents, nothing when the call is lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.calls.budget import Budget, Budgeted
from skillopt_sleep.calls.chain import ATTEMPTS, Breaker, Retried
from skillopt_sleep.calls.parallel import Limited, Limiter
from skillopt_sleep.calls.send import Ledgered, Recorded
from skillopt_sleep.errors import Overloaded, UsageError
from skillopt_sleep.gate.rule import PAIRS_A_NIGHT, GateMode, Verdict
from skillopt_sleep.judges.exact import ExactJudge
from skillopt_sleep.model.call import Attempt, Caps, Health, Prompt, Reply, Role, Spend
from skillopt_sleep.model.document import Candidate, Document, DocumentKind
from skillopt_sleep.model.ports import Ask
from skillopt_sleep.model.rollout import GateMetric, ReplayResult, Score
from skillopt_sleep.model.task import ExactReference, TaskRecord
from skillopt_sleep.night.consolidate import consolidate
from skillopt_sleep.night.plan import ConsolidatePlan
from skillopt_sleep.night.pools import Pools
from skillopt_sleep.optimizer.replay import Models
from tests.benchmarks.gate_cells import GRADE, GRADE_NOISE, USUAL_SIZE, Cell, Judge, Spread, Task, tasks_of
from tests.benchmarks.gate_figures import Figures, mean, share

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
    complained = replace(_task(0, TRAIN), feedback=("you forgot to name the unit",))  # the rule rests on these words
    return Pools(
        train=(complained,), val=tuple(_task(n, f"Task {n}: how far is it?") for n in range(1, cell.tasks + 1))
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


STRICT = 0
"""Stands for the strict rule where a threshold is asked for."""

BASELINE = Candidate(documents=(Document(kind=DocumentKind.SKILL, path="SKILL.md", content=b"", whole=True),))


class _Life(Struct, frozen=True, kw_only=True):
    """What became of one edit: the verdicts, the pairs and the calls of its nights."""

    verdicts: tuple[Verdict, ...]
    pairs: tuple[int, ...]
    calls: tuple[int, ...]


def driven_cells() -> Iterator[Cell]:
    """The smaller grid, a part of the large one in every direction it has."""
    usual = Cell(tasks=USUAL_SIZE, judge=Judge.BINARY, base=0.5, effect=0.0)
    for base, effects in ((0.1, (0.0, 0.4)), (0.3, (0.4,)), (0.5, (0.0, 0.2, 0.4, -0.13)), (0.9, (0.0, -0.13))):
        for effect in effects:
            yield replace(usual, base=base, effect=effect)
    for tasks in (4, 8, 20, 40):
        for effect in (0.0, 0.4):
            yield replace(usual, tasks=tasks, effect=effect)
    for effect in (0.0, 0.4):
        for lost in (0.05, 0.1, 0.2):
            yield replace(usual, effect=effect, lost_baseline=lost, lost_candidate=lost)
        yield replace(usual, effect=effect, lost_candidate=0.2)
        yield replace(usual, effect=effect, own_baseline=0.1, own_candidate=0.1)
        yield replace(usual, effect=effect, own_candidate=0.2)
    for effect in (0.0, 0.1):
        yield replace(usual, judge=Judge.GRADED, base=GRADE, effect=effect)
    yield replace(usual, effect=0.4, spread=Spread.MIXED)


def drive(cell: Cell, k: int, repeats: int, seed: str) -> Figures:
    """``repeats`` edits of this cell through real nights, each to its verdict or the end of its life.

    At the threshold ``k``, or by one night of the strict rule.
    """
    random = Random(f"{seed} driven {k} {cell}")
    tasks = tasks_of(cell, random)
    lives = [_live(cell, tasks, k, random) for _ in range(repeats)]
    accepted = [life for life in lives if life.verdicts[-1] is Verdict.ACCEPT]
    return Figures(
        rule=f"paired {k}" if k else "strict",
        tonight=share(sum(life.verdicts[0] is Verdict.ACCEPT for life in lives), repeats),
        within_36=share(sum(sum(life.pairs) <= PAIRS_A_NIGHT for life in accepted), repeats),
        life=share(len(accepted), repeats),
        unmeasured=share(sum(life.verdicts[0] is Verdict.UNMEASURED for life in lives), repeats),
        pairs=mean([life.pairs[0] for life in lives]),
        pairs_life=mean([sum(life.pairs) for life in lives]),
        calls=mean([life.calls[0] for life in lives]),
    )


def _live(cell: Cell, tasks: tuple[Task, ...], k: int, random: Random) -> _Life:
    """Night after night while the edit is pending; only the first one has something to learn from."""
    plan = ConsolidatePlan(
        gate_mode=GateMode.PAIRED if k else GateMode.STRICT,
        gate_metric=GateMetric.HARD if cell.judge is Judge.BINARY else GateMetric.SOFT,
        evolve_memory=False,
        k=k,
    )
    tonight = pools(cell)
    verdicts: list[Verdict] = []
    pairs: list[int] = []
    calls: list[int] = []
    outcome = None
    while outcome is None or outcome.pending:
        ledger = MemoryLedger()
        outcome = consolidate(
            BASELINE,
            tonight,
            plan,
            connect(cell, tasks, ledger, random),
            night=f"night {len(verdicts)}",
            seed=random.randrange(2**31),
            pending=outcome.pending if outcome else (),
        )
        (step,) = outcome.steps
        if step.trial is None:
            raise RuntimeError(f"a night tried nothing: {step.decision.why}")
        verdicts.append(step.decision.verdict)
        pairs.append(len(step.trial.baseline))
        calls.append(ledger.calls["val"])
        tonight = replace(tonight, train=())
    return _Life(verdicts=tuple(verdicts), pairs=tuple(pairs), calls=tuple(calls))
