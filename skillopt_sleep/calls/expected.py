"""What the next call of a kind is to be expected to take, going by the dearest of its kind up to now."""

from __future__ import annotations

from msgspec import Struct

from skillopt_sleep.domain.assignment import Assignment
from skillopt_sleep.domain.call import Prompt

__all__ = ["Known", "Need"]

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
