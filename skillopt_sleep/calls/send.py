"""The seams between the wrappers, and the innermost one: one request, timed, kept and put on the account.

Outermost: a reply already paid for in this night is returned, and nothing is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec.structs import replace

from skillopt_sleep.errors import Awaiting, BackendError, BudgetSpent, UsageError
from skillopt_sleep.model.call import Attempt, Prompt, Reply, Role, Usage
from skillopt_sleep.model.ports import Agent, Backend, Clock, Ledger, ToldKept
from skillopt_sleep.model.rollout import Assignment, Ending, Trajectory

if TYPE_CHECKING:
    from skillopt_sleep.safety.redaction.redactor import Redactor

V = TypeVar("V")
SAME_TIME = 1.0
"""Seconds by which a run that ends at its deadline may be measured shorter."""


class Send(Protocol):
    """Answer a prompt, trying again where that helps."""

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Raise what ``ports.Ask`` raises."""


class SendOnce(Protocol):
    """Make one attempt, the ``number``-th for this prompt, counted from 1."""

    def __call__(self, prompt: Prompt, *, phase: str, number: int) -> Reply:
        """Raise what ``ports.Ask`` raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One request to the backend; whatever becomes of it is recorded with its class, tokens, price and time.

    A reply and its price are committed in one step, before anyone sees them: a night killed between two calls neither
    loses nor repeats one. ``model`` is the name replies are kept under.
    """

    role: Role
    model: str
    backend: Backend
    ledger: Ledger
    clock: Clock
    redactor: Redactor | None = None
    """Takes secrets out of what is sent, answered and complained of; None where there can be none."""
    _told: ToldKept | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Look once at what every call would have to."""
        object.__setattr__(self, "_told", self.backend if isinstance(self.backend, ToldKept) else None)

    def __call__(self, prompt: Prompt, *, phase: str, number: int) -> Reply:
        """Send once."""
        started = self.clock.monotonic()
        try:
            sent = self._without_secrets(prompt)
            reply = self._cleaned(_sent(self.backend, sent))
            _require_whole(reply, prompt)
        except Awaiting:  # nothing was sent, and nothing is on the account
            raise
        except (BackendError, BudgetSpent) as error:
            error.args = tuple(self._cleaned(each) if isinstance(each, str) else each for each in error.args)
            self.ledger.record(
                Attempt(
                    phase=phase,
                    role=self.role,
                    number=number,
                    error=type(error).__name__,
                    usage=Usage(input_tokens=error.input_tokens, output_tokens=error.output_tokens),
                    cost_usd=error.cost_usd,
                    seconds=self.clock.monotonic() - started,
                )
            )
            raise
        attempt = Attempt(
            phase=phase,
            role=self.role,
            number=number,
            usage=reply.usage,
            cost_usd=reply.cost_usd,
            seconds=self.clock.monotonic() - started,
        )
        self.ledger.commit(self.role, prompt, self.model, reply, attempt)
        if self._told is not None:
            self._told.kept(sent)
        return reply

    def _without_secrets(self, prompt: Prompt) -> Prompt:
        return replace(prompt, system=self._cleaned(prompt.system), user=self._cleaned(prompt.user))

    def _cleaned(self, value: V) -> V:
        return value if self.redactor is None else self.redactor.clean(value)


def _require_whole(reply: Reply, prompt: Prompt) -> None:
    """Raise ``BudgetSpent`` for work that was cut at the cap on minutes: that says nothing about the agent."""
    left = prompt.within.seconds
    if left is None or not isinstance(reply, Trajectory) or reply.ending is not Ending.OUT_OF_TIME:
        return
    if reply.latency >= left - SAME_TIME:
        error = BudgetSpent("the cap on minutes came while the agent was at work; raise --max-minutes", cap="minutes")
        error.input_tokens, error.output_tokens = reply.usage.input_tokens, reply.usage.output_tokens
        error.cost_usd = reply.cost_usd
        raise error


def _sent(backend: Backend, prompt: Prompt) -> Reply:
    """An assignment goes to the agent behind the backend, any other prompt to the model."""
    if isinstance(prompt, Assignment):
        if not isinstance(backend, Agent):
            raise UsageError(f"the backend {backend.name} has no agent that could be let to work; use --replay text")
        return backend.run(prompt)
    return backend.complete(prompt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledgered:
    """The ``ports.Ask`` of one role.

    Two threads that ask the same thing at once share one call: the second waits for the first one's reply.
    """

    role: Role
    model: str
    ledger: Ledger
    send: Send
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asking: dict[tuple[str, int], threading.Lock] = field(default_factory=dict)

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Answer from the ledger, or send."""
        with self._alone((prompt.digest, prompt.sample)):
            known = self.ledger.find(self.role, prompt, self.model)
            if known is not None:
                self.ledger.reuse(phase)
                return known
            return self.send(prompt, phase=phase)

    @contextmanager
    def _alone(self, key: tuple[str, int]) -> Iterator[None]:
        with self._lock:
            mine = self._asking.setdefault(key, threading.Lock())
        with mine:
            try:
                yield
            finally:
                with self._lock:
                    self._asking.pop(key, None)
