"""What the stages of a night need from outside: protocols only, each saying what it may raise and change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import ParamSpec, Protocol, TypeVar, runtime_checkable

from skillopt_sleep.domain.account import Account, Tried
from skillopt_sleep.domain.assignment import Assignment, ReplayMode, Trajectory
from skillopt_sleep.domain.audit import BaseReplay, Position
from skillopt_sleep.domain.budget import Spend
from skillopt_sleep.domain.call import Attempt, Health, Prompt, Reply, Role
from skillopt_sleep.domain.edit import AppliedEdit
from skillopt_sleep.domain.evidence import EvidenceRow
from skillopt_sleep.domain.pending import ClosedEdit, PendingEdit
from skillopt_sleep.domain.report import NightReport
from skillopt_sleep.domain.rollout import ReplayResult, Score
from skillopt_sleep.domain.sealed import SealedTest
from skillopt_sleep.domain.session import Session, SessionFile, SessionKey, Skip
from skillopt_sleep.domain.split import Past
from skillopt_sleep.domain.task import Split, TaskRecord

__all__ = [
    "Agent",
    "Archive",
    "Ask",
    "Backend",
    "Clock",
    "Inbox",
    "Journal",
    "Judge",
    "Ledger",
    "OpenNight",
    "Outcome",
    "PairJudge",
    "Parallel",
    "Progress",
    "RejectedEdits",
    "RunsHere",
    "SentTo",
    "Source",
    "ToldKept",
    "Trials",
]

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class Clock(Protocol):
    """Time and sleep, so that tests need neither."""

    def now(self) -> datetime:
        """The present moment, aware, UTC."""

    def monotonic(self) -> float:
        """Seconds that only ever rise."""

    def sleep(self, seconds: float) -> None:
        """Wait; may raise ``Interrupted`` when the night is stopped meanwhile."""


class Source(Protocol):
    """One agent's session files on disk. Reads only; never writes, follows no link out of its home."""

    @property
    def name(self) -> str:
        """The registry name, which is the file name of the adapter."""

    def files(self, skipped: Callable[[Skip], None]) -> Iterator[SessionFile]:
        """Every regular session file, by stat alone: nothing is opened.

        FIFOs, dangling links and unreadable folders are reported to ``skipped``. Raises nothing.
        """

    def read(self, file: SessionFile, skipped: Callable[[Skip], None]) -> Session | None:
        """Stream one file into a session; None when no person typed in it (headless, sub-agent, empty).

        Malformed lines and a file that vanishes or cannot be read are reported to ``skipped``. Raises nothing.
        """


class Backend(Protocol):
    """One agent CLI or API: transport only. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """The registry name, which is the file name of the adapter."""

    @property
    def model(self) -> str:
        """The model asked for; "" means the CLI's own default."""

    @property
    def sees(self) -> str:
        """Who is sent the prompts, in words for the user."""

    def probe(self) -> Health:
        """Whether a call could succeed, found out without a model call. Raises nothing."""

    def complete(self, prompt: Prompt) -> Reply:
        """One answer to one prompt, never an error text and never "" as if the model had said it.

        Raises ``FatalBackend`` (NotInstalled, NotLoggedIn, ModelRefused, TooOld, QuotaExhausted) or
        ``TransientBackend`` (RateLimited, Overloaded, TimedOut, EmptyReply, BadReply); nothing else on purpose.
        """

    def close(self) -> None:
        """End every child that is still running; later calls raise ``TimedOut``. Idempotent."""


@runtime_checkable
class SentTo(Protocol):
    """A backend that says whom it sends its prompts to; the user is asked about one that does not."""

    @property
    def provider(self) -> str:
        """A name that stays the same: anthropic, openai, a host; "" when nothing leaves this machine."""


@runtime_checkable
class Priced(Protocol):
    """A backend that says beforehand whether its replies may name a price; one that does not say is taken to."""

    @property
    def priced(self) -> bool:
        """False when nothing it answers ever costs dollars that it knows of."""


