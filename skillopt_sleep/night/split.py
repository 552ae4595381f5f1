"""Split: deal tonight's tasks by the night's own seed."""

from __future__ import annotations

from msgspec.structs import replace

from skillopt_sleep.domain.split import Pools, SplitPlan, split_tasks
from skillopt_sleep.night.mine import Mined

__all__ = ["split"]


def split(mined: Mined, plan: SplitPlan, seed: int) -> Pools:
    """Deal the tasks; the same night deals the same way when it is resumed."""
    return split_tasks(mined.tasks, replace(plan, seed=seed))
