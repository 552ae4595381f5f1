"""The services that a night needs from outside, as protocols that say what they may raise and change."""

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
    """A store of sessions that were read from session files and not mined yet. Raises ``DiskError`` only."""

    def unchanged(self, source: str, file: SessionFile) -> bool:
        """Return whether this file was already read with the same size and time, so that it need not be opened."""

    def recall(self, source: str, file: SessionFile) -> SessionFile:
        """Return a changed file with its stored mark, from which its source can read on; only large files have one."""

    def filing(self) -> AbstractContextManager[object]:
        """Return a transaction, as a context manager: its end keeps what was stored inside, an error undoes it."""

    def file(self, source: str, file: SessionFile, session: Session | None) -> Session | None:
        """Remember the file as read and store its session; return its new turns as a session, or None without any."""

    def recent(self) -> tuple[SessionKey, ...]:
        """Return every archived session that names its model, the newest first."""

    def waiting(self) -> tuple[SessionKey, ...]:
        """Return every session with turns that have not been mined, the newest first."""

    def load(self, key: SessionKey) -> Session:
        """Return the unmined turns of a session, and the few turns before them that they refer to."""

    def load_whole(self, key: SessionKey) -> Session:
        """Return all turns of a session."""

    def find_labels(self, source: str, turns: Sequence[str]) -> Mapping[str, FeedbackLabel]:
        """Return, by turn, what feedback a model saw in these turns; turns that it was not asked about are missing."""

    def keep_labels(self, labels: Sequence[FeedbackLabel]) -> None:
        """Store a model's labels of feedback; sessions loaded later carry them where fixed rules found no feedback."""


class Archive(Protocol):
    """A store of mined tasks, by scope (a project, or "" for all of this user's work). Raises ``DiskError`` only."""

    def tasks(self, scope: str) -> tuple[TaskRecord, ...]:
        """Return every task of the scope: first the unused ones, then the others, the most recently seen first."""

    def fresh(self, scope: str) -> frozenset[str]:
        """Return ids of the tasks that no finished night has used."""

    def commit(self, scope: str, tasks: Sequence[TaskRecord], mined: Sequence[SessionKey]) -> None:
        """Store tasks by id and take sessions out of the inbox, in one step; new and changed tasks count as unused."""

    def past(self, scope: str) -> Past:
        """Return which tasks no night has used, and how often each other task was used for validation."""

    def used(self, scope: str, night: str, dealt: Mapping[Split, Sequence[str]]) -> None:
        """Mark these tasks, by id, as used by a night that ended in accept, reject or undecided."""


class RejectedEdits(Protocol):
    """A store of edits that the gate rejected, to be shown to models that propose edits. Raises ``DiskError`` only."""

    def recall(self, project: str) -> tuple[AppliedEdit, ...]:
        """Return the latest rejected edits, the newest first, a few dozen at most."""

    def closed(self, project: str) -> tuple[ClosedEdit, ...]:
        """Return every edit whose trial ended (rejected, given up or proven), whatever documents it was tried on."""

    def remember(
        self, project: str, night: str, edits: Sequence[AppliedEdit], closed: Sequence[ClosedEdit] = ()
    ) -> None:
        """Store rejected edits, and ``closed`` rules with the models and documents they were tried with, each once."""


class Trials(Protocol):
    """A store of undecided edits and of the count of all rules tried. Raises ``DiskError`` only."""

    def pending(self, project: str) -> tuple[PendingEdit, ...]:
        """Return the undecided edits of a project."""

    def conclude(
        self, project: str, pending: Sequence[PendingEdit], tried: Sequence[Tried], *, settled: Iterable[str] = ()
    ) -> None:
        """Replace the undecided edits with ids in ``settled`` by ``pending``; the other edits stay.

        Counts each tried rule (by edit and first night) once, with its latest verdict.
        """

    def account(self, project: str) -> Account:
        """Return the counts of rules tried and proven in a project."""

    def note(self, project: str, night: str, replays: Sequence[BaseReplay], position: Position) -> None:
        """Store a night's replays of live documents and how often judges preferred the first or second answer."""

    def replays(self, project: str) -> tuple[BaseReplay, ...]:
        """Return the replays of live documents from all nights."""

    def position(self, project: str) -> Position:
        """Return how often, over all nights, a judge preferred the answer shown first, and how often the second one."""

    def attempt(self, project: str, change: str, night: str) -> int:
        """Count a night's attempt to test an adopted change on the sealed tasks; return how many nights have tried."""

    def scored(self, project: str, test: SealedTest) -> None:
        """Store an adopted change's result on the sealed tasks (used for nothing else); it is never scored again."""


class Outcome(Protocol):
    """What a stage of the night produces: a value that can be stored and that adds its part to the report."""

    def add_to(self, report: NightReport) -> NightReport:
        """Return the report with this stage's part added, without any other effect."""


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


class OpenNight(Protocol):
    """A running night, with a journal in which it stores the outcome of each stage."""

    @property
    def id(self) -> str:
        """The night's name, which stays the same when the night is resumed."""

    @property
    def seed(self) -> int:
        """The night's own random seed, which stays the same when the night is resumed."""

    @property
    def ledger(self) -> Ledger:
        """The store of this night's replies."""

    def stage(self, name: str, work: Callable[P, OutcomeT], *args: P.args, **kwargs: P.kwargs) -> OutcomeT:
        """Do the work of a stage, store its outcome, add it to the report and write ``diagnostics.json``.

        A resumed night returns the stored outcome of a finished stage without doing its work again. The type
        of an outcome is read from the return annotation of ``work``. Raises what ``work`` raises, and ``DiskError``.
        """

    def look(self, name: str, work: Callable[P, OutcomeT], *args: P.args, **kwargs: P.kwargs) -> OutcomeT:
        """Do work that a resumed night must do again, such as a login check; report its outcome without storing it."""

    def evidence(self, rows: Sequence[EvidenceRow]) -> None:
        """Write ``evidence.jsonl``, one line for each rollout. Raises ``DiskError``."""

    def report(self) -> NightReport:
        """Return the report of the stages done so far."""


class Journal(Protocol):
    """A store of nights with the outcomes of their stages, from which an interrupted night is resumed."""

    def open(self, report: NightReport, fingerprint: str) -> AbstractContextManager[OpenNight]:
        """Begin a night, or resume this project's last one if it was interrupted with this fingerprint of its plan.

        Leaving the context ends the night: an expected end (``BackendError``, ``BudgetSpent``, ``Interrupted``,
        ``Refused``, Ctrl-C) is written to the report and not raised; anything else is reported as a crash and raised
        again.
        """


class Proposed(NamedTuple):
    """The changes that a night proposes for one agent's documents; ``edits`` turn baseline into candidate, in order."""

    baseline: Candidate
    candidate: Candidate
    edits: Sequence[AppliedEdit]
    untried: str = ""


class Staging(Protocol):
    """A store of proposals, kept beside the live files, which it never changes."""

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
        other agents. Raises ``DiskError``, and ``Refused`` where a live path is not a plain file of the project.
        """
