"""Recall: tasks of earlier nights that are like tonight's teach once more, and only teach."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_sleep.domain.task import TaskRecord
from skillopt_sleep.domain.text import similar

__all__ = ["recall"]


def recall(fresh: Sequence[TaskRecord], past: Sequence[TaskRecord], most: int) -> tuple[TaskRecord, ...]:
    """At most ``most`` of the ``past`` tasks, those most like one of the ``fresh`` ones; of equals the earlier given.

    One that shares nothing with any of them would teach nothing about them, and is not taken.
    """
    likeness = {task.id: max((similar(task.intent, each.intent) for each in fresh), default=0.0) for task in past}
    alike = [task for task in past if likeness[task.id] > 0]
    return tuple(sorted(alike, key=lambda task: -likeness[task.id])[:most])
