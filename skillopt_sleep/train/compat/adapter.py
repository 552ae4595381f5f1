"""An environment by the published signatures of the reference: what it must write, and what it need not.

A few items that stand for a batch: some that failed, some that passed, of as many kinds as there are.

Which batch an adapter of the reference is handed for given items: its loader's own, whole or cut to them.
"""

from __future__ import annotations

import dataclasses
import inspect
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt_sleep.train.compat.analysts import run_minibatch_reflect
from skillopt_sleep.train.compat.loaders import BaseDataLoader, BatchSpec
from skillopt_sleep.train.compat.rows import Row
from skillopt_sleep.train.ports import Item


def representative(
    results: Sequence[Row], items: Mapping[str, Item], *, failures: int, successes: int, seed: int | None
) -> list[Item]:
    """So many items that failed and so many that passed, one of each kind before a second of any."""
    rng, chosen = random.Random(seed), dict[str, Item]()  # noqa: S311  a seeded draw
    for passed, most in ((False, failures), (True, successes)):
        pool = [row for row in results if bool(row.get("hard")) is passed and str(row.get("id")) in items]
        rng.shuffle(pool)
        kinds: dict[str, int] = {}
        order = []
        for row in pool:
            item = items[str(row["id"])]
            kind = str(row.get("task_type") or item.get("task_type") or item.get("subtype") or "")
            kinds[kind] = kinds.get(kind, 0) + 1
            order.append((kinds[kind] > 1, item))
        chosen |= {str(item["id"]): item for _, item in sorted(order, key=lambda each: each[0])[: max(0, most)]}
    return list(chosen.values())


def by_id(items: Sequence[Item] | None) -> dict[str, Item]:
    """Items by their ids, without what has none."""
    return {str(item["id"]): item for item in items or () if isinstance(item, dict) and item.get("id") is not None}


class EnvAdapter(ABC):
    """An environment as the reference has it: it builds batches, rolls them out, and may reflect on them."""

    def __init__(self, cfg: dict[str, Any] | None = None, **kwargs: Any) -> None:
        self._cfg: dict[str, Any] = dict(cfg or {}) | kwargs

    def setup(self, cfg: dict[str, Any]) -> None:
        """Called once with the whole config, before anything else."""
        self._cfg = dict(cfg)

    def get_dataloader(self) -> BaseDataLoader | None:
        """The loader of this adapter, if it has one."""
        return None

    def requires_ray(self) -> bool:
        """Whether Ray must be running."""
        return False

    def build_reference_text(self, item: Item) -> str:
        """What the optimizer may know of an item that the target must not."""
        return str(item.get("reference_text") or "").strip()

    def get_reference_metadata(self, item: Item) -> dict[str, Any]:
        """Which fields that text came from, and how it begins."""
        text = self.build_reference_text(item)
        return {"fields": ["reference_text"] if text else [], "preview": text[:400]}

    def attach_reference_context(self, results: list[Row], items: list[Item] | None) -> list[Row]:
        """The results, each with the reference text of its item."""
        texts = {name: self.build_reference_text(item) for name, item in by_id(items).items()}
        found = [(row, texts.get(str(row.get("id")))) for row in results]
        return [dict(row) | ({"reference_text": text} if text else {}) for row, text in found]

    def select_representative_items(
        self,
        results: list[Row],
        items: list[Item] | None,
        *,
        n_failures: int,
        n_successes: int,
        seed: int | None = None,
    ) -> list[Item]:
        """So many items that failed and so many that passed, of as many task types as there are."""
        return representative(results, by_id(items), failures=n_failures, successes=n_successes, seed=seed)

    def build_env_from_batch(self, batch: BatchSpec, **kwargs: Any) -> Any:
        """What ``rollout`` is given for a batch: by default as the two methods below build it."""
        if batch.phase == "train":
            return self.build_train_env(batch_size=batch.batch_size, seed=batch.seed, **kwargs)
        return self.build_eval_env(env_num=batch.batch_size, split=batch.split, seed=batch.seed, **kwargs)

    @abstractmethod
    def build_train_env(self, batch_size: int, seed: int, **kwargs: Any) -> Any:
        """What ``rollout`` is given for a batch to train on."""

    @abstractmethod
    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: Any) -> Any:
        """What ``rollout`` is given for a split; it is called ``valid_seen`` or ``valid_unseen``."""

    @abstractmethod
    def rollout(self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any) -> list[Row]:
        """One attempt at each; a dict with ``id``, ``hard``, ``soft`` and whatever else is worth keeping."""

    def reflect(self, results: list[Row], skill_content: str, out_dir: str, **kwargs: Any) -> list[Row | None]:
        """Propose patches: by default with the analysts of this program, and this adapter's prompts."""
        own = {
            name: getattr(self, name)
            for name in ("failure_only", "minibatch_size", "edit_budget")
            if hasattr(self, name)
        }
        return run_minibatch_reflect(
            results,
            skill_content,
            kwargs.get("prediction_dir", str(Path(out_dir, "predictions"))),
            kwargs.get("patches_dir", str(Path(out_dir, "patches"))),
            workers=getattr(self, "analyst_workers", 8),
            **({"failure_only": False} | own),
            random_seed=kwargs.get("random_seed"),
            error_system=self.get_error_minibatch_prompt(),
            success_system=self.get_success_minibatch_prompt(),
            step_buffer_context=kwargs.get("step_buffer_context", ""),
            meta_skill_context=kwargs.get("meta_skill_context", ""),
        )

    @abstractmethod
    def get_task_types(self) -> list[str]:
        """The kinds of items there are."""

    def get_error_minibatch_prompt(self) -> str | None:
        """The analysts' prompt for failures: ``prompts/analyst_error.md`` beside the adapter, else None: the usual."""
        return self._own_prompt("analyst_error")

    def get_success_minibatch_prompt(self) -> str | None:
        """The same for successes: ``prompts/analyst_success.md``."""
        return self._own_prompt("analyst_success")

    def _own_prompt(self, name: str) -> str | None:
        try:
            path = Path(inspect.getfile(type(self))).parent / "prompts" / f"{name}.md"
        except (TypeError, OSError):  # a class typed into a session lies in no file
            return None
        return path.read_text(encoding="utf-8") if path.is_file() else None


