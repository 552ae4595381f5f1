"""Split: deal tonight's tasks by the night's own seed."""

from __future__ import annotations

from msgspec.structs import replace

from skillopt_sleep.domain.split import Pools, SplitPlan, split_tasks
from skillopt_sleep.night.gather import Gathered

__all__ = ["split"]


def split(gathered: Gathered, plan: SplitPlan, seed: int) -> Pools:
    """Deal the tasks; the same night deals the same way when it is resumed."""
    return split_tasks(gathered.tasks, replace(plan, seed=seed))
