"""Drive an adapter of the reference as an environment of this program."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skillopt_sleep.errors import SleepError, TransientBackend, UsageError
from skillopt_sleep.model.text import did_you_mean, excerpt
from skillopt_sleep.train.compat.adapter import CALLED, Batches, EnvAdapter, named, nameless
from skillopt_sleep.train.compat.chats import Sitting, lost_items, put_losses, working
from skillopt_sleep.train.compat.rows import Row, as_result, plain, unmeasured
from skillopt_sleep.train.datasets import SPLITS
from skillopt_sleep.train.environments.loading import blamed
from skillopt_sleep.train.ports import ChatClient, Item, SkillEnv
from skillopt_sleep.train.results import RawPatch, RolloutResult

FROM_CONFIG = ("workers", "minibatch_size", "edit_budget", "failure_only", "seed")
"""Fields of a training config that adapters take as arguments."""
SCORES = ("hard", "soft")
"""What of a row is a number when an adapter sees it again, whatever it was."""
TURNS = ("max_turns", "max_steps")
"""Attributes by which adapters bound the calls of one attempt."""


def taken_from_config(maker: object, config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an adapter class that a training config has values for; {} for what is no adapter class."""
    if not (inspect.isclass(maker) and hasattr(maker, "rollout") and hasattr(maker, "build_train_env")):
        return {}
    values = {name: config[name] for name in FROM_CONFIG if name in config}
    values |= {"analyst_workers": config["workers"]} if "workers" in config else {}
    values |= dict(config.get("extras") or {})
    takes = inspect.signature(maker).parameters.values()
    known = {each.name for each in takes if each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}}
    return {name: value for name, value in values.items() if name in known}


