"""What the stages of a night need from outside: five protocols, each saying what it may raise and change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Protocol

from skillopt_sleep.domain.call import Health, Prompt, Reply
from skillopt_sleep.domain.rollout import ReplayResult, Score
from skillopt_sleep.domain.session import Session, SessionFile, Skip
from skillopt_sleep.domain.task import TaskRecord

__all__ = ["Ask", "Backend", "Clock", "Judge", "Source"]


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

    def probe(self) -> Health:
        """Whether a call could succeed, found out without a model call. Raises nothing."""

    def complete(self, prompt: Prompt) -> Reply:
        """One answer to one prompt, never an error text and never "" as if the model had said it.

        Raises ``FatalBackend`` (NotInstalled, NotLoggedIn, ModelRefused, TooOld, QuotaExhausted) or
        ``TransientBackend`` (RateLimited, Overloaded, TimedOut, EmptyReply, BadReply); nothing else on purpose.
        """

    def close(self) -> None:
        """End every child that is still running; later calls raise ``TimedOut``. Idempotent."""


class Ask(Protocol):
    """One role's way to a model: every call passes ledger, budget, limit and retry before the backend."""

    @property
    def model(self) -> str:
        """The model asked for; "" means the backend's default."""

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Answer ``prompt``; the reply is committed before it is returned.

        Raises what ``Backend.complete`` raises after the retries, ``BudgetSpent`` before anything is sent, and
        ``Interrupted``.
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
