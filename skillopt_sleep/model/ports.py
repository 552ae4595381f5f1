"""Protocols of the adapters and of the way to a model; each docstring says what may be raised and changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import ParamSpec, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from skillopt_sleep.model.call import Attempt, Health, Prompt, Reply, Role, Spend
from skillopt_sleep.model.rollout import Assignment, ReplayMode, ReplayResult, Score, Trajectory
from skillopt_sleep.model.session import Session, SessionFile, Skip
from skillopt_sleep.model.step import Conversation
from skillopt_sleep.model.task import TaskRecord

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class Clock(Protocol):
    """Time and sleep, replaceable in tests."""

    def now(self) -> datetime:
        """Return the current time, in UTC with its time zone."""

    def monotonic(self) -> float:
        """Return seconds from a clock that never goes back."""

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


@runtime_checkable
class ReadsSteps(Protocol):
    """A source that can also read what the agent did; without it a session simply has no steps."""

    def read_steps(self, file: SessionFile, skipped: Callable[[Skip], None]) -> Conversation | None:
        """Read the steps of one session, bounded but not redacted; None where ``read`` returns None.

        Every turn has the id that ``read`` gives it. Problems are reported to ``skipped`` as by ``read``. Raises
        nothing.
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
        """Who receives the prompts, in words for the user."""

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
class NamesProvider(Protocol):
    """A backend that names the provider it sends prompts to; the user is asked about one that does not."""

    @property
    def provider(self) -> str:
        """A stable name such as anthropic, openai or a host; "" when nothing leaves this machine."""


@runtime_checkable
class NamesPrice(Protocol):
    """A backend that says beforehand whether its replies may name a price; others are assumed to."""

    @property
    def priced(self) -> bool:
        """False when nothing it answers ever costs dollars that it knows of."""


@runtime_checkable
class RunsLocally(Protocol):
    """A backend whose every call starts a process on this machine."""

    @property
    def footprint(self) -> int:
        """Bytes of memory that one call needs."""


@runtime_checkable
class HoldsReplies(Protocol):
    """A backend that keeps replies until they are stored elsewhere."""

    def kept(self, prompt: Prompt) -> None:
        """Drop the reply to this prompt, which is in the ledger now. Raises ``DiskError``."""


@runtime_checkable
class Agent(Protocol):
    """A backend whose agent can work in a folder. Safe to call from several threads at once."""

    def refuses(self, mode: ReplayMode) -> str:
        """Why this machine cannot replay so, in one line that says what to install, "" when it can.

        For text: why its agent cannot try once, in a folder, what was tried as text. Found out without a model call.
        Raises nothing.
        """

    def run(self, assignment: Assignment) -> Trajectory:
        """Have the agent do it, in a throwaway workspace of which nothing is left.

        What the agent itself did, refusing, running out of turns or time, breaking the workspace, is how it ended. For
        what transport lost it raises as ``Backend.complete`` does; nothing of the user's but the login takes part. An
        assignment with a ``put_back`` begins with that session up to there; what cannot be resumed raises
        ``NotPutBack``, whose message is one line.
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

    @property
    def reference(self) -> type[Struct]:
        """The Struct that a task file's reference of this kind is read into.

        Its ``tag_field`` is "kind" and its ``tag`` the judge's name; a ``ValueError`` of its ``__post_init__`` is shown
        to the user with the place in the file. Read it from a task with ``model.task.require_reference``.
        """

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
    """Receives the progress of long work. Raises nothing; called from any thread."""

    def begin(self, total: int) -> None:
        """Announce that so many independent pieces of work begin."""

    def step(self) -> None:
        """Report that one of them is done."""

    def spent(self, phase: str, spend: Spend) -> None:
        """Report what has been spent after a call of that phase."""


class Ledger(Protocol):
    """Store: the replies one night has paid for, and the account of every attempt."""

    def find(self, role: Role, prompt: Prompt, model: str) -> Reply | None:
        """The committed reply to this prompt and sample, if there is one; it is counted as reused by ``reuse``."""

    def reuse(self, phase: str) -> None:
        """Count a reply that cost nothing because it had been paid for."""

    def commit(self, role: Role, prompt: Prompt, model: str, reply: Reply, attempt: Attempt) -> None:
        """Keep a reply for good, and account of the attempt that brought it, in one step. Raises ``DiskError``."""

    def record(self, attempt: Attempt) -> None:
        """Record an attempt that brought no reply. Raises ``DiskError``."""

    def spent(self) -> Spend:
        """Return what earlier attempts have cost, which counts towards the caps."""

    def spent_on(self, day: str) -> Spend:
        """What the nights that asked so have spent on a day, each since it first asked. Raises ``DiskError``."""
