"""The same edits through whole nights: ``night.consolidate`` with an agent that answers as the cell says.

What the simulation of the rule leaves out is all in here: reflection, applying the edit, the shared base replays, the
wrappers of every call with their tries, judging, what is pending and how it is revived the next night.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.rule import PAIRS_A_NIGHT, GateMode, Verdict
from skillopt_sleep.model.document import Candidate, Document, DocumentKind
from skillopt_sleep.model.rollout import GateMetric
from skillopt_sleep.night.consolidate import consolidate
from skillopt_sleep.night.plan import ConsolidatePlan
from tests.benchmarks.gate_agent import MemoryLedger, connect, pools
from tests.benchmarks.gate_cells import GRADE, USUAL_SIZE, Cell, Judge, Spread, Task, tasks_of
from tests.benchmarks.gate_figures import Figures, mean, share

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