class _Config(dict[str, Any]):
    """A config as adapters read it: by key, and by attribute."""

    def __getattr__(self, name: str) -> object:
        """The value of that key."""
        if name not in self:
            raise AttributeError(f"the config has no {name!r}{did_you_mean(name, self)}")
        return self[name]


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
        self._batches = Batches(adapter, "")
        self._only_whole = False
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
        self._cfg = _Config(defaults | config | dict(config.get("extras") or {}))
        self._batches = Batches(self.adapter, str(self._cfg.get("out_root") or ""))
        with self._at_work("setup"):
            if self.adapter.requires_ray():
                _start_ray()
            self.adapter.setup(self._cfg)
            loader = self.adapter.get_dataloader()
            if loader is not None and self._cfg.get("out_root"):
                loader.set_out_root(str(self._cfg["out_root"]))
        self._items = {}

    def get_items(self, split: str) -> list[Item]:
        """The items of the adapter's loader, or as many nameless ones as a simulator is to be asked for.

        A split is looked at when it is asked for: an adapter may refuse to serve one that a run does not need.
        """
        if not self._clients:
            raise UsageError(f"the environment {self.name} has no items before setup(), which train() calls first")
        if split not in SPLITS:
            raise UsageError(f"there is no split {split!r}, only {', '.join(SPLITS)}{did_you_mean(split, SPLITS)}")
        if split not in self._items:
            with self._at_work("build_eval_env"):
                self._items[split] = self._load(split)
        return self._items[split]

    def get_task_types(self) -> list[str]:
        """What the adapter says."""
        return [str(each) for each in self.adapter.get_task_types()]

    def calls_of(self, item: Item) -> int:
        """What the adapter says by a method of that name, else the most turns it allows itself, else 1."""
        own = getattr(self.adapter, "calls_of", None)
        bounds = (getattr(self.adapter, name, None) for name in TURNS)
        with self._at_work("calls_of"):
            found = own(item) if callable(own) else next((each for each in bounds if isinstance(each, int)), 1)
            return max(1, int(found))

    def plan_epoch(self, *, epoch: int, steps: int, batch_size: int, seed: int) -> list[list[Item]] | None:
        """The batches the adapter's loader plans for an epoch."""
        with self._at_work("plan_train_epoch"):
            return self._batches.plan(epoch=epoch, steps=steps, batch_size=batch_size, seed=seed)

    def takes_parts(self, split: str) -> bool:
        """Whether any part of a split can be rolled out by itself: the adapter builds from a batch's own items."""
        own = type(self.adapter).build_env_from_batch is not EnvAdapter.build_env_from_batch
        items = self._items.get(split, [])
        return own and not self._only_whole and not any(item.get("nameless") for item in items)

    def rollout_one(self, *, item: Item, skill: str, target_client: ChatClient) -> RolloutResult:  # noqa: ARG002
        """Refused: an adapter rolls out batches."""
        raise UsageError(f"{self.name} rolls out batches; the trainer and eval call rollout_batch")

    def rollout_batch(
        self, *, items: list[Item], skill: str, split: str, seed: int, out_dir: str
    ) -> list[RolloutResult]:
        """Build the adapter's batch and roll it out, in the order of the items where results are theirs.

        Calls that it lost and hid come back unmeasured. When it broke off at one, those items alone come back whose
        calls were lost; where they cannot be told, or nothing can be rolled out without them, its error is raised.
        """
        Path(out_dir).mkdir(parents=True, exist_ok=True)
        whole = len(self._items.get(split, items))
        sitting = Sitting(self._clients)
        try:
            with self._at_work("rollout", sitting):
                manager = self._batches.built(items, split, seed, whole=whole)
                rows = self.adapter.rollout(manager, skill, out_dir)
        except TransientBackend:
            gone = lost_items(sitting.lost(), items) if self.takes_parts(split) else []
            if not gone:
                raise
            return gone
        if not isinstance(rows, list | tuple) or not rows:
            raise UsageError(
                f"{self.name}.rollout returned {excerpt(repr(rows), 40)} for {len(items)} items; a list is wanted, with"
                " a dict of id, hard and soft for each"
            )
        results = self._read(rows, items, Path(out_dir))
        put_losses(sitting.lost(), results, items)
        results = _in_order(results + _missing(items, results), items)
        if len(items) < whole and split != "train" and {each.id for each in results} != {str(i["id"]) for i in items}:
            self._only_whole = True
        return results

    def reflect_batch(
        self, *, results: list[RolloutResult], skill: str, out_dir: str, **given: object
    ) -> list[RawPatch] | None:
        """The adapter's own reflection, None when it has none: then the trainer's analysts do it.

        Where it is one patch and no list, it is that patch; where it is None, nothing is proposed.
        """
        adapter = self.adapter
        inherited = type(adapter).reflect is EnvAdapter.reflect
        if inherited and not (adapter.get_error_minibatch_prompt() or adapter.get_success_minibatch_prompt()):
            return None
        rows, sitting = _rows(results), Sitting(self._clients)
        with self._at_work("reflect", sitting):
            said = adapter.reflect(
                rows, skill, out_dir, **{key: value for key, value in given.items() if key != "edit_budget"}
            )
        for loss in sitting.lost():
            if not isinstance(loss.error, TransientBackend):
                raise loss.error
        patches: Any = [said] if said is None or isinstance(said, Mapping | RawPatch) else said
        if not isinstance(patches, list | tuple):
            raise UsageError(f"{self.name}.reflect returned {type(said).__name__}, a list of patches is wanted")
        return [patch for each in patches for patch in [_as_patch(each, self.name)] if patch is not None]

    def _read(self, rows: Sequence[Any], items: Sequence[Item], out_dir: Path) -> list[RolloutResult]:
        """The adapter's rows as results; of items that were not asked for, none where all that were are there."""
        known = {str(item["id"]): item for item in items}
        results = []
        for row in rows:
            result = as_result(row, known, out_dir / "predictions")
            if isinstance(row, Mapping):
                scores = {key: getattr(result, key) for key in SCORES if not isinstance(row.get(key), int | float)}
                result.given = plain({**row, **scores}, f"{self.name}.rollout, {result.id!r}")
            results.append(result)
        names = [each.id for each in results]
        doubles = sorted({name for name in names if names.count(name) > 1})
        if doubles:
            raise UsageError(f"{self.name}.rollout returned the id {doubles[0]!r} twice; ids of results must be unique")
        return [each for each in results if each.id in known] if known.keys() <= set(names) else results

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
            return nameless(split, size)
        if loader is None:
            manager = self.adapter.build_eval_env(env_num=wanted, split=CALLED[split], seed=seed)
            size = wanted or (len(manager) if hasattr(manager, "__len__") else 0)
        else:
            batch = loader.build_eval_batch(env_num=wanted, split=CALLED[split], seed=seed)
            if held := named(batch.payload):
                return held
            size = batch.batch_size
        return nameless(split, size)

    @contextmanager
    def _at_work(self, what: str, sitting: Sitting | None = None) -> Iterator[None]:
        """The adapter's code at work, under this run's clients; its mistakes become one line.

        What it raises after it lost a call is taken for the loss, in the adapter's own words.
        """
        sitting = sitting or Sitting(self._clients)
        with working.on(sitting):
            try:
                yield
            except SleepError as error:
                raise _gravest(sitting, error) from None
            except Exception as error:
                blame = blamed(f"{self.name}.{what}", error)
                raise _gravest(sitting, blame) from error


