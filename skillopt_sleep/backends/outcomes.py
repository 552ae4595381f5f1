"""What became of a call: a reply, or the one typed error that says why there is none.

Every provider words its refusals in its own way, but what they mean comes down to eight things. The phrases
stand in one table here, so that a wording learnt from one CLI serves the others, and so that a mistake in it is a row
of a test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.process import Ended
from skillopt_sleep.errors import (
    BackendError,
    BadReply,
    BudgetSpent,
    EmptyReply,
    ModelRefused,
    NotLoggedIn,
    Overloaded,
    QuotaExhausted,
    RateLimited,
    TimedOut,
    TooLong,
    TooOld,
    TransientBackend,
)
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Prompt, Reply, Usage
from skillopt_sleep.model.replies import extract_json
from skillopt_sleep.model.text import excerpt

E = TypeVar("E", BackendError, BudgetSpent)

CHARACTERS_PER_TOKEN = 4
LONGEST_WAIT = 300.0
"""Seconds. Who asks for more patience than this has nothing left to give tonight."""
WORDS_SHOWN = 200
"""Characters of a provider's own words in a message."""


class Agent(Struct, frozen=True, kw_only=True):
    """Whom a message speaks of, and what to do when it ``cannot`` go on, by the error."""

    name: str
    cannot: Mapping[type[BackendError], str]


class _Meaning(Struct, frozen=True, kw_only=True):
    """An error, what brings it about (``phrases``, or a status in ``statuses``), and what is said of the agent."""

    error: type[BackendError]
    says: str
    phrases: str = "(?!)"
    statuses: frozenset[int] = frozenset()


MEANINGS = (
    _Meaning(
        error=TooOld,
        says="is too old",
        phrases=r"newer version of (codex|claude)|needs an update|unknown option|unexpected argument",
    ),
    _Meaning(
        error=QuotaExhausted,
        says="has no quota or credit left",
        phrases=r"credit balance|insufficient_quota|quota exceeded|exceeded your current quota|usage.?limit"
        r"|hit your .{0,40}limit|out of (extra usage|usage credits)|doesn't include usage|billing_hard_limit",
        statuses=frozenset({402}),
    ),
    _Meaning(
        error=ModelRefused,
        says="refuses the model",
        phrases=r"issue with the selected model|with a chatgpt account|model_not_found|^model: "
        r"|model\b.{0,80}(does not exist|not found|not supported|not available)",
        statuses=frozenset({404}),
    ),
    _Meaning(
        error=NotLoggedIn,
        says="is not logged in, or its key is refused",
        phrases=r"not logged in|/login|sign in again|refresh_token_reused|token_expired|token has expired"
        r"|invalid api key|invalid_api_key|missing environment variable|failed to authenticate|has been disabled",
        statuses=frozenset({401, 403}),
    ),
    _Meaning(
        error=TooLong,
        says="cannot take a prompt, or give an answer, of this length",
        phrases=r"prompt is too long|input is too long|context window|context_length|context length"
        r"|output token maximum|max_output_tokens|exceeds 10MB|request_too_large"
        r"|input_too_large|exceeds the maximum length|string_above_max_length",
        statuses=frozenset({413}),
    ),
    _Meaning(error=RateLimited, says="is rate limited", phrases=r"rate.?limit", statuses=frozenset({429})),
    _Meaning(
        error=TimedOut, says="waited in vain for its service", phrases=r"timed? ?out", statuses=frozenset({408, 504})
    ),
    _Meaning(
        error=Overloaded,
        says="cannot reach its service, or finds it overloaded",
        phrases=r"overloaded|high demand|at capacity|connect|stream closed|network policy|discovery failed"
        r"|error decoding response",
        statuses=frozenset(range(500, 600)),
    ),
)
"""The first meaning that fits holds: a spent quota comes as a 429 too, an unknown model also as a 400."""

