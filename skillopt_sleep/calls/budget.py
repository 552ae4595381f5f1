"""Refuse the call that could overspend, before it is sent; one budget for all roles of a night.

What the next call of a kind is to be expected to take, going by the dearest of its kind up to now.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.calls.send import SendOnce
from skillopt_sleep.errors import BackendError, BudgetSpent
from skillopt_sleep.model.call import Allowance, Bounds, Caps, Prompt, Reply, Spend, Usage, blocking_cap
from skillopt_sleep.model.ports import Clock, Progress
from skillopt_sleep.model.rollout import Assignment

CHARS_PER_TOKEN = 4
EXPECTED_OUTPUT_TOKENS = 600
"""The least that is expected of an answer, also where those before it were shorter."""
EXPECTED_WORK_TOKENS = 15_000
"""The same for an agent at work: two or three requests, each with its own instructions and tools."""
FIRST_OUTPUT_TOKENS = 32_000
"""What is kept free for an answer while none of its kind is known: few models write more unless they are told to."""
FIRST_WORK_TOKENS = 150_000
"""The same for an agent at work."""


class Need(Struct, frozen=True, kw_only=True):
    """What a call needs. Unless ``least_*`` is left it is not worth sending; ``tokens`` is what to keep free for it."""

    least_tokens: float
    tokens: float
    least_usd: float
    price_known: bool


class Known:
    """What calls of one kind (a backend's model; question or work) have taken at most. Not safe for threads."""

    def __init__(self) -> None:
        self._answered = self._priced = False
        self._beyond_prompt = 0.0
        self._usd = 0.0

    @property
    def free(self) -> bool:
        """Whether its replies have named no price, or none above nothing."""
        return self._answered and self._usd == 0.0

    def need(self, prompt: Prompt, *, usual_usd: float) -> Need:
        """What one more needs; ``usual_usd`` is the price of any call, for a kind that has none yet."""
        working = isinstance(prompt, Assignment)
        sent = _sent(prompt)
        least = sent + max(self._beyond_prompt, EXPECTED_OUTPUT_TOKENS)
        kept = least
        if working and not self._answered:
            least = max(least, EXPECTED_WORK_TOKENS)
        if not self._answered:
            first = FIRST_WORK_TOKENS if working else prompt.max_output_tokens or FIRST_OUTPUT_TOKENS
            kept = max(least, sent + first)
        known = self._answered or self._priced
        usd = self._usd if known else usual_usd
        return Need(least_tokens=least, tokens=kept, least_usd=usd, price_known=known)

    def learn(self, prompt: Prompt, *, tokens: int, usd: float | None, answered: bool) -> None:
        """Take in what a call has taken, ``usd`` None where no price was named; a lost one may have taken it too."""
        self._answered = self._answered or answered
        self._priced = self._priced or usd is not None
        self._beyond_prompt = max(self._beyond_prompt, tokens - _sent(prompt))
        self._usd = max(self._usd, usd or 0.0)


def _sent(prompt: Prompt) -> float:
    return (len(prompt.system) + len(prompt.user)) / CHARS_PER_TOKEN


MINUTES_GRACE = 30.0
"""Seconds after the cap on minutes at which a call that was begun before it is given up."""
LOOK_AGAIN = 1.0
"""Seconds after which one that waits for room looks at the clock."""
HEADROOM = 2.0
"""How many times the dearest call before it one may cost, where there is enough left."""


class Reservation(Struct, frozen=True, kw_only=True):
    """What one call in flight may take. ``first``: no price of its kind is known yet; ``whole``: it has all there is.

    ``bound`` is what it may cost where that can be told to an agent CLI, None when there is no cap on money. ``line``:
    see ``Budget.reserve``.
    """

    tokens: float
    usd: float
    bound: float | None = None
    first: bool = False
    whole: bool = True
    line: str = ""


class Budget:
    """Caps, and what has been spent against them. Safe from several threads.

    ``spent`` is what earlier processes of this sitting have paid for; the minutes are those of this process. ``day``
    is what this night shares with others, as it stands now. ``workers``: how many calls share what is left.

    How hard the caps are, with any number of workers. Calls: never one more. Dollars and tokens: all that is in flight
    is reserved, and nothing is sent whose reservation does not fit beside what is spent and reserved. A reservation is
    at least the most that a call of its kind (backend and model; question or work) has taken tonight. Before the first
    price of a kind is known, one call of it is in flight at a time, and all that is left is reserved for it; before its
    first tokens are, a bound that few answers reach. So what is overspent is what a reply takes beyond its own
    reservation: of calls at one price nothing, of the first call of a kind what that ONE reply takes beyond all that
    was left, and later only what a reply that is dearer than any before, and than its share, takes beyond these. An
    agent CLI is told its reservation as its own cap, and stops at the first request to the model that ends beyond it.
    Minutes: nothing is sent after them, also not by who has waited for a slot; what is under way then is given up
    ``MINUTES_GRACE`` seconds later.
    """

    def __init__(
        self, caps: Caps, spent: Spend, clock: Clock, day: Allowance | None = None, *, workers: int = 1
    ) -> None:
        self.caps = caps
        self._day = day
        self._before = spent
        self._clock = clock
        self._workers = workers
        self._started = clock.monotonic() - spent.seconds
        self._spent = spent
        self._reserved: list[Reservation] = []
        self._kinds: dict[tuple[str, bool], Known] = {}
        self._changed = threading.Condition()

    @property
    def spent(self) -> Spend:
        """What has been spent up to now, with the seconds on the clock."""
        return replace(self._spent, seconds=self._clock.monotonic() - self._started)

    def reserve(self, prompt: Prompt, *, line: str = "", priced: bool = True) -> Reservation:
        """Make room for one call, waiting for those in flight where it could fit when they have ended.

        ``line`` tells calls apart that differ in price, and ``priced`` whether they may have one. Raises
        ``BudgetSpent`` naming the cap and how to raise it.
        """
        with self._changed:
            known = self._known(line, prompt)
            while True:
                spent = self.spent
                priced_calls = spent.calls - spent.unpriced
                need = known.need(prompt, usual_usd=spent.usd / priced_calls if priced_calls else 0.0)
                self._require(need, spent)
                room = self._room(need, spent, priced=priced and not known.free)
                if room is not None:
                    reserved = replace(room, line=line)
                    self._reserved.append(reserved)
                    return reserved
                self._changed.wait(timeout=LOOK_AGAIN)

    def _known(self, line: str, prompt: Prompt) -> Known:
        return self._kinds.setdefault((line, isinstance(prompt, Assignment)), Known())

    def _require(self, need: Need, spent: Spend) -> None:
        """Raise ``BudgetSpent`` when the call would not even fit were nothing else in flight."""
        cap = self._blocking(self.caps, need, spent)
        if cap is not None:
            raise BudgetSpent(
                f"the cap of {getattr(self.caps, cap):g} {cap} is reached"
                f" ({self._counted(spent)}, {spent.tokens:,} tokens, {spent.usd:.2f} USD, {spent.seconds / 60:.1f} min"
                f" spent); run again to go on, or raise --max-{cap}",
                cap=cap,
            )
        if self._day is None:
            return
        whole = self._day.after(self._ours(spent))
        cap = self._blocking(self._day.caps, need, whole)
        if cap is not None:
            raise BudgetSpent(
                f"the cap of {getattr(self._day.caps, cap):g} {cap} a day, for all projects together, is reached"
                f" ({self._counted(whole)}, {whole.tokens:,} tokens, {whole.usd:.2f} USD spent since noon); the next"
                f" night goes on, or raise --max-{cap}-day",
                cap=f"{cap}_day",
            )

    def _blocking(self, caps: Caps, need: Need, spent: Spend) -> str | None:
        with_those = replace(spent, calls=spent.calls + len(self._reserved))
        return blocking_cap(
            caps, with_those, in_flight=0, tokens_per_call=need.least_tokens, usd_per_call=need.least_usd
        )

    def _counted(self, spent: Spend) -> str:
        under_way = f" and {len(self._reserved)} under way" if self._reserved else ""
        return f"{spent.calls} calls{under_way}"

    def _ours(self, spent: Spend) -> Spend:
        """What this process has spent."""
        before = self._before
        return Spend(
            calls=spent.calls - before.calls,
            tokens=spent.tokens - before.tokens,
            usd=spent.usd - before.usd,
            unpriced=spent.unpriced - before.unpriced,
        )

    def _room(self, need: Need, spent: Spend, *, priced: bool) -> Reservation | None:
        """What can be reserved for a call beside those in flight, None when it has to wait for them."""
        tokens, usd = self.caps.tokens - spent.tokens, self.caps.usd - spent.usd
        if self._day is not None:
            whole = self._day.after(self._ours(spent))
            tokens = min(tokens, self._day.caps.tokens - whole.tokens)
            usd = min(usd, self._day.caps.usd - whole.usd)
        others = math.fsum(each.tokens for each in self._reserved)
        if need.tokens > tokens - others and others:
            return None
        wanted = min(need.tokens, max(tokens - others, need.least_tokens))
        if not priced or math.isinf(usd):
            return Reservation(tokens=wanted, usd=0.0, bound=None if math.isinf(usd) else usd)
        first = not need.price_known
        held = math.fsum(each.usd for each in self._reserved)
        free = usd - held
        if free < need.least_usd or free <= 0.0 or (first and any(each.first for each in self._reserved)):
            return None if held else Reservation(tokens=wanted, usd=usd, bound=usd, first=first)
        if not first:
            share = free / max(1, self._workers - len(self._reserved))
            free = min(free, max(HEADROOM * need.least_usd, share))
        return Reservation(tokens=wanted, usd=free, bound=free, first=first, whole=free >= usd)

    def admit(self, prompt: Prompt) -> Prompt:
        """The prompt as it is to be sent now, with the seconds it may take; raises ``BudgetSpent`` after the last."""
        left = self.caps.minutes * 60.0 - self.spent.seconds
        if left <= 0:
            raise BudgetSpent(
                f"the cap of {self.caps.minutes:g} minutes is reached; run again to go on, or raise --max-minutes",
                cap="minutes",
            )
        if math.isinf(left):
            return prompt
        return replace(prompt, within=Bounds(seconds=left + MINUTES_GRACE, usd=prompt.within.usd))

    def wait_for(self, seconds: float) -> None:
        """Raise ``BudgetSpent`` when the minutes are over before so many seconds have passed."""
        spent = self.spent
        if spent.seconds + seconds > self.caps.minutes * 60.0:
            raise BudgetSpent(
                f"the provider wants to be left alone for {seconds:.0f} s, and the cap of {self.caps.minutes:g} minutes"
                f" is reached before ({spent.seconds / 60:.1f} min spent); run again to go on, or raise --max-minutes",
                cap="minutes",
            )

    def settle(
        self,
        reserved: Reservation,
        prompt: Prompt,
        reply: Reply | None,
        error: BackendError | BudgetSpent | None = None,
    ) -> None:
        """Book what became of a reserved call.

        A lost one counts as a call, and with what it cost all the same; one that was never sent counts for nothing.
        """
        usage = reply.usage if reply else Usage()
        tokens = usage.input_tokens + usage.output_tokens
        usd = reply.cost_usd if reply else None
        if error is not None:
            tokens, usd = error.input_tokens + error.output_tokens, error.cost_usd
        with self._changed:
            self._reserved.remove(reserved)
            self._changed.notify_all()
            if isinstance(error, BudgetSpent) and error.cost_usd is None and not tokens:
                return
            self._known(reserved.line, prompt).learn(prompt, tokens=tokens, usd=usd, answered=reply is not None)
            self._spent = Spend(
                calls=self._spent.calls + 1,
                tokens=self._spent.tokens + tokens,
                usd=self._spent.usd + (usd or 0.0),
                unpriced=self._spent.unpriced + (usd is None),
                seconds=self._spent.seconds,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgeted:
    """Reserve, send, settle.

    A call that an agent CLI has stopped at its share of the money, while there is more, is sent again with a larger
    one. ``line`` and ``priced``: see ``Budget.reserve``.
    """

    budget: Budget
    send: SendOnce
    progress: Progress | None = None
    line: str = ""
    priced: bool = True

    def __call__(self, prompt: Prompt, *, phase: str, number: int) -> Reply:
        """Send once, within the caps."""
        while True:
            reserved = self.budget.reserve(prompt, line=self.line, priced=self.priced)
            try:
                return self._send(reserved, prompt, phase, number)
            except BudgetSpent as error:
                if reserved.whole or error.cap != "usd" or error.cost_usd is None:
                    raise

    def _send(self, reserved: Reservation, prompt: Prompt, phase: str, number: int) -> Reply:
        reply: Reply | None = None
        error: BackendError | BudgetSpent | None = None
        bounded = prompt if reserved.bound is None else replace(prompt, within=Bounds(usd=reserved.bound))
        try:
            reply = self.send(bounded, phase=phase, number=number)
        except (BackendError, BudgetSpent) as raised:
            error = raised
            raise
        finally:
            self.budget.settle(reserved, prompt, reply, error)
            if self.progress is not None:
                self.progress.spent(phase, self.budget.spent)
        return reply
