"""Send a prompt once and record what became of it; return a reply that is already paid for without sending.

These are the two ends of the chain: ``Ledgered`` is the outermost wrapper, ``Recorded`` the innermost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from skillopt_sleep.errors import Awaiting, BackendError, BadReply, BudgetSpent, SleepError, UsageError
from skillopt_sleep.model.call import Attempt, Prompt, Reply, Role, Usage, correct_error, correct_reply
from skillopt_sleep.model.ports import Agent, Backend, Clock, HoldsReplies, Ledger
from skillopt_sleep.model.rollout import Assignment, Ending, Trajectory

if TYPE_CHECKING:
    from skillopt_sleep.safety.redaction.redactor import Redactor

V = TypeVar("V")
SAME_TIME = 1.0
"""Seconds by which the measured time of a run that ends at its deadline may fall short of it."""


class Send(Protocol):
    """Answers a prompt, trying again where that helps."""

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Raise what ``ports.Ask`` raises."""


class SendOnce(Protocol):
    """Makes one attempt, the ``number``-th for this prompt, counted from 1."""

    def __call__(self, prompt: Prompt, *, phase: str, number: int) -> Reply:
        """Raise what ``ports.Ask`` raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledgered:
    """The ``ports.Ask`` of one role: answers from the ledger, or sends.

    Two threads that ask the same thing at once share one call: the second waits for the first one's reply.
    """

    role: Role
    model: str
    """The name that replies are stored under."""
    ledger: Ledger
    send: Send
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asking: dict[tuple[str, int], threading.Lock] = field(default_factory=dict)

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Answer one prompt."""
        with self._hold((prompt.digest, prompt.sample)):
            known = self.ledger.find(self.role, prompt, self.model)
            if known is not None:
                self.ledger.reuse(phase)
                return known
            return self.send(prompt, phase=phase)

    @contextmanager
    def _hold(self, key: tuple[str, int]) -> Iterator[None]:
        with self._lock:
            lock = self._asking.setdefault(key, threading.Lock())
        with lock:
            try:
                yield
            finally:
                with self._lock:
                    self._asking.pop(key, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Makes one request to the backend and records its outcome, tokens, price and time.

    A reply and its price are committed in one step, before anyone sees them: a night killed between two calls neither
    loses nor repeats one.
    """

    role: Role
    model: str
    """The name that replies are stored under."""
    backend: Backend
    ledger: Ledger
    clock: Clock
    redactor: Redactor | None = None
    """Removes secrets from prompts, replies and error messages; None when there can be none."""
    versions: Mapping[Role, str] = field(default_factory=dict)
    """The version of each role's command line, once it was checked."""
    _told: HoldsReplies | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find out once whether the backend is to be told of stored replies."""
        object.__setattr__(self, "_told", self.backend if isinstance(self.backend, HoldsReplies) else None)

    def __call__(self, prompt: Prompt, *, phase: str, number: int) -> Reply:
        """Send the prompt once, and record the outcome."""
        started = self.clock.monotonic()
        attempt = Attempt(phase=phase, role=self.role, number=number)
        sent = prompt
        try:
            sent = replace(prompt, system=self._clean(prompt.system), user=self._clean(prompt.user))
            reply = self._clean(correct_reply(_send(self.backend, sent), sent))
            _require_finished(reply, prompt)
            reply = replace(reply, answered_at=self.clock.now().isoformat(), version=self.versions.get(self.role, ""))
        except Awaiting:  # nothing was sent, so there is nothing to record
            raise
        except (BackendError, BudgetSpent) as error:
            correct_error(error, sent)
            error.args = tuple(self._clean(part) if isinstance(part, str) else part for part in error.args)
            self.ledger.record(
                replace(
                    attempt,
                    error=type(error).__name__,
                    usage=Usage(input_tokens=error.input_tokens, output_tokens=error.output_tokens),
                    cost_usd=error.cost_usd,
                    seconds=self.clock.monotonic() - started,
                )
            )
            raise
        seconds = self.clock.monotonic() - started
        attempt = replace(attempt, usage=reply.usage, cost_usd=reply.cost_usd, seconds=seconds)
        self.ledger.commit(self.role, prompt, self.model, reply, attempt)
        if self._told is not None:
            self._told.kept(sent)
        return reply

    def _clean(self, value: V) -> V:
        return value if self.redactor is None else self.redactor.clean(value)


def _send(backend: Backend, prompt: Prompt) -> Reply:
    """Give an assignment to the agent behind the backend, any other prompt to the model.

    A reply that the backend fails to read is a lost call like any other: counted, and no reason to end the night.
    """
    if isinstance(prompt, Assignment):
        if not isinstance(backend, Agent):
            raise UsageError(f"the backend {backend.name} has no agent that could work in a folder; use --replay text")
        answer: Callable[[], Reply] = partial(backend.run, prompt)
    else:
        answer = partial(backend.complete, prompt)
    try:
        return answer()
    except SleepError:
        raise
    except (ArithmeticError, RecursionError, ValueError, msgspec.MsgspecError) as error:
        raise BadReply(f"the reply of {backend.name} cannot be read ({type(error).__name__}: {error})") from error


def _require_finished(reply: Reply, prompt: Prompt) -> None:
    """Raise ``BudgetSpent`` for an agent's run that the cap on minutes cut short: it tells nothing of the agent."""
    left = prompt.within.seconds
    if left is None or not isinstance(reply, Trajectory) or reply.ending is not Ending.OUT_OF_TIME:
        return
    if reply.latency >= left - SAME_TIME:
        error = BudgetSpent("the cap on minutes came while the agent was at work; raise --max-minutes", cap="minutes")
        error.input_tokens, error.output_tokens = reply.usage.input_tokens, reply.usage.output_tokens
        error.cost_usd = reply.cost_usd
        raise error
