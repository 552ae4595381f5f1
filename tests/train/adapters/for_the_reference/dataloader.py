"""Reads the items of a split folder."""

from __future__ import annotations

import json
from pathlib import Path

from skillopt.datasets.base import BaseDataLoader, SplitDataLoader

assert issubclass(SplitDataLoader, BaseDataLoader)


class HouseDataLoader(SplitDataLoader):
    """The ids are numbers."""

    def load_split_items(self, split_path: str) -> list[dict]:
        rows = json.loads(Path(split_path, "items.json").read_text(encoding="utf-8"))
        return [{"id": row["uid"], "question": row["ask"], "ground_truth": row["gold"]} for row in rows]
