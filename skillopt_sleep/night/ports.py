"""What a night needs from outside, as protocols that say what they may raise and change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from skillopt_sleep.gate.account import Account, EvidenceRow, Position, Tried
from skillopt_sleep.gate.noise import BaseReplay
from skillopt_sleep.gate.pending import ClosedEdit, PendingEdit
from skillopt_sleep.model.document import Candidate
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.model.ports import Ledger, P
from skillopt_sleep.model.session import FeedbackLabel, Session, SessionFile, SessionKey
from skillopt_sleep.model.task import Split, TaskRecord
from skillopt_sleep.night.report import DocumentChange, NightReport, SealedTest

if TYPE_CHECKING:
    from skillopt_sleep.night.pools import Past


class Inbox(Protocol):
    """Store: sessions filed and not yet mined. Raises ``DiskError`` only."""

    def unchanged(self, source: str, file: SessionFile) -> bool:
        """Tell whether this file was already filed with the same size and time, so that it need not be opened."""

    def filing(self) -> AbstractContextManager[object]:
        """Return a transaction: everything filed in it is kept, or nothing."""

    def file(self, source: str, file: SessionFile, session: Session | None) -> Session | None:
        """Remember the file and store its session; return the new turns as a session, None when there are none."""

    def recent(self) -> tuple[SessionKey, ...]:
        """Return every archived session that names its model, the newest first."""

    def waiting(self) -> tuple[SessionKey, ...]:
        """Return every session with turns that have not been mined, the newest first."""

    def load(self, key: SessionKey) -> Session:
        """Return the turns of a session that wait, and the few before them that they refer to."""

    def load_whole(self, key: SessionKey) -> Session:
        """Return all turns of a session."""

    def find_labels(self, source: str, turns: Sequence[str]) -> Mapping[str, FeedbackLabel]:
        """Return what a model said about the feedback in these turns, by turn, as far as one was asked."""

    def keep_labels(self, labels: Sequence[FeedbackLabel]) -> None:
        """Store each label once; sessions returned from then on carry it where rules had found nothing."""


class Archive(Protocol):
    """Store: tasks mined so far, by scope (a project, or "" for all of this user's work). Raises ``DiskError`` only."""

    def tasks(self, scope: str) -> tuple[TaskRecord, ...]:
        """Return every task of the scope, fresh ones first, then the most recently seen."""

    def fresh(self, scope: str) -> frozenset[str]:
        """Return ids of the tasks that no finished night has used."""

    def commit(self, scope: str, tasks: Sequence[TaskRecord], mined: Sequence[SessionKey]) -> None:
        """Store tasks by id (new and seen again ones are fresh) and take sessions out of the inbox, in one step."""

    def past(self, scope: str) -> Past:
        """Return which tasks are fresh, and how often each of the others was a validation task."""

    def used(self, scope: str, night: str, dealt: Mapping[Split, Sequence[str]]) -> None:
        """Mark these tasks, by id, as used by a night that ended in accept, reject or undecided."""


class RejectedEdits(Protocol):
    """Store: edits that the gate rejected, for the analysts of later nights. Raises ``DiskError`` only."""

    def recall(self, project: str) -> tuple[AppliedEdit, ...]:
        """Return the latest ones first, a few dozen at most."""

    def closed(self, project: str) -> tuple[ClosedEdit, ...]:
        """Return every edit that was rejected or given up, on every base."""

    def remember(
        self, project: str, night: str, edits: Sequence[AppliedEdit], closed: Sequence[ClosedEdit] = ()
    ) -> None:
        """Store every edit once, and every ``closed`` one once for each base."""


class Trials(Protocol):
    """Store: undecided edits, and the account of everything that was tried. Raises ``DiskError`` only."""

    def pending(self, project: str) -> tuple[PendingEdit, ...]:
        """Return the undecided edits of a project."""

    def conclude(
        self, project: str, pending: Sequence[PendingEdit], tried: Sequence[Tried], *, settled: Iterable[str] = ()
    ) -> None:
        """Replace the undecided edits with ids in ``settled`` by ``pending``; the others stay.

        Enters what was tried: every life (edit and first night) once, with its latest verdict.
        """

    def account(self, project: str) -> Account:
        """Return the account of a project."""

    def note(self, project: str, night: str, replays: Sequence[BaseReplay], position: Position) -> None:
        """Store a night's replays of live documents, and how often the answer shown first won a judged pair."""

    def replays(self, project: str) -> tuple[BaseReplay, ...]:
        """Return all replays of live documents."""

    def position(self, project: str) -> Position:
        """Return how often the answer that a judge saw first, or second, won its pair, over all nights."""

    def attempt(self, project: str, change: str, night: str) -> int:
        """Count a night's attempt at the sealed test of an adopted change; return how many nights have tried."""

    def scored(self, project: str, test: SealedTest) -> None:
        """Store the result; the change is never scored again."""


class Outcome(Protocol):
    """What a stage returns: a value that can be stored and that adds its part to the report."""

    def add_to(self, report: NightReport) -> NightReport:
        """Return the report with this stage's part. Pure."""


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


class OpenNight(Protocol):
    """A running night: the journal of its stages."""

    @property
    def id(self) -> str:
        """The night's name; it stays when the night is resumed."""

    @property
    def seed(self) -> int:
        """The night's own seed; it stays when the night is resumed."""

    @property
    def ledger(self) -> Ledger:
        """The store of this night's replies."""

    def stage(self, name: str, work: Callable[P, OutcomeT], *args: P.args, **kwargs: P.kwargs) -> OutcomeT:
        """Do the work of a stage, store its outcome, add it to the report and write ``diagnostics.json``.

        A resumed night returns the stored outcome of a finished stage without doing its work again. The type
        of an outcome is read from the return annotation of ``work``. Raises what ``work`` raises, and ``DiskError``.
        """

    def look(self, name: str, work: Callable[P, OutcomeT], *args: P.args, **kwargs: P.kwargs) -> OutcomeT:
        """Do the work of a stage that must be done anew when a night is resumed: report its outcome, never store it."""

    def evidence(self, rows: Sequence[EvidenceRow]) -> None:
        """Write ``evidence.jsonl``. Raises ``DiskError``."""

    def report(self) -> NightReport:
        """Return the report so far."""


class Journal(Protocol):
    """Store: the nights."""

    def open(self, report: NightReport, fingerprint: str) -> AbstractContextManager[OpenNight]:
        """Begin a night, or resume this project's last one if it was interrupted and has the same fingerprint.

        Leaving the context ends the night: an expected end (``BackendError``, ``BudgetSpent``, ``Interrupted``,
        ``Refused``, Ctrl-C) is written to the report and not raised; anything else is reported as a crash and raised
        again.
        """


class Proposed(NamedTuple):
    """What a night proposes for the documents of one agent; ``edits`` made the candidate of the baseline, in order."""

    baseline: Candidate
    candidate: Candidate
    edits: Sequence[AppliedEdit]
    untried: str = ""


class Staging(Protocol):
    """Store: proposals beside the live files."""

    def stage(
        self,
        night: str,
        baseline: Candidate,
        candidate: Candidate,
        edits: Sequence[AppliedEdit],
        untried: str = "",
        *,
        also: Sequence[Proposed] = (),
    ) -> tuple[str | None, tuple[DocumentChange, ...]]:
        """Store a proposal of every document that changed; return its folder (None when nothing changed).

        ``baseline``, ``candidate``, ``edits`` and ``untried`` are as in ``Proposed``; ``also`` holds the documents of
        other agents.
        Raises ``DiskError``, and ``Refused`` where a live path is not a plain file of the project.
        """
