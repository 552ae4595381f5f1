"""A few items that stand for a batch: some that failed, some that passed, of as many kinds as there are."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.rows import Row

__all__ = ["by_id", "representative"]


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
