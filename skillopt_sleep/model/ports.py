"""Protocols of the adapters and of the calls to a model; the docstrings name exceptions and side effects."""

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
    """A clock that tests can replace."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime in UTC."""

    def monotonic(self) -> float:
        """Return the time of a clock that never goes back, in seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds. May raise ``Interrupted`` when the night is stopped meanwhile."""


class Source(Protocol):
    """One agent's session files on disk. A source only reads, and follows no link out of its home."""

    @property
    def name(self) -> str:
        """Return the name of the adapter in the registry, which is its file name."""

    def files(self, skipped: Callable[[Skip], None]) -> Iterator[SessionFile]:
        """Yield every regular session file with its size and time; no file is opened.

        Report FIFOs, dangling links and unreadable folders to ``skipped``. Raises nothing.
        """

    def read(self, file: SessionFile, skipped: Callable[[Skip], None]) -> Session | None:
        """Return the session in a file, or None when no person typed in it (headless, sub-agent, empty).

        Report malformed lines, and a file that vanishes or cannot be read, to ``skipped``. Raises nothing.
        """


@runtime_checkable
class ReadsSteps(Protocol):
    """A source that can also read what the agent did; sessions of other sources have no steps."""

    def read_steps(self, file: SessionFile, skipped: Callable[[Skip], None]) -> Conversation | None:
        """Return the steps of one session, shortened but not redacted; None when ``read`` returns None.

        Every turn has the id that ``read`` gives it. Problems are reported to ``skipped``, as by ``read``. Raises
        nothing.
        """


class Backend(Protocol):
    """One agent CLI or API, which sends prompts and returns replies. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """Return the name of the adapter in the registry, which is its file name."""

    @property
    def model(self) -> str:
        """Return the name of the requested model; "" means the CLI's own default."""

    @property
    def sees(self) -> str:
        """Return who receives the prompts, in words that the user understands."""

    def probe(self) -> Health:
        """Return whether a call could succeed, without making a model call. Raises nothing."""

    def complete(self, prompt: Prompt) -> Reply:
        """Return the model's answer to a prompt; an error text or an empty answer raises an error instead.

        Raises ``FatalBackend`` (NotInstalled, NotLoggedIn, ModelRefused, TooOld, QuotaExhausted) or
        ``TransientBackend`` (RateLimited, Overloaded, TimedOut, EmptyReply, BadReply); nothing else on purpose.
        """

    def close(self) -> None:
        """End every child process that still runs; later calls raise ``TimedOut``. May be called repeatedly."""


@runtime_checkable
class NamesProvider(Protocol):
    """A backend that names the provider that receives its prompts; for any other, consent names the backend itself."""

    @property
    def provider(self) -> str:
        """Return a stable name such as anthropic, openai or a host; "" when nothing leaves this machine."""


@runtime_checkable
class NamesPrice(Protocol):
    """A backend that says beforehand whether its replies may cost money; replies of other backends are assumed to."""

    @property
    def priced(self) -> bool:
        """Return False when no reply of the backend ever costs dollars, else True."""


@runtime_checkable
class RunsLocally(Protocol):
    """A backend whose every call starts a process on this machine."""

    @property
    def footprint(self) -> int:
        """Return the bytes of memory that one call needs."""


@runtime_checkable
class HoldsReplies(Protocol):
    """A backend that stores its replies itself until they are in the ledger."""

    def kept(self, prompt: Prompt) -> None:
        """Delete the backend's copy of the reply to this prompt, which is now in the ledger. Raises ``DiskError``."""


@runtime_checkable
class Agent(Protocol):
    """A backend whose agent can work in a folder. Safe to call from several threads at once."""

    def refuses(self, mode: ReplayMode) -> str:
        """Return why this machine cannot replay in this mode, in one line that says what to install; "" when it can.

        For text mode, return why the agent cannot load, in a folder, a candidate that was tried as text. Makes no model
        call. Raises nothing.
        """

    def run(self, assignment: Assignment) -> Trajectory:
        """Let the agent carry out an assignment in a throwaway workspace, which is then deleted.

        An agent that refuses, runs out of turns or time, or breaks the workspace determines the ``ending`` of the
        trajectory. Failures of transport raise as in ``Backend.complete``. Of the user's own setup, only the login is
        used. An assignment with ``put_back`` resumes that session up to its cut; raises ``NotPutBack``, with a message
        of one line, if it cannot.
        """


class Ask(Protocol):
    """The function by which one role calls its model. Every call first passes ledger, budget, limit and retry."""

    @property
    def model(self) -> str:
        """Return the name of the requested model; "" means the backend's default."""

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Return the reply to ``prompt``; it is committed to the ledger before it is returned.

        An ``Assignment`` is answered by a ``Trajectory``. Raises what ``Backend.complete`` raises after the retries,
        ``BudgetSpent`` before anything is sent, and ``Interrupted``.
        """


class Judge(Protocol):
    """One way of scoring a rollout."""

    @property
    def name(self) -> str:
        """Return the name of the judge in the registry, which is also the ``kind`` of the references that it scores."""

    @property
    def reference(self) -> type[Struct]:
        """Return the Struct type into which references of this judge are read from a task file.

        Its ``tag_field`` is "kind" and its ``tag`` the judge's name; a ``ValueError`` of its ``__post_init__`` is shown
        to the user with the place in the file. Read it from a task with ``model.task.require_reference``.
        """

    def score(self, task: TaskRecord, rollout: ReplayResult, ask: Ask) -> Score:
        """Return the score of a task's measured response.

        Raises what ``ask`` raises (the rollout is then unmeasured) and ``BadReply`` when a model's verdict cannot be
        read; a malformed reference has been refused long before.
        """


@runtime_checkable
class PairJudge(Protocol):
    """A judge that can score both answers of a pair in one call, without being told which arm an answer is from."""

    def score_pair(self, task: TaskRecord, first: ReplayResult, second: ReplayResult, ask: Ask) -> tuple[Score, Score]:
        """Return the scores of two measured responses to a task, in the order given. Raises as ``Judge.score`` does."""


class Parallel(Protocol):
    """Applies a function to independent items in parallel, on a fixed number of workers."""

    def __call__(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply ``work`` to every item; return the results in the order of the items. Raises what ``work`` raises."""


class Progress(Protocol):
    """Receives reports on the progress of long work. Raises nothing; may be called from any thread."""

    def begin(self, total: int) -> None:
        """Announce the start of so many independent pieces of work."""

    def step(self) -> None:
        """Report that one piece of work is done."""

    def spent(self, phase: str, spend: Spend) -> None:
        """Report what the night has spent after a call of the named phase."""


class Ledger(Protocol):
    """Stores the replies that one night has paid for, and a record of every attempt."""

    def find(self, role: Role, prompt: Prompt, model: str) -> Reply | None:
        """Return the committed reply to this prompt and sample, or None; this does not count the reply as reused."""

    def reuse(self, phase: str) -> None:
        """Count one reply as reused: it cost nothing because it had already been paid for."""

    def commit(self, role: Role, prompt: Prompt, model: str, reply: Reply, attempt: Attempt) -> None:
        """Store a reply and the attempt that brought it permanently, in one transaction. Raises ``DiskError``."""

    def record(self, attempt: Attempt) -> None:
        """Record an attempt that brought no reply. Raises ``DiskError``."""

    def spent(self) -> Spend:
        """Return what the night's earlier attempts have cost, which counts towards the caps."""

    def spent_on(self, day: str) -> Spend:
        """Return what all nights that called this method spent on ``day`` from then on. Raises ``DiskError``."""