_PATTERNS = MappingProxyType({each.error: re.compile(each.phrases, re.IGNORECASE) for each in MEANINGS})
_STATUS = re.compile(r"\bstatus:? (\d{3})\b|\bAPI Error: (\d{3})\b")
_AGAIN = re.compile(r"try again in ([\d.]+) ?(ms|s|m|h|d)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RESET = re.compile(r"(?:resets?|try again) (?:at |on )?((?!in |later)[^.()]{2,40})", re.IGNORECASE)


def error_for(agent: Agent, words: str, *, status: int | None = None, retry_after: float | None = None) -> BackendError:
    """The error that a failure means, from the HTTP status where one is known and the agent's own words.

    ``retry_after`` is in seconds; where it is None it is looked for in the words, as a status is. One beyond
    ``LONGEST_WAIT`` is a quota that is spent, whatever it is called.
    """
    if status is None and (found := _STATUS.search(words)):
        status = int(found[1] or found[2])
    if retry_after is None and (again := _AGAIN.search(words)):
        retry_after = float(again[1]) * _SECONDS[again[2].lower()]
    meaning = next((each for each in MEANINGS if status in each.statuses or _PATTERNS[each.error].search(words)), None)
    if meaning and meaning.error in {RateLimited, Overloaded} and (retry_after or 0.0) > LONGEST_WAIT:
        meaning = next(each for each in MEANINGS if each.error is QuotaExhausted)
    says, error = (meaning.says, meaning.error) if meaning else ("failed", BadReply)
    todo = agent.cannot.get(error, "")
    if error is QuotaExhausted:
        todo = "; ".join(part for part in (todo, _when(words, retry_after)) if part)
    message = f"{agent.name} {says}{f': {todo}' if todo else ''}{_quoted(words)}"
    if issubclass(error, TransientBackend):
        return error(message, retry_after=retry_after)
    return error(message)


def _when(words: str, retry_after: float | None) -> str:
    """When to go on with the night, where the provider said so."""
    if retry_after:
        return f"run again in {-(-retry_after // 60):.0f} minutes"
    found = _RESET.search(words)
    return f"run again after {' '.join(found[1].split())}" if found else ""


def paid(error: E, usage: Usage | None, cost_usd: float | None = None) -> E:
    """The error, with what the call cost all the same."""
    if usage is not None:
        error.input_tokens, error.output_tokens = usage.input_tokens, usage.output_tokens
    error.cost_usd = cost_usd
    return error


def raise_if_ended_early(
    agent: Agent, ended: Ended, *, deadline: float, words: str = "", status: int | None = None
) -> None:
    """Raise when we ended the child, or somebody killed it.

    ``words`` is the last it said of its trouble, and ``status`` the HTTP status of that, where it named one.
    """
    if ended.waiting:
        raise error_for(agent, words or "rate limit", status=status, retry_after=ended.waiting)
    if ended.timed_out:
        raise TimedOut(f"{agent.name} gave no answer within {round(deadline, 1):g} s{_quoted(words)}")
    if ended.flooded:
        raise BadReply(f"{agent.name} was ended because it wrote without end{_quoted(words)}")
    killed_by = -ended.status if ended.status < 0 else ended.status - 128  # a shim reports a signal as 128 more
    if 0 < killed_by < 65:  # noqa: PLR2004  the highest signal
        raise Overloaded(f"{agent.name} was killed by signal {killed_by}{_quoted(words or telling_line(ended.stderr))}")


def reply_for(
    agent: Agent,
    prompt: Prompt,
    text: str,
    *,
    model: str,
    latency: float,
    usage: Usage | None = None,
    cost_usd: float | None = None,
) -> Reply:
    """The reply that ``text`` is; ``usage`` is estimated where the provider reports none.

    Raises ``EmptyReply`` when there is no text, and ``BadReply`` when JSON was asked for and there is none in it.
    """
    if not text.strip():
        raise EmptyReply(f"{agent.name} answered with nothing")
    if prompt.schema is not None:
        try:
            extract_json(text)
        except ValueError:
            raise BadReply(f"{agent.name} was asked for JSON and answered without any{_quoted(text)}") from None
    if usage is None or not (usage.input_tokens or usage.output_tokens):
        usage = Usage(
            input_tokens=_tokens(prompt.system) + _tokens(prompt.user), output_tokens=_tokens(text), estimated=True
        )
    return Reply(text=text, model=model, usage=usage, cost_usd=cost_usd, latency=latency)


def telling_line(stderr: str) -> str:
    """The line of an error output that says what was wrong: the first that speaks of an error, else the last."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if line.lower().startswith("error")), lines[-1] if lines else "")


def unwrapped(words: str) -> str:
    """The message and the code in words that are the JSON body of an API's error, else the words."""
    try:
        body = msgspec.json.decode(words, type=dict[str, Json])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return words
    error = body.get("error")
    told = error if isinstance(error, dict) else body
    parts = (told.get("message") or told.get("detail") or told.get("error"), told.get("code"))
    return " ".join(str(part) for part in parts if part) or words


def _quoted(words: str) -> str:
    shown = excerpt(words, WORDS_SHOWN)
    return f" (it said: {shown})" if shown else ""


def _tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)
