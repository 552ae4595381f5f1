"""What a night is asked to do, and what it is given to do it with.

Recollect: what the nights before have left, as it stood when this night first came to it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.account import Account
from skillopt_sleep.gate.audit import Audit
from skillopt_sleep.gate.pending import ClosedEdit, PendingEdit
from skillopt_sleep.model.call import Caps
from skillopt_sleep.model.document import Candidate, DocumentKind
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.model.ports import Ledger, Source
from skillopt_sleep.model.session import Session
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.night.harvest import Harvested, Window
from skillopt_sleep.night.pools import SplitPlan
from skillopt_sleep.night.ports import Archive, Inbox, Journal, RejectedEdits, Trials
from skillopt_sleep.night.report import Adopted, BackendHealth, DocumentChange, NightReport, PendingReport
from skillopt_sleep.night.trial_policy import ConsolidatePlan
from skillopt_sleep.optimizer.replay import Manner, Models


class MiningPlan(Struct, frozen=True, kw_only=True):
    """How tasks are found. ``by_model`` asks the optimizer, else rules alone.

    ``target_skill`` keeps the tasks of one skill, by its name and ``target_about``, its description. ``given`` are the
    tasks of a task file: then nothing is harvested or mined.
    """

    by_model: bool = False
    target_skill: str = ""
    target_about: str = ""
    given: tuple[TaskRecord, ...] | None = None


class NightPlan(Struct, frozen=True, kw_only=True):
    """Everything decided before a night begins; two nights with equal fingerprints are the same work.

    ``project`` is the absolute folder the night belongs to; ``roles`` name backend and model of each role. ``adopted``
    is the change that waits for its sealed test, ``audit`` what the nights before tell of the measurement. ``asked`` is
    the score that the settings alone hold a new edit to; the step may hold it to more.
    """

    project: str
    baseline: Candidate
    roles: tuple[BackendHealth, ...]
    sources: tuple[str, ...] = ()
    window: Window = Window()
    mining: MiningPlan = MiningPlan()
    split: SplitPlan = SplitPlan()
    step: ConsolidatePlan = ConsolidatePlan()
    asked: int = 0
    manner: Manner = Manner()
    caps: Caps = Caps()
    rejected: tuple[AppliedEdit, ...] = ()
    pending: tuple[PendingEdit, ...] = ()
    closed: tuple[ClosedEdit, ...] = ()
    account: Account = Account()
    adopted: Adopted | None = None
    audit: Audit = Audit()
    notes: tuple[str, ...] = ()

    @property
    def going_on(self) -> tuple[PendingEdit, ...]:
        """The undecided edits that may have a turn: those of documents that evolve."""
        return tuple(each for each in self.pending if each.kind in self.step.kinds)

    @property
    def on_hold(self) -> tuple[PendingEdit, ...]:
        """The other undecided edits: they wait, with their tallies, until their document evolves again."""
        return tuple(each for each in self.pending if each.kind not in self.step.kinds)

    @property
    def fingerprint(self) -> str:
        """Digest of all that a resumed night must share with its first sitting.

        Caps may be raised in between, and midnight may pass: what was looked back on by then is kept. Nor does it
        depend on what the night itself leaves behind, such as the score that the account asks of the next edit.
        """
        window = replace(self.window, since="")
        step = replace(self.step, k=self.asked)
        same = replace(
            self,
            caps=Caps(),
            notes=(),
            rejected=(),
            pending=(),
            closed=(),
            account=Account(),
            adopted=None,
            audit=Audit(),
            baseline=Candidate(documents=()),
            window=window,
            step=step,
        )
        return hashlib.sha256(msgspec.json.encode(same) + self.baseline.digest.encode()).hexdigest()[:32]

    def blank_report(self) -> NightReport:
        """The report of a night that has not begun."""
        return NightReport(
            night="",
            project=self.project,
            seed=self.split.seed,
            why="the night is under way; if nothing is running any more it was killed, and `run` goes on with it",
            gate_mode=self.step.gate_mode,
            gate_metric=self.step.gate_metric,
            backends=self.roles,
            caps=self.caps,
            pending=tuple(map(PendingReport.of, self.pending)),
            account=self.account,
            audit=self.audit,
            notes=self.notes,
        )


class Connection(Protocol):
    """Both roles of one night, ready to be asked."""

    @property
    def models(self) -> Models:
        """The models, judges and workers."""

    def probe(self) -> tuple[BackendHealth, ...]:
        """Look at every backend without a model call. Raises nothing."""

    def close(self) -> None:
        """End what is under way, and leave nothing behind. Idempotent."""


class Staging(Protocol):
    """Store: proposals beside the live files."""

    def stage(
        self, night: str, baseline: Candidate, candidate: Candidate, edits: Sequence[AppliedEdit]
    ) -> tuple[str | None, tuple[DocumentChange, ...]]:
        """Leave a proposal of every document that changed; the folder it lies in, None when nothing did.

        Raises ``DiskError``, and ``Refused`` where a live path is not a plain file of the project's.
        """


def _unknown(task: TaskRecord) -> str:
    """The commit that a task itself names."""
    return task.commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """The outside world of a night, each part behind its port."""

    sources: Sequence[Source]
    inbox: Inbox
    archive: Archive
    rejected: RejectedEdits
    trials: Trials
    staging: Staging
    journal: Journal
    connect: Callable[[Ledger, Harvested], Connection]
    redact: Callable[[Session], Session]
    commit_of: Callable[[TaskRecord], str] = _unknown


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
