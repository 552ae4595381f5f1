"""Split: tonight's tasks become those that teach and those that decide."""

from __future__ import annotations

from msgspec.structs import replace

from skillopt_sleep.domain.split import Pools, SplitPlan, split_tasks
from skillopt_sleep.night.prepare import Prepared

__all__ = ["split"]


def split(prepared: Prepared, plan: SplitPlan, seed: int) -> Pools:
    """Deal the tasks: those of an archive came with their parts, those of a task file are dealt by seed."""
    return split_tasks(prepared.tasks, replace(plan, seed=seed))
