"""Score skills on a split under several targets, all on the same items: the matrix of what carries over to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from skillopt_sleep.calls.chain import chain
from skillopt_sleep.calls.clock import SystemClock
from skillopt_sleep.calls.parallel import Pool
from skillopt_sleep.errors import BackendUnusable, BudgetSpent
from skillopt_sleep.gate.rule import is_enough_measured
from skillopt_sleep.model.call import Caps, Role, Spend
from skillopt_sleep.model.ports import Backend, Progress
from skillopt_sleep.optimizer.client import Optimizer
from skillopt_sleep.storage.ledger import TrainingFolder
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.conversations import AskClient, TurnClient
from skillopt_sleep.train.datasets import check_splits
from skillopt_sleep.train.ports import Item, SkillEnv
from skillopt_sleep.train.reflection import by_item
from skillopt_sleep.train.results import RolloutResult
from skillopt_sleep.train.run import Draw, Run, scored
from skillopt_sleep.train.state import Artefacts

if TYPE_CHECKING:
    from skillopt_sleep.safety.redaction.redactor import Redactor

PHASE = "eval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What is scored: every skill (its text by name) under every target, ``rollouts_k`` attempts at each item.

    ``redactor`` takes secrets out of what is sent and answered; None where there can be none.
    """

    env: SkillEnv
    skills: Mapping[str, str]
    targets: Mapping[str, Backend]
    optimizer: Backend
    split: str = "test"
    limit: int = 0
    rollouts_k: int = 1
    workers: int = 8
    seed: int = 42
    caps: Caps = field(default_factory=Caps)
    extras: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress | None = None
    redactor: Redactor | None = None


class Cell(Struct, frozen=True, kw_only=True):
    """One skill under one target. Scores are None where under four fifths of the attempts could be measured.

    ``error`` is the standard error of ``hard`` over items. ``wins`` and ``losses`` count the items on which it did
    better or worse than the first skill under the same target.
    """

    skill: str
    target: str
    hard: float | None
    soft: float | None
    error: float | None
    measured: int
    attempts: int
    wins: int = 0
    losses: int = 0
    by_type: dict[str, float] = {}


class Matrix(Struct, frozen=True, kw_only=True):
    """All cells, skill by skill, and what they cost. ``enough``: every cell could be measured."""

    env: str
    split: str
    items: int
    rollouts_k: int
    skills: tuple[str, ...]
    targets: tuple[str, ...]
    cells: tuple[Cell, ...]
    enough: bool
    spend: Spend

    def cell(self, skill: str, target: str) -> Cell:
        """The cell of a skill and a target."""
        return next(each for each in self.cells if (each.skill, each.target) == (skill, target))


def items_of(evaluation: Evaluation, out_root: str, optimizer: Any = None, target: Any = None) -> list[Item]:  # noqa: ANN401
    """The items that are scored, checked; the environment is set up with these clients. Raises ``UsageError``."""
    env, split = evaluation.env, evaluation.split
    config = SkillOptConfig(
        out_root=out_root, workers=evaluation.workers, seed=evaluation.seed, extras=dict(evaluation.extras)
    )
    setup = getattr(env, "setup", None)
    if callable(setup):
        setup(config.to_dict() | {"env": env.name}, optimizer_client=optimizer, target_client=target)
    items = list(env.get_items(split))
    items = items[: evaluation.limit] if evaluation.limit else items
    check_splits({split: items})
    return items


def evaluate(evaluation: Evaluation, store: TrainingFolder) -> Matrix:
    """Score every skill under every target. A reply that the store has is not asked for again.

    Raises ``UsageError``, ``FatalBackend``, for a target that never answers too, and ``BudgetSpent``: what was paid for
    is kept.
    """
    clock = SystemClock()
    backends = [evaluation.optimizer, *evaluation.targets.values()]

    def interrupted() -> None:
        clock.stop()
        for backend in backends:
            backend.close()

    pool = Pool(evaluation.workers, on_interrupt=interrupted, progress=evaluation.progress)
    results: dict[tuple[str, str], list[RolloutResult]] = {}
    items: list[Item] = []
    try:
        for target, backend in evaluation.targets.items():
            run = _run(evaluation, backend, store, clock, pool)
            items = run.items[evaluation.split]
            for skill, text in evaluation.skills.items():
                found = results[skill, target] = _attempts(evaluation, run, skill, target, text)
                if not (score := scored(found)).measured:
                    raise BackendUnusable(
                        f"{target}: none of {score.items} attempts under {skill} came back ({score.lost}); nothing is"
                        " scored: run again when it answers"
                    )
    except BudgetSpent:
        store.new_allowance()
        raise
    first = next(iter(evaluation.skills))
    cells = tuple(
        _cell(skill, target, results[skill, target], results[first, target])
        for skill in evaluation.skills
        for target in evaluation.targets
    )
    return Matrix(
        env=evaluation.env.name,
        split=evaluation.split,
        items=len(items),
        rollouts_k=evaluation.rollouts_k,
        skills=tuple(evaluation.skills),
        targets=tuple(evaluation.targets),
        cells=cells,
        enough=all(cell.hard is not None for cell in cells),
        spend=store.ledger.spent(),
    )


