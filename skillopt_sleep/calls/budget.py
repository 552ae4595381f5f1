"""Refuse the call that could overspend, before it is sent; one budget for all roles of a night."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from skillopt_sleep.calls.send import SendOnce
from skillopt_sleep.domain.assignment import Assignment, Trajectory
from skillopt_sleep.domain.budget import Allowance, Caps, Spend, blocking_cap
from skillopt_sleep.domain.call import Prompt, Reply, Usage
from skillopt_sleep.errors import BackendError, BudgetSpent
from skillopt_sleep.ports import Clock, Progress

__all__ = ["Budget", "Budgeted"]

CHARS_PER_TOKEN = 4
EXPECTED_OUTPUT_TOKENS = 600
"""Until the night has answers of its own to go by."""
EXPECTED_WORK_TOKENS = 15_000
"""The same for an agent at work: two or three requests, each with its own instructions and tools."""


class Budget:
    """Caps, and what has been spent against them. Safe from several threads.

    ``spent`` is what earlier processes of this sitting have paid for; the minutes are those of this process. ``day``
    is what this night shares with others, as it stands now.
    """

    def __init__(self, caps: Caps, spent: Spend, clock: Clock, day: Allowance | None = None) -> None:
        self.caps = caps
        self._day = day
        self._before = spent
        self._clock = clock
        self._started = clock.monotonic() - spent.seconds
        self._spent = spent
        self._in_flight = 0
        self._works = self._work_tokens = 0
        self._lock = threading.Lock()

    @property
    def spent(self) -> Spend:
        """What has been spent up to now, with the seconds on the clock."""
        return Spend(
            calls=self._spent.calls,
            tokens=self._spent.tokens,
            usd=self._spent.usd,
            unpriced=self._spent.unpriced,
            seconds=self._clock.monotonic() - self._started,
        )

    def reserve(self, prompt: Prompt) -> None:
        """Make room for one call; raises ``BudgetSpent`` naming the cap and how to raise it."""
        with self._lock:
            spent = self.spent
            tokens = self._expected(prompt)
            priced = spent.calls - spent.unpriced
            usd = spent.usd / priced if priced else 0.0
            cap = blocking_cap(self.caps, spent, in_flight=self._in_flight, tokens_per_call=tokens, usd_per_call=usd)
            if cap is None and self._day is not None:
                self._reserve_of_day(self._day, spent, tokens_per_call=tokens, usd_per_call=usd)
            if cap is not None:
                raise BudgetSpent(
                    f"the cap of {getattr(self.caps, cap):g} {cap} is reached"
                    f" ({spent.calls} calls, {spent.tokens:,} tokens, {spent.usd:.2f} USD, {spent.seconds / 60:.1f} min"
                    f" spent); run again to go on, or raise --max-{cap}",
                    cap=cap,
                )
            self._in_flight += 1

    def _expected(self, prompt: Prompt) -> float:
        """Tokens that a call is expected to take; an agent at work takes what its like have taken tonight."""
        if isinstance(prompt, Assignment):
            return self._work_tokens / self._works if self._works else EXPECTED_WORK_TOKENS
        return (len(prompt.system) + len(prompt.user)) / CHARS_PER_TOKEN + EXPECTED_OUTPUT_TOKENS

    def _reserve_of_day(self, day: Allowance, spent: Spend, *, tokens_per_call: float, usd_per_call: float) -> None:
        """Make room in what all nights of the day share. Raises ``BudgetSpent``."""
        before = self._before
        ours = Spend(
            calls=spent.calls - before.calls,
            tokens=spent.tokens - before.tokens,
            usd=spent.usd - before.usd,
            unpriced=spent.unpriced - before.unpriced,
        )
        whole = day.after(ours)
        cap = blocking_cap(
            day.caps, whole, in_flight=self._in_flight, tokens_per_call=tokens_per_call, usd_per_call=usd_per_call
        )
        if cap is not None:
            raise BudgetSpent(
                f"the cap of {getattr(day.caps, cap):g} {cap} a day, for all projects together, is reached"
                f" ({whole.calls} calls, {whole.tokens:,} tokens, {whole.usd:.2f} USD spent since noon); the next night"
                f" goes on, or raise --max-{cap}-day",
                cap=f"{cap}_day",
            )

    def wait_for(self, seconds: float) -> None:
        """Raise ``BudgetSpent`` when the minutes are over before so many seconds have passed."""
        spent = self.spent
        if spent.seconds + seconds > self.caps.minutes * 60.0:
            raise BudgetSpent(
                f"the provider wants to be left alone for {seconds:.0f} s, and the cap of {self.caps.minutes:g} minutes"
                f" is reached before ({spent.seconds / 60:.1f} min spent); run again to go on, or raise --max-minutes",
                cap="minutes",
            )

    def settle(self, reply: Reply | None, error: BackendError | BudgetSpent | None = None) -> None:
        """Book what became of a reserved call.

        A lost one counts as a call, and with what it cost all the same; one that was never sent counts for nothing.
        """
        usage = reply.usage if reply else Usage()
        tokens = usage.input_tokens + usage.output_tokens
        usd = reply.cost_usd if reply else None
        if error is not None:
            tokens, usd = error.input_tokens + error.output_tokens, error.cost_usd
        with self._lock:
            self._in_flight -= 1
            if isinstance(error, BudgetSpent) and error.cost_usd is None:
                return
            if isinstance(reply, Trajectory):
                self._works += 1
                self._work_tokens += tokens
            self._spent = Spend(
                calls=self._spent.calls + 1,
                tokens=self._spent.tokens + tokens,
                usd=self._spent.usd + (usd or 0.0),
                unpriced=self._spent.unpriced + (usd is None),
                seconds=self._spent.seconds,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgeted:
    """Reserve, send, settle."""

    budget: Budget
    send: SendOnce
    progress: Progress | None = None

    def __call__(self, prompt: Prompt, *, phase: str, number: int) -> Reply:
        """Send once, within the caps."""
        self.budget.reserve(prompt)
        reply: Reply | None = None
        error: BackendError | BudgetSpent | None = None
        try:
            reply = self.send(prompt, phase=phase, number=number)
        except (BackendError, BudgetSpent) as raised:
            error = raised
            raise
        finally:
            self.budget.settle(reply, error)
            if self.progress is not None:
                self.progress.spent(phase, self.budget.spent)
        return reply