def _gravest(sitting: Sitting, error: SleepError) -> SleepError:
    """What ended a piece of work: a lost call that ends the run, else any lost call, else the error that was raised."""
    losses = [loss.error for loss in sitting.lost()]
    return next((each for each in losses if not isinstance(each, TransientBackend)), next(iter(losses), error))


def _as_patch(said: object, name: str) -> RawPatch | None:
    """What a reflection proposed; None for nothing, also in the form of a patch that is None."""
    if said is None or isinstance(said, RawPatch):
        return said
    if not isinstance(said, Mapping):
        raise UsageError(
            f"{name}.reflect returned {excerpt(repr(said), 60)}, wanted {{'patch': {{'edits': [...]}}}} or None"
        )
    patch = RawPatch.from_dict(said)
    if patch is None and said.get("patch") is not None:
        raise UsageError(
            f"{name}.reflect returned the patch {excerpt(repr(said['patch']), 60)}, wanted {{'edits': [...]}} or None"
        )
    return patch


def _rows(results: Sequence[RolloutResult]) -> list[Row]:
    """What a reflection is shown: the adapter's own rows.

    Where an item has several attempts, each brings its conversation: files in a folder are those of one attempt.
    """
    measured = [each for each in results if not each.call_error]
    several = len({each.id for each in measured}) < len(measured)
    rows = []
    for each in measured:
        row = dict(each.given) or each.to_dict()
        if several:
            own = ("conversation", "target_system_prompt", "target_user_prompt")
            row |= {name: getattr(each, name) for name in own if getattr(each, name) and not row.get(name)}
        rows.append(row)
    return rows


def _in_order(results: Sequence[RolloutResult], items: Sequence[Item]) -> list[RolloutResult]:
    """In the order of the items, and of the ids where results are nobody's: threads end in any order."""
    place = {str(item["id"]): number for number, item in enumerate(items)}
    return sorted(results, key=lambda each: (place.get(each.id, len(place)), each.id))


def _missing(items: Sequence[Item], results: Sequence[RolloutResult]) -> list[RolloutResult]:
    """An unmeasured result for each of the items that an adapter passed over, where it rolled these items out."""
    found = {each.id for each in results}
    if not found < {str(item["id"]) for item in items}:
        return []
    return [unmeasured(item, "the adapter returned no result for it") for item in items if str(item["id"]) not in found]


def _start_ray() -> None:
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise UsageError("this environment requires Ray, which is not installed: pip install ray") from error
    if not ray.is_initialized():
        ray.init(num_gpus=0)
