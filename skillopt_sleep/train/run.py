"""A run at work: its environment, its way to both models, and rollouts that are made once."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from skillopt_sleep.errors import DiskError, SleepError, TransientBackend, UsageError
from skillopt_sleep.model.ports import Parallel
from skillopt_sleep.model.text import sha256
from skillopt_sleep.optimizer.client import Optimizer
from skillopt_sleep.storage.ledger import TrainingFolder
from skillopt_sleep.train.compat.rows import unmeasured
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.conversations import AskClient, TurnClient
from skillopt_sleep.train.editing import compute_score, select_gate_score
from skillopt_sleep.train.environments.loading import checked, roll_out
from skillopt_sleep.train.ports import BatchEnv, Item, SkillEnv, TrainProgress
from skillopt_sleep.train.pricing import steps_of
from skillopt_sleep.train.results import RolloutResult
from skillopt_sleep.train.skill_text import skill_hash
from skillopt_sleep.train.state import Artefacts, Scored


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
    turn: TurnClient
    parallel: Parallel
    store: TrainingFolder
    artefacts: Artefacts
    items: dict[str, list[Item]]
    progress: TrainProgress | None = None
    tell: Callable[[str], None] = lambda _line: None

    def batches_of(self, epoch: int) -> list[list[Item]]:
        """The items of an epoch, in an order of its own, batch by batch; as the environment plans them, if it does."""
        config, train = self.config, self.items["train"]
        steps = steps_of(config, len(train)) // config.num_epochs
        plan = getattr(self.env, "plan_epoch", None)
        planned = None
        if callable(plan):
            planned = plan(epoch=epoch, steps=steps, batch_size=min(config.batch_size, len(train)), seed=config.seed)
        if planned and len(planned) == steps:
            return [list(batch) for batch in planned]
        rng = random.Random(f"{config.seed}:epoch:{epoch}")  # noqa: S311  an order, not a secret
        shuffled = rng.sample(train, len(train))
        return [shuffled[start : start + config.batch_size] for start in range(0, len(shuffled), config.batch_size)]

    def roll(self, items: Sequence[Item], skill: str, draw: Draw) -> list[RolloutResult]:
        """One attempt at each item under a skill; what transport lost comes back unmeasured.

        Raises ``UsageError`` for a mistake of the environment, ``FatalBackend`` and ``BudgetSpent``.
        """
        return self.roll_all(items, [(skill, draw)])[0]

    def roll_all(self, items: Sequence[Item], arms: Sequence[tuple[str, Draw]]) -> list[list[RolloutResult]]:
        """One attempt at each item under each of several skills, all at once; see ``roll``."""
        what = sha256(msgspec.json.encode(items, enc_hook=str))[:16]
        names = [f"rollout {draw.split} {draw.number} {skill_hash(skill)} {what}" for skill, draw in arms]
        missing = {name: arm for name, arm in zip(names, arms, strict=True) if self.store.kept(name) is None}
        if _rolls_batches(self.env):
            made = [self._batch(items, skill, draw) for skill, draw in missing.values()]
        else:
            attempts = [(item, skill, draw) for skill, draw in missing.values() for item in items]
            flat = self.parallel(lambda attempt: self.roll_one(*attempt), attempts)
            made = [flat[start : start + len(items)] for start in range(0, len(flat), len(items))]
        found = dict(zip(missing, made, strict=True))
        for name, results in found.items():
            if not any(each.call_error for each in results):  # what was lost is tried again when the run goes on
                kept = {"results": [each.to_dict() for each in results], "given": [each.given for each in results]}
                self.store.keep(name, msgspec.json.encode(kept, enc_hook=str))
        return [found[name] if name in found else self._kept(name) for name in names]

    def roll_one(self, item: Item, skill: str, draw: Draw) -> RolloutResult:
        """One attempt at one item; see ``roll``."""
        client = self.target.for_rollout(phase=draw.phase, sample=draw.number)
        try:
            result = roll_out(self.env, item, skill, client)
        except TransientBackend as error:
            return _lost(item, error)
        except UsageError:
            if client.lost is None:  # else it may be what the environment made of the loss
                raise
        if client.lost is None:
            return result
        if not isinstance(client.lost, TransientBackend):
            raise client.lost
        return _lost(item, client.lost)

    def _kept(self, name: str) -> list[RolloutResult]:
        kept = msgspec.json.decode(self.store.kept(name) or b"{}")
        results = [RolloutResult.from_dict(each) for each in kept["results"]]
        for result, given in zip(results, kept["given"], strict=True):
            result.given = given
        return results

    def _batch(self, items: Sequence[Item], skill: str, draw: Draw) -> list[RolloutResult]:
        """One attempt at each item, all together; where a lost call ended that, the others are attempted without it.

        What they were answered before is in the ledger, so nothing is paid again.
        """
        results = self._together(items, skill, draw)
        left = _left(items, results)
        if not left:
            return results
        place = {str(item["id"]): number for number, item in enumerate(items)}
        return sorted([*results, *self._batch(left, skill, draw)], key=lambda each: place.get(each.id, len(place)))

    def _together(self, items: Sequence[Item], skill: str, draw: Draw) -> list[RolloutResult]:
        folder = self._emptied(draw.folder)
        self.turn.begin(phase=draw.phase, sample=draw.number)
        try:
            results = cast("BatchEnv", self.env).rollout_batch(
                items=list(items), skill=skill, split=draw.split, seed=draw.seed, out_dir=folder
            )
        except TransientBackend as error:
            return [_lost(item, error) for item in items]
        types = {str(item["id"]): str(item.get("task_type") or "") for item in items}
        rows = [checked(each) for each in results]
        for row in rows:
            row.task_type = row.task_type or types.get(row.id, "")
        return rows

    def _emptied(self, name: str) -> str:
        """The folder of a draw that is not finished, without what an end on the way left in it.

        Environments take up files of their own that they find there, and among them may be scores that are none.
        """
        path = self.store.folder / name
        try:
            if path.is_symlink() or path.is_file():
                path.unlink()
            elif path.exists():
                shutil.rmtree(path)
            path.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise DiskError(f"cannot empty {path}: {error.strerror or error}") from error
        return str(path)

    def rolls_batches(self) -> bool:
        """Whether the environment rolls out whole batches."""
        return _rolls_batches(self.env)

    def folder(self, *names: str) -> str:
        """A folder of the run, made, as a path for code that is not ours."""
        path = Path(self.store.folder, *names)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(path)

    def value(self, score: Scored) -> float:
        """The number that the gate metric makes of a score."""
        return select_gate_score(score.hard, score.soft, self.config.gate_metric, self.config.gate_mixed_weight)


def scored(results: Sequence[RolloutResult]) -> Scored:
    """The means over what was measured."""
    hard, soft = compute_score(results)
    measured = sum(not each.call_error for each in results)
    lost = next((each.call_error for each in results if each.call_error), "")
    return Scored(hard=hard, soft=soft, measured=measured, items=len(results), lost=lost)


def _rolls_batches(env: object) -> bool:
    return callable(getattr(env, "rollout_batch", None))


def _left(items: Sequence[Item], results: Sequence[RolloutResult]) -> list[Item]:
    """The items of a batch that came to nothing but some lost ones: what of it may still be measured."""
    lost = {each.id for each in results if each.call_error}
    if len(lost) < len(results) or not lost <= {str(item["id"]) for item in items}:
        return []
    return [item for item in items if str(item["id"]) not in lost]


def _lost(item: Item, error: SleepError) -> RolloutResult:
    return unmeasured(item, f"{type(error).__name__}: {error}")
