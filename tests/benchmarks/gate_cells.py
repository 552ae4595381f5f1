"""The cells of the gate's benchmark: how many val tasks, who judges, what an edit really does, and what gets lost.

A cell is a value that says everything about one made-up edit and its surroundings, so that anything that can put an
edit through a gate, an exact sum, a simulation of the rule, a whole night, can be asked about the same cell.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from random import Random
from statistics import NormalDist

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.rule import margin_for
from skillopt_sleep.model.rollout import GateMetric

SIZES = (4, 8, 12, 20, 40)
BASES = (0.1, 0.3, 0.5, 0.6, 0.9)
EFFECTS = (0.0, 0.1, 0.2, 0.4, 0.7, -0.13)
TRANSPORT = (0.0, 0.05, 0.1, 0.2)
GRADE_NOISE = 0.1
"""The standard deviation of a graded judge, who is used with the margin of the metric ``soft``."""
GRADE = 0.5
"""What a graded task scores under the baseline."""
MIXED_EFFECT = 0.4
"""What an edit of mixed effect gives a quarter of the tasks and takes from another, at most."""
RANDOM_EFFECT = 0.2
"""The standard deviation of the effects of a random mixture."""
USUAL_SIZE = 12
"""The val tasks of the cells that look at something else than the number of val tasks."""
HARM = -0.1
"""The effect from which an edit counts as harmful: -.13, or all there is to lose at a base of .1."""


class Judge(enum.StrEnum):
    """Who scores: pass or fail with the chance of the task, or its mean grade with gaussian noise."""

    BINARY = "binary"
    GRADED = "graded"


class Spread(enum.StrEnum):
    """How an effect is spread over the tasks: alike, quarters helped and broken by as much, or drawn for each."""

    EVEN = "even"
    MIXED = "mixed"
    RANDOM = "random"


class Cell(Struct, frozen=True, kw_only=True):
    """One made-up edit.

    ``base`` is each task's pass rate or mean grade under the baseline, ``effect`` what the edit adds to it; neither
    leaves [0, 1]. ``lost_*`` is the chance that transport loses a rollout for good, ``own_*`` that the agent's own
    failing makes it a 0.
    """

    tasks: int
    judge: Judge
    base: float
    effect: float
    spread: Spread = Spread.EVEN
    lost_baseline: float = 0.0
    lost_candidate: float = 0.0
    own_baseline: float = 0.0
    own_candidate: float = 0.0

    @property
    def gain(self) -> float:
        """The true difference of means, over the tasks; of a random mixture, over all tasks there could be."""
        effect = self.effect if self.spread is Spread.EVEN else 0.0
        return (self.base + effect) * (1 - self.own_candidate) - self.base * (1 - self.own_baseline)

    @property
    def is_null(self) -> bool:
        """Whether the edit helps exactly as much as it harms on these very tasks."""
        return self.spread is not Spread.RANDOM and math.isclose(self.gain, 0.0, abs_tol=1e-12)

    @property
    def is_harmful(self) -> bool:
        """Whether the edit makes every task clearly worse: by .13, or by all there is to lose."""
        return self.spread is Spread.EVEN and self.effect <= HARM


class Task(Struct, frozen=True, kw_only=True):
    """The pass rate or mean grade of one val task under both arms, own failures apart."""

    baseline: float
    candidate: float


class Law(Struct, frozen=True, kw_only=True):
    """The chances of a measured pair to be a win or a loss; the rest is ties."""

    win: float
    loss: float


def edit_of(cell: Cell) -> str:
    """The edit in words, and who judges it."""
    effect = {
        Spread.EVEN: f"{cell.effect:+.2f} on every task",
        Spread.MIXED: f"a quarter of the tasks {cell.effect:+.2f}, a quarter {-cell.effect:+.2f}",
        Spread.RANDOM: f"each task by chance, sd {cell.effect:.2f}: no null for few tasks",
    }
    return f"{cell.judge.value} {cell.base}, {effect[cell.spread]}"


def describe(cell: Cell) -> str:
    """The whole cell in words: the edit, the val tasks, and the percentages lost and failed if there are any."""
    words = [edit_of(cell), f"{cell.tasks} tasks"]
    if cell.lost_baseline or cell.lost_candidate:
        words.append(f"lost {100 * cell.lost_baseline:.0f}/{100 * cell.lost_candidate:.0f} %")
    if cell.own_baseline or cell.own_candidate:
        words.append(f"own failures {100 * cell.own_baseline:.0f}/{100 * cell.own_candidate:.0f} %")
    return ", ".join(words)


def tasks_of(cell: Cell, random: Random) -> tuple[Task, ...]:
    """The val tasks of a cell; only a random mixture draws."""
    match cell.spread:
        case Spread.EVEN:
            effects = [cell.effect] * cell.tasks
        case Spread.MIXED:
            quarter = cell.tasks // 4
            rest = cell.tasks - 2 * quarter
            effects = [cell.effect] * quarter + [-cell.effect] * quarter + [0.0] * rest
        case Spread.RANDOM:
            reach = min(cell.base, 1 - cell.base)
            effects = [max(-reach, min(reach, random.gauss(0, cell.effect))) for _ in range(cell.tasks)]
    return tuple(Task(baseline=cell.base, candidate=cell.base + effect) for effect in effects)


def law(cell: Cell, task: Task) -> Law:
    """How a pair of this task falls under the metric of its judge."""
    if cell.judge is Judge.GRADED:
        return _graded(cell, task)
    old, new = task.baseline * (1 - cell.own_baseline), task.candidate * (1 - cell.own_candidate)
    return Law(win=(1 - old) * new, loss=old * (1 - new))


def _graded(cell: Cell, task: Task) -> Law:
    """The same for grades: a difference of normals where both arms answer, one normal where one fails at 0."""
    margin = margin_for(GateMetric.SOFT)
    old, new = NormalDist(task.baseline, GRADE_NOISE), NormalDist(task.candidate, GRADE_NOISE)
    both = NormalDist(task.candidate - task.baseline, math.sqrt(2) * GRADE_NOISE)
    answered_old, answered_new = 1 - cell.own_baseline, 1 - cell.own_candidate
    gains = (
        (answered_old * answered_new, both),
        (cell.own_baseline * answered_new, new),
        (answered_old * cell.own_candidate, NormalDist(-old.mean, old.stdev)),
    )
    return Law(
        win=sum(chance * (1 - gain.cdf(margin)) for chance, gain in gains),
        loss=sum(chance * gain.cdf(-margin) for chance, gain in gains),
    )


def grid() -> Iterator[Cell]:
    """Every cell: edits by sizes by transport, and at the usual size what loses or fails in one arm, or in both."""
    for edit in _edits():
        for tasks in SIZES:
            for lost in TRANSPORT:
                yield replace(edit, tasks=tasks, lost_baseline=lost, lost_candidate=lost)
        yield replace(edit, lost_candidate=0.2)
        yield replace(edit, own_baseline=0.1, own_candidate=0.1)
        yield replace(edit, own_candidate=0.2)


def _edits() -> Iterator[Cell]:
    """Every judge with every effect it leaves room for."""
    judged = [*((Judge.BINARY, base) for base in BASES), (Judge.GRADED, GRADE)]
    for judge, base in judged:
        room = min(base, 1 - base)
        effects = dict.fromkeys(round(max(-base, min(1 - base, effect)), 2) for effect in EFFECTS)
        kinds = [*((effect, Spread.EVEN) for effect in effects), (round(min(room, MIXED_EFFECT), 2), Spread.MIXED)]
        for effect, spread in (*kinds, (RANDOM_EFFECT, Spread.RANDOM)):
            yield Cell(tasks=USUAL_SIZE, judge=judge, base=base, effect=effect, spread=spread)
