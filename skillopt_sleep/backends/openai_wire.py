"""The two APIs of OpenAI and of those that speak as it does: what is asked, and how an answer is read. Pure."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.endpoint import Answer
from skillopt_sleep.backends.outcomes import Agent, error_for, paid, reply_for, unwrapped
from skillopt_sleep.errors import BackendError, BadReply, ModelRefused, NotLoggedIn, QuotaExhausted, TooLong
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Prompt, Reply, Usage
from skillopt_sleep.prompts import render

Api = Literal["chat", "responses"]
PATHS: dict[Api, str] = {"chat": "/chat/completions", "responses": "/responses"}
OPENAI = Agent(
    name="openai",
    cannot={
        NotLoggedIn: "put a good key into OPENAI_API_KEY, or the variable `api_key_env` in [backends.openai] names",
        ModelRefused: "name another one, by `model` in [backends.openai], --target-model or --optimizer-model",
        QuotaExhausted: "add credit, or wait for the quota to renew",
    },
)
CONTENT_FILTERS = ("content_filter", "content_policy_violation")
BAD_REQUEST = 400
"""The status with which a content filter refuses; with any other the words are about something else."""
FILTERED = "The provider's content filter refused to let this be answered."
CUT = frozenset({"length", "max_output_tokens"})
"""Why an answer ends that is longer than the model may write."""


LIMITS: dict[Api, tuple[str, str]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens", "max_output_tokens"),
}
"""What the limit of an answer is called, by the service itself and by older endpoints."""


def request(api: Api, model: str, prompt: Prompt, *, schema_in_words: bool, old_limit: bool = False) -> dict[str, Json]:
    """The body of a request. A schema goes with it, or into the words for an endpoint that knows none."""
    system, user = prompt.system, prompt.user
    form: dict[str, Json] = {}
    if prompt.schema is not None and schema_in_words:
        schema = msgspec.json.encode(prompt.schema).decode()
        system, user = render("json_reply", system=system, user=user, schema=schema)
    elif prompt.schema is not None:
        form = {"name": "reply", "strict": True, "schema": prompt.schema}
    system, user = _clean(system), _clean(user)
    body: dict[str, Json] = {"model": model}
    if prompt.max_output_tokens is not None:
        body[LIMITS[api][old_limit]] = prompt.max_output_tokens
    if prompt.temperature is not None:
        body["temperature"] = prompt.temperature
    if api == "responses":
        body |= {"input": user, "store": False}  # what a person typed is nobody's to keep
        if system.strip():
            body["instructions"] = system
        if form:
            body["text"] = {"format": {"type": "json_schema", **form}}
        return body
    turns: list[Json] = [{"role": "system", "content": system}] if system.strip() else []
    body["messages"] = [*turns, {"role": "user", "content": user}]
    if form:
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body


def refuses_schemas(answer: Answer) -> bool:
    """Whether the endpoint says that it cannot answer by a schema, or not by this one."""
    said = answer.content.decode("utf-8", "replace")
    refused = r"response.?format|text\.format|json_schema|structured"
    return answer.status in {400, 404, 422} and bool(re.search(refused, said))


def refuses_limit(answer: Answer) -> bool:
    """Whether the endpoint knows the limit of a chat answer by its older name alone."""
    return answer.status in {400, 422} and b"max_completion_tokens" in answer.content


class _Message(Struct, frozen=True, kw_only=True):
    content: str | None = None
    refusal: str | None = None


class _Choice(Struct, frozen=True, kw_only=True):
    message: _Message = _Message()
    finish_reason: str | None = None


class _Cached(Struct, frozen=True, kw_only=True):
    cached_tokens: int | None = None


class _Tokens(Struct, frozen=True, kw_only=True):
    """Both APIs' names for the same three figures."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Cached | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _Cached | None = None

    def total(self) -> Usage:
        details = self.prompt_tokens_details or self.input_tokens_details or _Cached()
        return Usage(
            input_tokens=self.prompt_tokens or self.input_tokens,
            output_tokens=self.completion_tokens or self.output_tokens,
            cached_tokens=details.cached_tokens or 0,
        )


class _Part(Struct, frozen=True, kw_only=True):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(Struct, frozen=True, kw_only=True):
    """Something in an answer: only messages hold words of the model's."""

    type: str = ""
    content: tuple[_Part, ...] | None = None


class _Reason(Struct, frozen=True, kw_only=True):
    reason: str = ""


class _Error(Struct, frozen=True, kw_only=True):
    code: Json = None


class _Failure(Struct, frozen=True, kw_only=True):
    """The body of a refused request."""

    error: _Error | None = None


class _Body(Struct, frozen=True, kw_only=True):
    """An answer: ``choices`` are those of a chat completion, ``output`` that of a response."""

    model: str = ""
    usage: _Tokens | None = None
    error: Json = None
    choices: tuple[_Choice, ...] = ()
    output: tuple[_Item, ...] = ()
    incomplete_details: _Reason | None = None

    def said(self) -> tuple[str, str]:
        """The words of the model, a refusal among them, and why they end, "" when they simply do."""
        if self.output or self.incomplete_details:
            parts = [part for item in self.output if item.type == "message" for part in item.content or ()]
            ends = self.incomplete_details.reason if self.incomplete_details else ""
            return "".join(part.text or part.refusal for part in parts), ends
        choice = self.choices[0] if self.choices else _Choice()
        return choice.message.content or choice.message.refusal or "", choice.finish_reason or ""


def read_reply(answer: Answer, prompt: Prompt, *, model: str, latency: float) -> Reply:
    """The reply in an answer of either API. A refusal is what the model said.

    Raises the ``BackendError`` that anything else means.
    """
    said = unwrapped(answer.content.decode("utf-8", "replace"))
    if answer.status >= 400:  # noqa: PLR2004  where HTTP's errors begin
        if answer.status == BAD_REQUEST and _code(answer.content) in CONTENT_FILTERS:
            return reply_for(OPENAI, prompt, said, model=model, latency=latency)
        raise error_for(OPENAI, said, status=answer.status, retry_after=_seconds(answer))
    try:
        body = msgspec.json.decode(answer.content, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadReply(f"openai answered with something that is no answer of its API ({error})") from error
    if body.error:
        raise error_for(OPENAI, said)
    text, ends = body.said()
    usage = body.usage.total() if body.usage else None
    if ends in CUT and (not text.strip() or prompt.schema is not None):
        raise paid(TooLong("openai was cut off: the answer is longer than the model may write"), usage)
    if not text and ends in CONTENT_FILTERS:
        text = FILTERED
    try:
        return reply_for(OPENAI, prompt, text, model=body.model or model, latency=latency, usage=usage)
    except BackendError as error:
        raise paid(error, usage) from None


def _seconds(answer: Answer) -> float | None:
    """A retry-after header in seconds, a date in it as seen from the answer's own date; None for none."""
    if re.fullmatch(r"\d+(\.\d+)?", answer.retry_after):
        return float(answer.retry_after)
    try:
        wait = parsedate_to_datetime(answer.retry_after) - parsedate_to_datetime(answer.date)
    except (ValueError, TypeError):  # no date, or one with a time zone and one without
        return None
    return max(0.0, wait.total_seconds())


def _code(content: bytes) -> str:
    """What an API's error is called in its body, "" where it is called nothing."""
    try:
        error = msgspec.json.decode(content, type=_Failure).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return str(error.code or "") if error else ""


def _clean(text: str) -> str:
    """Without the lone surrogates that no encoding can send."""
    return text.encode("utf-8", "replace").decode("utf-8")