def _run(evaluation: Evaluation, backend: Backend, store: TrainingFolder, clock: SystemClock, pool: Pool) -> Run:
    """One target at work."""
    roles = {Role.OPTIMIZER: evaluation.optimizer, Role.TARGET: backend}
    asks = chain(
        roles,
        store.ledger,
        clock,
        caps=evaluation.caps,
        workers=evaluation.workers,
        progress=evaluation.progress,
        redactor=evaluation.redactor,
    )
    optimizer, client = AskClient(ask=asks[Role.OPTIMIZER]), AskClient(ask=asks[Role.TARGET])
    turn = TurnClient(client)
    config = SkillOptConfig(out_root=str(store.folder), workers=evaluation.workers, seed=evaluation.seed)
    shelf = cast("TrainingFolder", _Ledger(store))
    return Run(
        config=config,
        env=evaluation.env,
        optimizer=Optimizer(ask=optimizer, parallel=pool),
        target=client,
        turn=turn,
        parallel=pool,
        store=shelf,
        artefacts=Artefacts(shelf, config),
        items={evaluation.split: items_of(evaluation, str(store.folder), optimizer, turn)},
    )


def _attempts(evaluation: Evaluation, run: Run, skill: str, target: str, text: str) -> list[RolloutResult]:
    found: list[RolloutResult] = []
    for number in range(evaluation.rollouts_k):
        folder = "/".join(["eval", _slug(target), _slug(skill), str(number)])
        draw = Draw(phase=PHASE, split=evaluation.split, number=number, folder=folder, seed=evaluation.seed + number)
        found += run.roll(run.items[evaluation.split], text, draw)
    return found


def _cell(skill: str, target: str, results: Sequence[RolloutResult], first: Sequence[RolloutResult]) -> Cell:
    score = scored(results)
    measured = is_enough_measured(score.measured, score.items)
    means = {name: fmean(each.hard for each in attempts) for name, attempts in by_item(results).items()}
    others = {name: fmean(each.hard for each in attempts) for name, attempts in by_item(first).items()}
    pairs = [(means[name], others[name]) for name in means.keys() & others.keys()]
    kinds: dict[str, list[float]] = {}
    for each in results:
        if not each.call_error and each.task_type:
            kinds.setdefault(each.task_type, []).append(each.hard)
    return Cell(
        skill=skill,
        target=target,
        hard=score.hard if measured else None,
        soft=score.soft if measured else None,
        error=_error(list(means.values())) if measured else None,
        measured=score.measured,
        attempts=score.items,
        wins=sum(mine > other for mine, other in pairs),
        losses=sum(mine < other for mine, other in pairs),
        by_type={kind: fmean(values) for kind, values in sorted(kinds.items())},
    )


def _error(values: Sequence[float]) -> float:
    """The standard error of the mean over items; of a single item nothing is known, so 0."""
    if len(values) < 2:  # noqa: PLR2004  a variance needs two
        return 0.0
    mean = fmean(values)
    return sqrt(sum((each - mean) ** 2 for each in values) / (len(values) - 1) / len(values))


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name).strip(".") or "_"


class _Ledger:
    """A store that keeps the replies and no scores: data and scoring may be another the next time."""

    def __init__(self, store: TrainingFolder) -> None:
        self._store = store

    def kept(self, name: str) -> None:
        """Nothing."""

    def keep(self, name: str, outcome: bytes) -> None:
        """Not at all."""

    def __getattr__(self, name: str) -> object:
        """Everything else is the store's."""
        return getattr(self._store, name)
