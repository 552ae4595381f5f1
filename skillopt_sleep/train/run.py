"""A run at work: its environment, its way to both models, and rollouts that are made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from skillopt_sleep.domain.digest import sha256
from skillopt_sleep.domain.skill_text import skill_hash
from skillopt_sleep.errors import TransientBackend
from skillopt_sleep.optimize.optimizer import Optimizer
from skillopt_sleep.ports import Parallel
from skillopt_sleep.train.artefacts import Artefacts
from skillopt_sleep.train.clients import AskClient
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.environments.checking import checked, roll_out
from skillopt_sleep.train.gate import compute_score, select_gate_score
from skillopt_sleep.train.ports import BatchEnv, Item, RunStore, SkillEnv, TrainProgress
from skillopt_sleep.train.results import RolloutResult
from skillopt_sleep.train.state import Scored

__all__ = ["Draw", "Run", "scored"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Which attempt this is. ``phase`` is the stage its calls are booked under.

    ``number`` tells attempts of the same items under the same skill apart; the same draw made again, after a kill or
    for a skill that was seen before, is the same attempt and is not paid for again. ``folder`` is where it is written.
    """

    phase: str
    split: str
    number: int
    folder: str
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything a step needs."""

    config: SkillOptConfig
    env: SkillEnv
    optimizer: Optimizer
    target: AskClient
    parallel: Parallel
    store: RunStore
    artefacts: Artefacts
    items: dict[str, list[Item]]
    progress: TrainProgress | None = None
    tell: Callable[[str], None] = lambda _line: None

    def roll(self, items: Sequence[Item], skill: str, draw: Draw) -> list[RolloutResult]:
        """One attempt at each item under a skill; what transport lost comes back unmeasured.

        Raises ``UsageError`` for a mistake of the environment, ``FatalBackend`` and ``BudgetSpent``.
        """
        ids = sha256(msgspec.json.encode([str(item["id"]) for item in items]))[:16]
        name = f"rollout {draw.split} {draw.number} {skill_hash(skill)} {ids}"
        if (kept := self.store.kept(name)) is not None:
            return [RolloutResult.from_dict(each) for each in msgspec.json.decode(kept)]
        results = self._batch(items, skill, draw) if _rolls_batches(self.env) else self._each(items, skill, draw)
        if not any(each.call_error for each in results):  # what was lost is tried again when the run goes on
            self.store.keep(name, msgspec.json.encode([each.to_dict() for each in results], enc_hook=str))
        return results

    def roll_one(self, item: Item, skill: str, draw: Draw) -> RolloutResult:
        """One attempt at one item; see ``roll``."""
        client = self.target.for_rollout(phase=draw.phase, sample=draw.number)
        try:
            return roll_out(self.env, item, skill, client)
        except TransientBackend as error:
            return _lost(item, error)

    def _each(self, items: Sequence[Item], skill: str, draw: Draw) -> list[RolloutResult]:
        return self.parallel(lambda item: self.roll_one(item, skill, draw), items)

    def _batch(self, items: Sequence[Item], skill: str, draw: Draw) -> list[RolloutResult]:
        folder = str(self.store.folder / draw.folder)
        try:
            results = cast("BatchEnv", self.env).rollout_batch(
                items=list(items), skill=skill, split=draw.split, seed=draw.seed, out_dir=folder
            )
        except TransientBackend as error:
            return [_lost(item, error) for item in items]
        return [checked(each) for each in results]

    def rolls_batches(self) -> bool:
        """Whether the environment rolls out whole batches."""
        return _rolls_batches(self.env)

    def folder(self, *names: str) -> str:
        """A folder of the run, made, as a path for code that is not ours."""
        path = Path(self.store.folder, *names)
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    def value(self, score: Scored) -> float:
        """The number that the gate metric makes of a score."""
        return select_gate_score(score.hard, score.soft, self.config.gate_metric, self.config.gate_mixed_weight)


def scored(results: Sequence[RolloutResult]) -> Scored:
    """The means over what was measured."""
    hard, soft = compute_score(results)
    measured = sum(not each.call_error for each in results)
    return Scored(hard=hard, soft=soft, measured=measured, items=len(results))


def _rolls_batches(env: object) -> bool:
    return callable(getattr(env, "rollout_batch", None))


def _lost(item: Item, error: TransientBackend) -> RolloutResult:
    return RolloutResult(
        id=str(item["id"]),
        hard=0.0,
        soft=0.0,
        task_type=str(item.get("task_type") or ""),
        call_error=f"{type(error).__name__}: {error}",
    )
