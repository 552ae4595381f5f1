"""Recollect: what the nights before have left, as it stood when this night first came to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.edit import AppliedEdit
from skillopt_sleep.domain.pending import PendingEdit
from skillopt_sleep.domain.report import NightReport
from skillopt_sleep.domain.task import TaskRecord
from skillopt_sleep.night.plan import NightPlan
from skillopt_sleep.night.trying import ConsolidatePlan

__all__ = ["Recollected", "recollect"]


class Recollected(Struct, frozen=True, kw_only=True):
    """The edits that were turned down, as reflections are shown them, and the undecided ones with their tallies.

    Those ``on_hold`` are of documents that do not evolve. ``k`` is the score a new edit is held to, 0 for the plan's.
    """

    rejected: tuple[AppliedEdit, ...] = ()
    pending: tuple[PendingEdit, ...] = ()
    on_hold: tuple[PendingEdit, ...] = ()
    k: int = 0

    def add_to(self, report: NightReport) -> NightReport:
        """Say what waits because its document does not evolve; the rest of the pending ones is in the report."""
        count = Counter(each.kind for each in self.on_hold)
        return replace(report, notes=(*report.notes, *(_on_hold(kind, count[kind]) for kind in count)))

    def settings(self, plan: ConsolidatePlan) -> ConsolidatePlan:
        """The settings of a step, with the score that this night began with."""
        return replace(plan, k=self.k or plan.k)


def recollect(plan: NightPlan, tasks: Sequence[TaskRecord]) -> Recollected:
    """Take over what the plan brings; ``tasks`` are all there are, the archive's and tonight's.

    A night that is gone on with finds it in the journal. Its tallies then begin where they began, whatever an earlier
    sitting has concluded, and the replies it has paid for are counted once, however often they are looked at. What an
    undecided edit was written from is noted by the names that its groups go by now: a twin of it, joined to them since,
    may be dealt on a night without it.
    """
    return Recollected(
        rejected=plan.rejected,
        pending=tuple(each.among(tasks) for each in plan.going_on),
        on_hold=plan.on_hold,
        k=plan.step.k,
    )


def _on_hold(kind: DocumentKind, count: int) -> str:
    what = f"1 undecided edit of the {kind} waits" if count == 1 else f"{count} undecided edits of the {kind} wait"
    return f"{what}: that document does not evolve (evolve_{kind} is false)"
