"""What the stages of a night need from outside: protocols only, each saying what it may raise and change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from skillopt_sleep.gate.account import Account, EvidenceRow, Tried
from skillopt_sleep.gate.audit import BaseReplay, Position
from skillopt_sleep.gate.pending import ClosedEdit, PendingEdit
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.model.ports import Ledger, P
from skillopt_sleep.model.session import Session, SessionFile, SessionKey
from skillopt_sleep.model.task import Split, TaskRecord
from skillopt_sleep.night.pools import Past
from skillopt_sleep.night.report import NightReport, SealedTest


class Inbox(Protocol):
    """Store: sessions filed and not yet mined. Raises ``DiskError`` only."""

    def unchanged(self, source: str, file: SessionFile) -> bool:
        """Whether this file was filed with the same size and time before, so that it need not be opened."""

    def filing(self) -> AbstractContextManager[object]:
        """Everything filed inside is kept together, or not at all."""

    def file(self, source: str, file: SessionFile, session: Session | None) -> Session | None:
        """Remember the file and file its session; the turns nobody had seen before, as a session, or None."""

    def recent(self) -> tuple[SessionKey, ...]:
        """Every archived session that names its model, the newest first."""

    def waiting(self) -> tuple[SessionKey, ...]:
        """Every session with turns that wait to be mined, the newest first."""

    def load(self, key: SessionKey) -> Session:
        """The waiting turns of a session, with the few before them that they answer to."""


class Archive(Protocol):
    """Store: tasks mined so far, by scope (a project, or "" for all of this user's work). Raises ``DiskError`` only."""

    def tasks(self, scope: str) -> tuple[TaskRecord, ...]:
        """Every task of the scope, fresh ones first, then the most recently seen."""

    def fresh(self, scope: str) -> frozenset[str]:
        """Ids of tasks that no concluded night has used."""

    def commit(self, scope: str, tasks: Sequence[TaskRecord], mined: Sequence[SessionKey]) -> None:
        """Enter tasks (by id; new or seen again = fresh) and take the sessions out of the inbox, in one step."""

    def past(self, scope: str) -> Past:
        """Which tasks are fresh, and how often each of the others decided."""

    def used(self, scope: str, night: str, dealt: Mapping[Split, Sequence[str]]) -> None:
        """These tasks, by id, had their part in a night that ended in accept, reject or undecided: fresh no more."""


class RejectedEdits(Protocol):
    """Store: edits that a gate turned down, shown to the next reflections. Raises ``DiskError`` only."""

    def recall(self, project: str) -> tuple[AppliedEdit, ...]:
        """The latest ones first, a few dozen at most."""

    def closed(self, project: str) -> tuple[ClosedEdit, ...]:
        """Every edit that was turned down or given up, on every base."""

    def remember(
        self, project: str, night: str, edits: Sequence[AppliedEdit], closed: Sequence[ClosedEdit] = ()
    ) -> None:
        """Keep them, each once; ``closed`` ones once for each base."""


class Trials(Protocol):
    """Store: what is undecided, and the account of everything that was tried. Raises ``DiskError`` only."""

    def pending(self, project: str) -> tuple[PendingEdit, ...]:
        """The undecided edits of a project."""

    def conclude(
        self, project: str, pending: Sequence[PendingEdit], tried: Sequence[Tried], *, settled: Iterable[str] = ()
    ) -> None:
        """Put ``pending`` in place of the undecided edits with ids in ``settled``; the others stay as they are.

        Enter what was tried, each life (edit and first night) once, with its latest verdict.
        """

    def account(self, project: str) -> Account:
        """The account of a project."""

    def note(self, project: str, night: str, replays: Sequence[BaseReplay], position: Position) -> None:
        """Keep a night's replays of live documents, and which place of a judged pair won."""

    def replays(self, project: str) -> tuple[BaseReplay, ...]:
        """All replays of live documents."""

    def position(self, project: str) -> Position:
        """Which place of a judged pair won, over all nights."""

    def attempt(self, project: str, change: str, night: str) -> int:
        """Count a night's try to score an adopted change on sealed tasks; how many nights have tried."""

    def scored(self, project: str, test: SealedTest) -> None:
        """Keep the outcome: the change is never scored again."""


class Outcome(Protocol):
    """What a stage returns: a value that can be stored, and that knows its part of the report."""

    def add_to(self, report: NightReport) -> NightReport:
        """The report with this stage in it. Pure."""


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


class OpenNight(Protocol):
    """A night under way: the journal of its stages."""

    @property
    def id(self) -> str:
        """The night's name, the same when it is resumed."""

    @property
    def seed(self) -> int:
        """The night's own seed, the same when it is resumed."""

    @property
    def ledger(self) -> Ledger:
        """Where this night's replies are kept."""

    def stage(self, name: str, work: Callable[P, OutcomeT], *args: P.args, **kwargs: P.kwargs) -> OutcomeT:
        """Do the work of a stage, keep its outcome, add it to the report and write ``diagnostics.json``.

        A resumed night returns the kept outcome of a stage that was finished, without doing its work again. The type
        of an outcome is read from the return annotation of ``work``. Raises what ``work`` raises, and ``DiskError``.
        """

    def look(self, name: str, work: Callable[P, OutcomeT], *args: P.args, **kwargs: P.kwargs) -> OutcomeT:
        """The same for what must be seen afresh each time: the outcome is reported, never kept."""

    def evidence(self, rows: Sequence[EvidenceRow]) -> None:
        """Write ``evidence.jsonl``. Raises ``DiskError``."""

    def report(self) -> NightReport:
        """The report as it stands."""


class Journal(Protocol):
    """Store: the nights."""

    def open(self, report: NightReport, fingerprint: str) -> AbstractContextManager[OpenNight]:
        """Begin a night, or go on with the last one of this project when it was cut short under the same fingerprint.

        Leaving the context concludes the night: an expected end (``BackendError``, ``BudgetSpent``, ``Interrupted``,
        Ctrl-C) is put into the report and goes no further; anything else is reported as a crash and raised again.
        """
