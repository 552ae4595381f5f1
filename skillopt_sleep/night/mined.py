"""What mining yields, whichever way it is done."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.refusal import Refusal
from skillopt_sleep.domain.report import NightReport, TaskLabel
from skillopt_sleep.domain.task import TaskRecord

__all__ = ["Mined"]


class Mined(Struct, frozen=True, kw_only=True):
    """Tasks, and what was not made into one, by name.

    ``unmined`` are ids of sessions that could not be mined tonight (their reply was lost or unreadable): they belong
    back into the inbox. ``found`` counts tasks that came out of tonight's sessions, new or seen again.
    """

    tasks: tuple[TaskRecord, ...] = ()
    refused: tuple[Refusal, ...] = ()
    unmined: tuple[str, ...] = ()
    found: int = 0

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        labels = tuple(TaskLabel(id=task.id, intent=task.intent, words=task.feedback) for task in self.tasks)
        counts = replace(report.counts, mined=self.found, refused=len(self.refused), tasks=len(self.tasks))
        return replace(report, counts=counts, refused=self.refused, tasks=labels)