@runtime_checkable
class RunsHere(Protocol):
    """A backend each of whose calls is a process on this machine."""

    @property
    def footprint(self) -> int:
        """Bytes of memory that one call takes."""


@runtime_checkable
class ToldKept(Protocol):
    """A backend that holds replies until they are kept elsewhere."""

    def kept(self, prompt: Prompt) -> None:
        """The reply to this prompt, as it was sent, is in the ledger. Raises ``DiskError``."""


@runtime_checkable
class Agent(Protocol):
    """A backend with an agent behind it, which can be let to work in a folder. Safe to call from several threads."""

    def refuses(self, mode: ReplayMode) -> str:
        """Why this machine cannot replay so, in one line that says what to install, "" when it can.

        Found out without a model call. Raises nothing.
        """

    def run(self, assignment: Assignment) -> Trajectory:
        """Have the agent do it, in a throwaway workspace of which nothing is left.

        What the agent itself did, refusing, running out of turns or time, breaking the workspace, is how it ended. For
        what transport lost it raises as ``Backend.complete`` does; nothing of the user's but the login takes part.
        """


class Ask(Protocol):
    """One role's way to a model: every call passes ledger, budget, limit and retry before the backend."""

    @property
    def model(self) -> str:
        """The model asked for; "" means the backend's default."""

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Answer ``prompt``; the reply is committed before it is returned.

        An ``Assignment`` is answered by a ``Trajectory``. Raises what ``Backend.complete`` raises after the retries,
        ``BudgetSpent`` before anything is sent, and ``Interrupted``.
        """


class Judge(Protocol):
    """One way of scoring a rollout."""

    @property
    def name(self) -> str:
        """The registry name, which is also the ``kind`` of the references it scores."""

    def score(self, task: TaskRecord, rollout: ReplayResult, ask: Ask) -> Score:
        """Score a measured response of the task.

        Raises what ``ask`` raises (the rollout is then unmeasured) and ``BadReply`` when a model's verdict cannot be
        read; a malformed reference has been refused long before.
        """


@runtime_checkable
class PairJudge(Protocol):
    """A judge that can score both answers of a pair in one call, without being told which is which."""

    def score_pair(self, task: TaskRecord, first: ReplayResult, second: ReplayResult, ask: Ask) -> tuple[Score, Score]:
        """Score two measured responses of the task, in the order given. Raises what ``Judge.score`` raises."""


class Parallel(Protocol):
    """Independent work, done at once as far as the workers go."""

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply ``work`` to every item; results in the order of the items. Raises what ``work`` raises."""


class Progress(Protocol):
    """Whoever watches long work. Raises nothing; called from any thread."""

    def begin(self, total: int) -> None:
        """That many independent pieces of work begin."""

    def step(self) -> None:
        """One of them is done."""

    def spent(self, phase: str, spend: Spend) -> None:
        """A call of that phase has been settled; this is the account now."""


class Ledger(Protocol):
    """Store: the replies one night has paid for, and the account of every attempt."""

    def find(self, role: Role, prompt: Prompt, model: str) -> Reply | None:
        """The committed reply to this prompt and sample, if there is one; it is counted as reused by ``reuse``."""

    def reuse(self, phase: str) -> None:
        """Count a reply that cost nothing because it had been paid for."""

    def commit(self, role: Role, prompt: Prompt, model: str, reply: Reply, attempt: Attempt) -> None:
        """Keep a reply for good, and account of the attempt that brought it, in one step. Raises ``DiskError``."""

    def record(self, attempt: Attempt) -> None:
        """Keep account of an attempt that brought no reply. Raises ``DiskError``."""

    def spent(self) -> Spend:
        """What earlier attempts have cost, against which caps are to count."""

    def spent_on(self, day: str) -> Spend:
        """What the nights that asked so have spent on a day, each since it first asked. Raises ``DiskError``."""


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
