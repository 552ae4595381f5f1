"""Protocols of the adapters and of the calls to a model; each docstring names the exceptions and the side effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import ParamSpec, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from skillopt_sleep.model.call import Attempt, Health, Prompt, Reply, Role, Spend
from skillopt_sleep.model.rollout import Assignment, ReplayMode, ReplayResult, Score, Trajectory
from skillopt_sleep.model.session import Conversation, Session, SessionFile, Skip
from skillopt_sleep.model.task import TaskRecord

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class Clock(Protocol):
    """Time and sleep, replaceable in tests."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime in UTC."""

    def monotonic(self) -> float:
        """Return the seconds of a clock that never goes back."""

    def sleep(self, seconds: float) -> None:
        """Wait; may raise ``Interrupted`` when the night is stopped meanwhile."""


class Source(Protocol):
    """One agent's session files on disk. Reads only; never writes, follows no link out of its home."""

    @property
    def name(self) -> str:
        """Return the registry name, which is the file name of the adapter."""

    def files(self, skipped: Callable[[Skip], None]) -> Iterator[SessionFile]:
        """Yield every regular session file from its metadata (stat); no file is opened.

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
        """Return the registry name, which is the file name of the adapter."""

    @property
    def model(self) -> str:
        """Return the name of the requested model; "" means the CLI's own default."""

    @property
    def sees(self) -> str:
        """Return who receives the prompts, in words for the user."""

    def probe(self) -> Health:
        """Tell whether a call could succeed, without making a model call. Raises nothing."""

    def complete(self, prompt: Prompt) -> Reply:
        """Return the model's answer to a prompt; an error text or an empty answer is never returned but raised.

        Raises ``FatalBackend`` (NotInstalled, NotLoggedIn, ModelRefused, TooOld, QuotaExhausted) or
        ``TransientBackend`` (RateLimited, Overloaded, TimedOut, EmptyReply, BadReply); nothing else on purpose.
        """

    def close(self) -> None:
        """End every child that is still running; later calls raise ``TimedOut``. Idempotent."""


@runtime_checkable
class NamesProvider(Protocol):
    """A backend that names the provider it sends prompts to; any other backend needs consent by its own name."""

    @property
    def provider(self) -> str:
        """Return a stable name such as anthropic, openai or a host; "" when nothing leaves this machine."""


@runtime_checkable
class NamesPrice(Protocol):
    """A backend that says beforehand whether its replies may have a price; other backends' replies are assumed to."""

    @property
    def priced(self) -> bool:
        """Return False when the backend knows that none of its replies ever costs dollars."""


@runtime_checkable
class RunsLocally(Protocol):
    """A backend whose every call starts a process on this machine."""

    @property
    def footprint(self) -> int:
        """Return the bytes of memory that one call needs."""


@runtime_checkable
class HoldsReplies(Protocol):
    """A backend that holds its replies until they are stored in the ledger."""

    def kept(self, prompt: Prompt) -> None:
        """Drop the held reply to this prompt, which is now in the ledger. Raises ``DiskError``."""


@runtime_checkable
class Agent(Protocol):
    """A backend whose agent can work in a folder. Safe to call from several threads at once."""

    def refuses(self, mode: ReplayMode) -> str:
        """Return why this machine cannot replay in this mode, as one line that says what to install; "" when it can.

        For text mode: why the agent cannot load once, in a folder, a candidate that was tried as text. Makes no model
        call. Raises nothing.
        """

    def run(self, assignment: Assignment) -> Trajectory:
        """Let the agent carry out an assignment in a throwaway workspace, which is then deleted.

        If the agent refuses, runs out of turns or time, or breaks the workspace, that is the ``ending`` of the
        trajectory. Failures of transport raise as in ``Backend.complete``. Of the user's own setup, only the login is
        used. An assignment with ``put_back`` resumes that session up to its cut; raises ``NotPutBack``, with a message
        of one line, if it cannot.
        """


class Ask(Protocol):
    """The calls of one role to its model: each passes ledger, budget, limit and retry before it reaches the backend."""

    @property
    def model(self) -> str:
        """Return the name of the requested model; "" means the backend's default."""

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Answer ``prompt``; the reply is committed before it is returned.

        An ``Assignment`` is answered by a ``Trajectory``. Raises what ``Backend.complete`` raises after the retries,
        ``BudgetSpent`` before anything is sent, and ``Interrupted``.
        """


class Judge(Protocol):
    """One way of scoring a rollout."""

    @property
    def name(self) -> str:
        """Return the registry name, which is also the ``kind`` of the references that the judge scores."""

    @property
    def reference(self) -> type[Struct]:
        """Return the Struct type into which the references of this kind in a task file are read.

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
    """Runs independent work in parallel, on as many workers as there are."""

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply ``work`` to every item; return the results in the order of the items. Raises what ``work`` raises."""


class Progress(Protocol):
    """Receives the progress of long work. Raises nothing; called from any thread."""

    def begin(self, total: int) -> None:
        """Announce the start of so many independent pieces of work."""

    def step(self) -> None:
        """Report that one piece of work is done."""

    def spent(self, phase: str, spend: Spend) -> None:
        """Report what the night has spent after a call of the named phase."""


class Ledger(Protocol):
    """Stores the replies that one night has paid for, and the account of every attempt."""

    def find(self, role: Role, prompt: Prompt, model: str) -> Reply | None:
        """Return the committed reply to this prompt and sample, None without one; does not count it as reused."""

    def reuse(self, phase: str) -> None:
        """Count one reply as reused: it cost nothing because it had already been paid for."""

    def commit(self, role: Role, prompt: Prompt, model: str, reply: Reply, attempt: Attempt) -> None:
        """Store a reply permanently, together with the attempt that brought it, in one step. Raises ``DiskError``."""

    def record(self, attempt: Attempt) -> None:
        """Record an attempt that brought no reply. Raises ``DiskError``."""

    def spent(self) -> Spend:
        """Return what earlier attempts have cost, which counts towards the caps."""

    def spent_on(self, day: str) -> Spend:
        """Return a day's spending of all nights that called this, each since its first call. Raises ``DiskError``."""
