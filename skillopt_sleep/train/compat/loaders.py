"""Loaders by the published signatures of the reference: they plan the batches that an adapter is handed."""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillopt_sleep.errors import UsageError
from skillopt_sleep.train.datasets import SPLITS, parse_ratio, read_items, split_items
from skillopt_sleep.train.ports import Item

ALIASES = {"valid_seen": "val", "selection": "val", "valid": "val", "valid_unseen": "test", "holdout": "test"}
"""What splits may be called besides their own names."""


@dataclass(slots=True)
class BatchSpec:
    """One batch asked for: ``phase`` is train or eval; ``payload`` holds its items, None where the seed says it all."""

    phase: str
    split: str
    seed: int
    batch_size: int
    payload: object | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class BaseDataLoader(ABC):
    """Plans batches. Subclass it where batches come from a simulator; ``SplitDataLoader`` reads them from files."""

    def setup(self, cfg: dict[str, Any]) -> None:
        """Called once with the whole config."""

    def set_out_root(self, out_root: str) -> None:
        """Called once with the folder of the run."""

    def state_dict(self) -> dict[str, Any]:
        """State that a resumed run needs; none by default."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take that state back."""

    def get_train_size(self) -> int | None:
        """How many items there are to train on, None when unknown."""
        return None

    @staticmethod
    def make_base_seeds(steps_per_epoch: int, accumulation: int, seed: int) -> list[int]:
        """One seed for each batch of an epoch."""
        return [seed + 1 + number for number in range(steps_per_epoch * accumulation)]

    @staticmethod
    def shuffle_epoch_seeds(base_seeds: list[int], epoch: int, seed: int) -> list[int]:
        """The seeds in the order of an epoch."""
        return _shuffled(base_seeds, seed + 1000 * epoch)

    def plan_train_epoch(
        self, *, epoch: int, steps_per_epoch: int, accumulation: int, batch_size: int, seed: int, **kwargs: Any
    ) -> list[BatchSpec]:
        """The batches of one epoch, one for each seed."""
        seeds = self.shuffle_epoch_seeds(self.make_base_seeds(steps_per_epoch, accumulation, seed), epoch, seed)
        return [self.build_train_batch(batch_size=batch_size, seed=each, **kwargs) for each in seeds]

    @abstractmethod
    def build_train_batch(self, batch_size: int, seed: int, **kwargs: Any) -> BatchSpec:
        """One batch to train on."""

    @abstractmethod
    def build_eval_batch(self, env_num: int, split: str, seed: int, **kwargs: Any) -> BatchSpec:
        """The batch that a split is scored on; ``env_num`` 0 means all of it."""


