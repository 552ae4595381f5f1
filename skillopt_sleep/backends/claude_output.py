"""What ``claude -p`` prints, one JSON object a line: the result, and each try the CLI makes again by itself."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.outcomes import Agent, error_for, paid, raise_if_ended_early, telling_line
from skillopt_sleep.backends.process import Ended
from skillopt_sleep.errors import BadReply, BudgetSpent, EmptyReply, ModelRefused, NotLoggedIn, QuotaExhausted, TooOld
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Usage

CLAUDE = Agent(
    name="claude",
    cannot={
        NotLoggedIn: "run `claude` and /login, or `claude auth login`",
        ModelRefused: "name another one, with --target-model or --optimizer-model",
        TooOld: "run `claude update`",
        QuotaExhausted: "wait for the reset that /usage shows, or add credit",
    },
)
PRINTED = ("--output-format", "stream-json", "--verbose")
"""The options that make it print so; only so does it say when it is told to wait, and for how long."""
BUDGET_REACHED = "error_max_budget_usd"
STRUCTURED = "StructuredOutput"
"""The tool by which it has the model answer in a given shape."""


class _Tokens(Struct, frozen=True, kw_only=True):
    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0

    def total(self) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cache_read_input_tokens,
        )


class _ModelTokens(Struct, frozen=True, kw_only=True, rename="camel"):
    """The same of one model, as the CLI's own account has it."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class _Block(Struct, frozen=True, kw_only=True):
    type: str = ""
    text: str = ""
    name: str = ""
    input: Json = None


class _Message(Struct, frozen=True, kw_only=True):
    id: str = ""
    content: tuple[_Block, ...] = ()


class _Answer(Struct, frozen=True, kw_only=True):
    """A block of what the model said, or more of them."""

    type: str
    message: _Message = _Message()


class ClaudeResult(Struct, frozen=True, kw_only=True):
    """The last line. ``subtype`` says "success" of failures too: only ``is_error`` and the exit status decide.

    ``usage`` and ``total_cost_usd`` are sums over all requests of the call; the price is the CLI's own estimate. Of a
    call that reached the cap on money ``usage`` leaves out the last request, and the account by models does not.
    """

    type: str
    subtype: str = ""
    is_error: bool = False
    api_error_status: int | None = None
    result: str | None = None
    errors: tuple[str, ...] = ()
    stop_reason: str | None = None
    num_turns: int = 1
    session_id: str = ""
    structured_output: Json = None
    total_cost_usd: float | None = None
    usage: _Tokens | None = None
    model_usage: dict[str, Json] = msgspec.field(name="modelUsage", default_factory=dict)

    @property
    def said(self) -> str:
        """Its words, of an answer or of a failure."""
        return self.result or "; ".join(self.errors)

    @property
    def spent(self) -> Usage | None:
        """What the whole call took."""
        told = self.usage.total() if self.usage else None
        try:
            models = msgspec.convert(self.model_usage, dict[str, _ModelTokens]).values()
        except msgspec.ValidationError:
            return told
        parts = [_Tokens(**msgspec.structs.asdict(each)).total() for each in models]
        whole = Usage(
            input_tokens=sum(part.input_tokens for part in parts),
            output_tokens=sum(part.output_tokens for part in parts),
            cached_tokens=sum(part.cached_tokens for part in parts),
        )
        return max(filter(None, (told, whole if parts else None)), key=_size, default=None)


def _size(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


class _Retry(Struct, frozen=True, kw_only=True):
    """The CLI is about to try again by itself."""

    subtype: str
    retry_delay_ms: float
    error_status: int | None = None
    error: str = ""


def find_result(stdout: str) -> ClaudeResult | None:
    """The result among what was printed, the last one that is one; a line may hold characters that break others."""
    for line in reversed(stdout.split("\n")):
        try:
            result = msgspec.json.decode(line, type=ClaudeResult)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
        if result.type == "result":
            return result
    return None


def announced_wait(printed: str) -> float:
    """The seconds it is about to wait before it tries again, 0 when that is not the last it said."""
    retry = _last_retry(printed)
    return retry.retry_delay_ms / 1000 if retry else 0.0


def tries_again(printed: str) -> bool:
    """Whether the last it said is that it does."""
    return _last_retry(printed) is not None


def _last_retry(printed: str) -> _Retry | None:
    last = next((line for line in reversed(printed.split("\n")) if line.startswith("{")), "")
    return next(_retries(last), None)


def result_of(ended: Ended, *, deadline: float) -> ClaudeResult:
    """The result of a call that ended with the model's words; a refusal is the model's too.

    So does a call whose last answer took it over the cap on money: that answer is there, and paid for. Raises the
    ``BackendError`` that anything else means, and ``BudgetSpent`` when the CLI stopped at the cap it was given before
    there was an answer; both know what was spent all the same.
    """
    retry = next(iter([*_retries(ended.stdout)][::-1]), None)
    raise_if_ended_early(
        CLAUDE,
        ended,
        deadline=deadline,
        words=f"{retry.error} {retry.error_status or ''}".strip() if retry else "",
        status=retry.error_status if retry else None,
    )
    result = find_result(ended.stdout)
    if result is None:
        if not ended.stdout.strip() and ended.status == 0:
            raise EmptyReply("claude ended well and printed nothing")
        raise error_for(CLAUDE, telling_line(ended.stderr) or ended.stdout or f"it ended with status {ended.status}")
    if result.subtype == BUDGET_REACHED:
        if answered := _answered(result, ended.stdout):
            return answered
        error = BudgetSpent(f"claude stopped at the cap on money ({result.said}); raise --max-usd", cap="usd")
        raise paid(error, result.spent, result.total_cost_usd)
    if (result.is_error or ended.status) and result.stop_reason != "refusal":
        told = retry.retry_delay_ms / 1000 if retry and retry.error_status == result.api_error_status else None
        failed = error_for(
            CLAUDE,
            result.said or f"it ended with status {ended.status}",
            status=result.api_error_status,
            retry_after=told,
        )
        raise paid(failed, result.spent, result.total_cost_usd)
    if result.num_turns == 0:
        raise BadReply(f"claude took the prompt for a command of its own and asked no model: {result.said[:200]!r}")
    return result


def _answered(result: ClaudeResult, printed: str) -> ClaudeResult | None:
    """The result with the answer that was complete before the cap on money was looked at; None where none was."""
    blocks = _last_message(printed)
    shaped = next((block.input for block in blocks if block.name == STRUCTURED), None)
    words = (
        "\n".join(block.text for block in blocks if block.type == "text") if result.stop_reason == "end_turn" else ""
    )
    if shaped is None and not words.strip():
        return None
    return msgspec.structs.replace(result, result=words, structured_output=shaped)


def _last_message(printed: str) -> list[_Block]:
    """The blocks of the last message of the model, of which each may stand on a line of its own."""
    last = ""
    blocks: list[_Block] = []
    for line in printed.split("\n"):
        if '"assistant"' not in line:
            continue
        try:
            said = msgspec.json.decode(line, type=_Answer)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
        if said.type == "assistant":
            blocks = [*(blocks if said.message.id == last else ()), *said.message.content]
            last = said.message.id
    return blocks


def _retries(printed: str) -> Iterator[_Retry]:
    for line in printed.split("\n"):
        if '"api_retry"' not in line:
            continue
        try:
            retry = msgspec.json.decode(line, type=_Retry)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
        if retry.subtype == "api_retry":
            yield retry
