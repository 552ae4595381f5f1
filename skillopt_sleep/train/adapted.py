"""Drive an adapter of the reference as an environment of this program."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_sleep.domain.nearest import did_you_mean
from skillopt_sleep.errors import SleepError, TransientBackend, UsageError
from skillopt_sleep.train.chats import working
from skillopt_sleep.train.datasets import SPLITS
from skillopt_sleep.train.environments.checking import blamed
from skillopt_sleep.train.ports import ChatClient, Item, SkillEnv
from skillopt_sleep.train.results import RawPatch, RolloutResult
from skillopt_sleep.train.rows import Row, as_result

if TYPE_CHECKING:
    from skillopt_sleep.train.compat import BatchSpec, EnvAdapter

__all__ = ["AdapterEnv"]

CALLED = {"train": "train", "val": "valid_seen", "test": "valid_unseen"}
"""What adapters hear the splits called."""


class AdapterEnv(SkillEnv):
    """An ``EnvAdapter`` as an environment of this program: the trainer's ``BatchEnv``.

    Where the adapter has no items of its own (a simulator), ``train_size`` and ``sel_env_num`` / ``test_env_num`` of
    the config say how many attempts a split has. Raises ``UsageError`` for what the adapter does wrong.
    """

    def __init__(self, adapter: EnvAdapter) -> None:
        self.adapter = adapter
        self.name = type(adapter).__name__
        self._clients: dict[str, ChatClient] = {}
        self._cfg: Row = {}
        self._rows: dict[str, Row] = {}
        self._items: dict[str, list[Item]] = {}

    def setup(self, config: Row, *, optimizer_client: ChatClient, target_client: ChatClient) -> None:
        """Hand the adapter its config under the names it knows, and load its items."""
        self._clients = {"optimizer": optimizer_client, "target": target_client}
        defaults = {
            "env": self.name,
            "accumulation": 1,
            "analyst_workers": config.get("workers", 8),
            "optimizer_model": getattr(optimizer_client, "model", ""),
            "target_model": getattr(target_client, "model", ""),
            "sel_env_num": 0,
            "test_env_num": 0,
            "train_size": 0,
            "skill_update_mode": "patch",
        }
        self._cfg = defaults | config | dict(config.get("extras") or {})
        with self._at_work("setup"):
            if self.adapter.requires_ray():
                _start_ray()
            self.adapter.setup(self._cfg)
            loader = self.adapter.get_dataloader()
            if loader is not None and self._cfg.get("out_root"):
                loader.set_out_root(str(self._cfg["out_root"]))
            self._items = {split: self._load(split) for split in SPLITS}

    def get_items(self, split: str) -> list[Item]:
        """The items of the adapter's loader, or as many nameless ones as a simulator is to be asked for."""
        if not self._items:
            raise UsageError(f"the environment {self.name} has no items before setup(), which train() calls first")
        if split not in self._items:
            raise UsageError(f"there is no split {split!r}, only {', '.join(SPLITS)}{did_you_mean(split, SPLITS)}")
        return self._items[split]

    def get_task_types(self) -> list[str]:
        """What the adapter says."""
        return [str(each) for each in self.adapter.get_task_types()]

    def plan_epoch(self, *, epoch: int, steps: int, batch_size: int, seed: int) -> list[list[Item]] | None:
        """The batches the adapter's loader plans for an epoch, where it plans items."""
        loader = self.adapter.get_dataloader()
        if loader is None:
            return None
        with self._at_work("plan_train_epoch"):
            batches = loader.plan_train_epoch(
                epoch=epoch, steps_per_epoch=steps, accumulation=1, batch_size=batch_size, seed=seed
            )
        planned = [_named(batch.payload) for batch in batches]
        return None if any(items is None for items in planned) else [items for items in planned if items]

    def rollout_one(self, *, item: Item, skill: str, target_client: ChatClient) -> RolloutResult:  # noqa: ARG002
        """Refused: an adapter rolls out batches."""
        raise UsageError(f"{self.name} rolls out batches; the trainer and eval call rollout_batch")

    def rollout_batch(
        self, *, items: list[Item], skill: str, split: str, seed: int, out_dir: str
    ) -> list[RolloutResult]:
        """Build the adapter's batch and roll it out; calls it lost and hid come back unmeasured."""
        Path(out_dir).mkdir(parents=True, exist_ok=True)
        with self._at_work("rollout"):
            manager = self._built(items, split, seed)
            rows = self.adapter.rollout(manager, skill, out_dir)
            lost = list(working.lost)
        if not isinstance(rows, list | tuple) or not rows:
            raise UsageError(
                f"{self.name}.rollout returned {type(rows).__name__} without results for {len(items)} items"
            )
        known = {str(item["id"]): item for item in items}
        results = [as_result(row, known, Path(out_dir, "predictions")) for row in rows]
        doubles = sorted({each.id for each in results if [other.id for other in results].count(each.id) > 1})
        if doubles:
            raise UsageError(f"{self.name}.rollout returned the id {doubles[0]!r} twice; ids of results must be unique")
        _put_losses(lost, results)
        results += _missing(items, results)
        if split == "train":
            self._rows = {str(row["id"]): dict(row) for row in rows if isinstance(row, Mapping)}
        return results

    def reflect_batch(
        self, *, results: list[RolloutResult], skill: str, out_dir: str, **given: object
    ) -> list[RawPatch] | None:
        """The adapter's own reflection, None when it has none: then the trainer's analysts do it."""
        from skillopt_sleep.train.compat import EnvAdapter  # noqa: PLC0415  it imports this module

        adapter = self.adapter
        inherited = type(adapter).reflect is EnvAdapter.reflect
        if inherited and not (adapter.get_error_minibatch_prompt() or adapter.get_success_minibatch_prompt()):
            return None
        rows = [self._rows.get(each.id) or each.to_dict() for each in results if not each.call_error]
        with self._at_work("reflect"):
            said = adapter.reflect(
                rows, skill, out_dir, **{key: value for key, value in given.items() if key != "edit_budget"}
            )
            lost = list(working.lost)
        for error in lost:
            if not isinstance(error, TransientBackend):
                raise error
        if not isinstance(said, list | tuple):
            raise UsageError(f"{self.name}.reflect returned {type(said).__name__}, a list of patches is wanted")
        return [patch for each in said if each is not None for patch in [_as_patch(each, self.name)]]

    def _built(self, items: list[Item], split: str, seed: int) -> object:
        """What the adapter's rollout takes, for these items."""
        from skillopt_sleep.train.compat import BatchSpec  # noqa: PLC0415  it imports this module

        adapter, root = self.adapter, {"out_root": str(self._cfg.get("out_root") or "")}
        loader, nameless = adapter.get_dataloader(), any(item.get("nameless") for item in items)
        phase, called = ("train" if split == "train" else "eval"), CALLED.get(split, split)
        if loader is None and phase == "train":
            return adapter.build_train_env(batch_size=len(items), seed=seed, **root)
        if loader is None:
            return adapter.build_eval_env(env_num=len(items), split=called, seed=seed, **root)
        if not nameless:
            batch = BatchSpec(phase, called, seed, len(items), payload=list(items))
        elif phase == "train":
            batch = loader.build_train_batch(batch_size=len(items), seed=seed, **root)
        else:
            batch = loader.build_eval_batch(env_num=len(items), split=called, seed=seed, **root)
        return adapter.build_env_from_batch(batch, **root)

    def _load(self, split: str) -> list[Item]:
        loader, seed = self.adapter.get_dataloader(), int(self._cfg.get("seed") or 0)
        wanted = int(self._cfg.get({"train": "train_size", "val": "sel_env_num", "test": "test_env_num"}[split]) or 0)
        if loader is not None and hasattr(loader, "get_split_items"):
            items: list[Item] = loader.get_split_items(split)
            return items[:wanted] if wanted and split != "train" else items
        if split == "train":
            size = wanted or (loader.get_train_size() if loader is not None else 0) or 0
            if not size:
                raise UsageError(f"{self.name} has no items to count: give extras = {{'train_size': N}} in the config")
            return _nameless(split, size)
        if loader is None:
            manager = self.adapter.build_eval_env(env_num=wanted, split=CALLED[split], seed=seed)
            size = wanted or (len(manager) if hasattr(manager, "__len__") else 0)
        else:
            batch: BatchSpec = loader.build_eval_batch(env_num=wanted, split=CALLED[split], seed=seed)
            if items := _named(batch.payload) or []:
                return items
            size = batch.batch_size
        return _nameless(split, size)

    @contextmanager
    def _at_work(self, what: str) -> Iterator[None]:
        """The adapter's code at work, under this run's clients; its mistakes become one line."""
        with working.on(self._clients):
            try:
                yield
            except SleepError:
                raise
            except Exception as error:
                raise blamed(f"{self.name}.{what}", error) from error


