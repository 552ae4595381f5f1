"""Recollect: what the nights before have left, as it stood when this night first came to it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.domain.edit import AppliedEdit
from skillopt_sleep.domain.pending import PendingEdit
from skillopt_sleep.domain.report import NightReport
from skillopt_sleep.domain.task import TaskRecord
from skillopt_sleep.night.plan import NightPlan

__all__ = ["Recollected", "recollect"]


class Recollected(Struct, frozen=True, kw_only=True):
    """The edits that were turned down, as reflections are shown them, and the undecided ones with their tallies."""

    rejected: tuple[AppliedEdit, ...] = ()
    pending: tuple[PendingEdit, ...] = ()

    def add_to(self, report: NightReport) -> NightReport:
        """Leave the report as it is: it has the pending ones from the plan."""
        return report


def recollect(plan: NightPlan, tasks: Sequence[TaskRecord]) -> Recollected:
    """Take over what the plan brings; ``tasks`` are all there are, the archive's and tonight's.

    A night that is gone on with finds it in the journal. Its tallies then begin where they began, whatever an earlier
    sitting has concluded, and the replies it has paid for are counted once, however often they are looked at. What an
    undecided edit was written from is noted by the names that its groups go by now: a twin of it, joined to them since,
    may be dealt on a night without it.
    """
    return Recollected(rejected=plan.rejected, pending=tuple(each.among(tasks) for each in plan.pending))
