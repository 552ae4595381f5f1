"""How far a person's work is from carrying a verdict: how many more tasks, and how many days of such work."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.domain.task import TaskRecord, group_of

__all__ = ["DECIDING", "GROUPS_FOR_VERDICT", "Shortfall", "shortfall"]

DECIDING = 5
"""Different requests that must decide on a change: with fewer, a verdict is about those few and says so."""

GROUPS_FOR_VERDICT = 3 * DECIDING
"""Different requests it takes: one in three decides, for what a change was learnt from cannot also prove it."""


class Shortfall(Struct, frozen=True, kw_only=True):
    """``groups`` counts the different requests there are, ``missing`` those a verdict still takes.

    ``days`` is how many days of such work that is, None where none are missing or the tasks carry no times.
    """

    groups: int = 0
    missing: int = 0
    days: int | None = None


def shortfall(tasks: Sequence[TaskRecord]) -> Shortfall:
    """Count the groups of ``tasks``; a day of work is one on which any of them was asked."""
    groups = len({group_of(task) for task in tasks})
    days = len({origin.at[:10] for task in tasks for origin in task.origins} - {""})
    missing = max(0, GROUPS_FOR_VERDICT - groups)
    return Shortfall(
        groups=groups,
        missing=missing,
        days=-(-missing * days // groups) if missing and days and groups else None,
    )
