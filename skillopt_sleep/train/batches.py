"""Which batch an adapter of the reference is handed for given items: its loader's own, whole or cut to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from skillopt_sleep.train.env_adapter import EnvAdapter
from skillopt_sleep.train.loaders import BatchSpec
from skillopt_sleep.train.ports import Item

__all__ = ["CALLED", "Batches", "named", "nameless"]

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

    def part(value: Any) -> Any:  # noqa: ANN401  whatever a loader put there
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