def _as_patch(said: object, name: str) -> RawPatch:
    patch = said if isinstance(said, RawPatch) else RawPatch.from_dict(said) if isinstance(said, Mapping) else None
    if patch is None:
        raise UsageError(
            f"{name}.reflect returned {type(said).__name__}, wanted {{'patch': {{'edits': [...]}}}} or None"
        )
    return patch


def _put_losses(lost: Sequence[SleepError], results: Sequence[RolloutResult]) -> None:
    """A call that was lost, and that the adapter made a score of, is unmeasured where its row tells of it.

    What ends a run is raised, and so is a loss that no row tells of: then nothing says whose it was.
    """
    for error in lost:
        told = [each for each in results if str(error) in f"{each.fail_reason} {each.extras}"]
        if not isinstance(error, TransientBackend) or not told:
            raise error
        for each in told:
            each.call_error = f"{type(error).__name__}: {error}"


def _missing(items: Sequence[Item], results: Sequence[RolloutResult]) -> list[RolloutResult]:
    """An unmeasured result for each of the items that an adapter passed over, where it rolled these items out."""
    found = {each.id for each in results}
    names = [str(item["id"]) for item in items]
    if not found < set(names):
        return []
    why = "the adapter returned no result for it"
    return [RolloutResult(id=name, hard=0.0, soft=0.0, call_error=why) for name in names if name not in found]


def _nameless(split: str, size: int) -> list[Item]:
    """Items of a simulator, which has none until it is asked."""
    return [{"id": f"{split}-{number:04d}", "nameless": True} for number in range(1, size + 1)]


def _named(payload: object) -> list[Item] | None:
    """The items of a batch, None when it holds none that have an id."""
    if not isinstance(payload, list | tuple):
        return None
    items = [each for each in payload if isinstance(each, dict) and each.get("id") is not None]
    return items if len(items) == len(payload) else None


def _start_ray() -> None:
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise UsageError("this environment requires Ray, which is not installed: pip install ray") from error
    if not ray.is_initialized():
        ray.init(num_gpus=0)