CALLED = {"train": "train", "val": "valid_seen", "test": "valid_unseen"}
"""What adapters hear the splits called."""


class Batches:
    """The batches of one adapter.

    A loader may put into a batch's metadata what its adapter plays from, so batches come from the loader wherever it
    has one for the items asked for: as it planned the epoch, or as it builds the split. A part of such a batch keeps
    its metadata; lists in there that are as long as the batch go with its items.
    """

    def __init__(self, adapter: EnvAdapter, out_root: str) -> None:
        self._adapter = adapter
        self._root = {"out_root": out_root}
        self._planned: dict[tuple[str, ...], BatchSpec] = {}

    def plan(self, *, epoch: int, steps: int, batch_size: int, seed: int) -> list[list[Item]] | None:
        """The items of each batch of an epoch, as the loader plans it; None without a loader, or for an empty batch."""
        loader = self._adapter.get_dataloader()
        if loader is None:
            return None
        batches = loader.plan_train_epoch(
            epoch=epoch, steps_per_epoch=steps, accumulation=1, batch_size=batch_size, seed=seed, **self._root
        )
        planned = [
            named(batch.payload) or nameless(f"train-{epoch:02d}-{number:03d}", batch.batch_size)
            for number, batch in enumerate(batches, start=1)
        ]
        self._planned = {_names(items): batch for items, batch in zip(planned, batches, strict=True)}
        return planned if all(planned) else None

    def built(self, items: Sequence[Item], split: str, seed: int, *, whole: int) -> object:
        """What the adapter's rollout takes for these items; ``whole`` is how many the split has."""
        adapter, called = self._adapter, CALLED.get(split, split)
        loader = adapter.get_dataloader()
        if loader is None and split == "train":
            return adapter.build_train_env(batch_size=len(items), seed=seed, **self._root)
        if loader is None:
            return adapter.build_eval_env(env_num=len(items), split=called, seed=seed, **self._root)
        batch = self._planned.get(_names(items)) if split == "train" else None
        if batch is None:
            size = len(items) if any(item.get("nameless") for item in items) else max(whole, len(items))
            if split == "train":
                batch = loader.build_train_batch(batch_size=size, seed=seed, **self._root)
            else:
                batch = loader.build_eval_batch(env_num=size, split=called, seed=seed, **self._root)
            batch = _cut(batch, items)
        return adapter.build_env_from_batch(batch, **self._root)


def named(payload: object) -> list[Item] | None:
    """The items of a batch, None when it holds none that have an id."""
    if not isinstance(payload, list | tuple):
        return None
    items = [each for each in payload if isinstance(each, dict) and each.get("id") is not None]
    return items if items and len(items) == len(payload) else None


def nameless(prefix: str, size: int) -> list[Item]:
    """Items of a simulator, which has none until it is asked."""
    return [{"id": f"{prefix}-{number:04d}", "nameless": True} for number in range(1, size + 1)]


def _cut(batch: BatchSpec, items: Sequence[Item]) -> BatchSpec:
    """The part of a batch that holds these items; of one that does not know them, only what they are."""
    if any(item.get("nameless") for item in items):
        return batch
    held, wanted = named(batch.payload) or [], _names(items)
    place = {str(item["id"]): number for number, item in enumerate(held)}
    if tuple(place) == wanted:
        return batch
    if not set(wanted) <= set(place):
        return dataclasses.replace(batch, batch_size=len(items), payload=list(items), metadata={})
    places = [place[name] for name in wanted]

    def part(value: Any) -> Any:
        matching = isinstance(value, list | tuple) and len(value) == len(held)
        return [value[number] for number in places] if matching else value

    metadata: Mapping[str, Any] = batch.metadata or {}
    return dataclasses.replace(
        batch,
        batch_size=len(items),
        payload=[held[number] for number in places],
        metadata={key: part(value) for key, value in metadata.items()},
    )


def _names(items: Sequence[Item]) -> tuple[str, ...]:
    return tuple(str(item["id"]) for item in items)