class SplitDataLoader(BaseDataLoader):
    """Items from ``split_dir`` (train/, val/, test/), or from ``data_path`` dealt by ``split_ratio``.

    A value given here wins over the config's. Near-duplicates never straddle a dealt split. Raises ``UsageError``.
    """

    def __init__(
        self,
        split_dir: str = "",
        data_path: str = "",
        split_mode: str = "ratio",
        split_ratio: str = "2:1:7",
        split_seed: int = 42,
        split_output_dir: str = "",
        seed: int = 42,
        limit: int = 0,
        **kwargs: Any,  # noqa: ARG002  adapters hand on what is theirs
    ) -> None:
        self.split_dir, self.data_path, self.split_output_dir = split_dir, data_path, split_output_dir
        self.split_mode, self.split_ratio, self.split_seed = split_mode, split_ratio, int(split_seed)
        self.seed, self.limit = seed, limit
        self._splits: dict[str, list[Item]] = {}

    def setup(self, cfg: dict[str, Any]) -> None:
        """Fill in what was not given, deal if need be, and load every split."""
        for name in ("split_dir", "data_path", "split_output_dir", "split_ratio", "split_mode"):
            setattr(self, name, str(getattr(self, name) or cfg.get(name) or ""))
        mode = self.split_mode.strip().lower() or "ratio"
        if mode not in {"ratio", "split_dir"}:
            raise UsageError(f"split_mode {self.split_mode!r} is neither ratio nor split_dir")
        self.split_mode = "split_dir" if mode == "ratio" and self.split_dir and not self.data_path else mode
        if self.split_mode == "ratio":
            self.split_dir = str(self._dealt(cfg))
        if not self.split_dir:
            raise UsageError("the dataloader needs a split_dir with train/, val/ and test/, or a data_path to deal")
        for split in SPLITS:
            folder = Path(self.split_dir) / split
            if not folder.is_dir():
                raise UsageError(f"split_dir {self.split_dir} has no folder {split}/")
            items = self.load_split_items(str(folder))
            self._splits[split] = items[: self.limit] if self.limit else items

    def load_raw_items(self, data_path: str) -> list[Item]:
        """All items before they are dealt: one JSON, JSONL or CSV file, or a folder with exactly one."""
        path = Path(data_path)
        files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
        if len(files) != 1:
            raise UsageError(f"data_path {data_path} holds {len(files)} files; exactly one can be dealt")
        return read_items(files[0])

    def load_split_items(self, split_path: str) -> list[Item]:
        """The items in one split's folder; override it for a format of your own."""
        files = sorted(each for each in Path(split_path).iterdir() if each.suffix in {".json", ".jsonl", ".csv"})
        if not files:
            raise UsageError(f"the split folder {split_path} holds no .json, .jsonl or .csv file")
        return read_items(files[0])

    def write_split_items(self, split_path: str, items: list[Item]) -> None:
        """Write what was dealt, for ``load_split_items`` to read."""
        Path(split_path).mkdir(parents=True, exist_ok=True)
        Path(split_path, "items.json").write_text(json.dumps(items, ensure_ascii=False, indent=2), encoding="utf-8")

    @property
    def train_items(self) -> list[Item]:
        """Items to train on."""
        return self._splits.get("train", [])

    @property
    def val_items(self) -> list[Item]:
        """Items that gate."""
        return self._splits.get("val", [])

    @property
    def test_items(self) -> list[Item]:
        """Items held out to the end."""
        return self._splits.get("test", [])

    def get_split_items(self, split: str) -> list[Item]:
        """The items of a split under any of its names; those of val for a name nobody knows, as published."""
        return list(self._splits.get(ALIASES.get(split, split), self.val_items))

    def get_train_size(self) -> int:
        """How many items there are to train on."""
        return len(self.train_items)

    def plan_train_epoch(
        self,
        *,
        epoch: int,
        steps_per_epoch: int,
        accumulation: int,
        batch_size: int,
        seed: int,
        **kwargs: Any,  # noqa: ARG002
    ) -> list[BatchSpec]:
        """One pass over the items in an order of the epoch's own; batches past the end begin it again."""
        first = seed + 1000 * epoch
        items, wanted = _shuffled(self.train_items, first), steps_per_epoch * accumulation
        cuts = [items[start : start + batch_size] for start in range(0, len(items), max(1, batch_size))][:wanted]
        cuts += [_shuffled(items, first + number + 1)[:batch_size] for number in range(len(cuts), wanted) if items]
        return [
            BatchSpec("train", "train", first + number + 1, len(cut), payload=cut) for number, cut in enumerate(cuts)
        ]

    def build_train_batch(self, batch_size: int, seed: int, **kwargs: Any) -> BatchSpec:  # noqa: ARG002  published
        """Items drawn without putting back."""
        items = _shuffled(self.train_items, seed)[:batch_size]
        return BatchSpec("train", "train", seed, len(items), payload=items)

    def build_eval_batch(self, env_num: int, split: str, seed: int, **kwargs: Any) -> BatchSpec:
        """All items of a split, or the first ``env_num``; with ``random_sample`` that many drawn."""
        items, sampling = self.get_split_items(split), "full"
        if 0 < env_num < len(items):
            drawn = bool(kwargs.get("random_sample"))
            items = (_shuffled(items, seed) if drawn else items)[:env_num]
            sampling = "random_without_replacement" if drawn else "prefix"
        return BatchSpec("eval", split, seed, len(items), payload=items, metadata={"sampling": sampling})

    def _dealt(self, cfg: Mapping[str, Any]) -> Path:
        if not self.data_path:
            raise UsageError("split_mode ratio needs a data_path: one JSON, JSONL or CSV file")
        self.split_ratio = self.split_ratio or "2:1:7"
        parse_ratio(self.split_ratio)
        dealt = split_items(self.load_raw_items(self.data_path), self.split_ratio, seed=self.split_seed)
        name = f"{cfg.get('env') or 'env'}_{self.split_ratio.replace(':', '-')}_seed{self.split_seed}"
        kept = "" if cfg.get("dry_run") else self.split_output_dir  # a run that is only priced leaves nothing behind
        folder = Path(kept or Path(str(cfg.get("out_root") or ".")) / "_generated_splits" / name)
        for split in SPLITS:
            self.write_split_items(str(folder / split), list(dealt[split]))
        told = {"source_data_path": self.data_path, "split_ratio": self.split_ratio, "split_seed": self.split_seed}
        counts = {"counts": {split: len(dealt[split]) for split in SPLITS}}
        (folder / "split_manifest.json").write_text(json.dumps(told | counts, indent=2), encoding="utf-8")
        return folder


def _shuffled(items: Sequence[Any], seed: int) -> list[Any]:
    mixed = list(items)
    random.Random(seed).shuffle(mixed)  # noqa: S311  a seeded order, not a secret
    return mixed
