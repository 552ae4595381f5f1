"""Speak OpenAI's two HTTP APIs: build a request, send it with a deadline, and read the answer.

Requests are coroutines on a loop in a thread of its own, because only so can one be cancelled: at the deadline, which
covers the whole answer and not each read of it, and when the night is stopped. Building and reading are pure.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import re
import threading
from collections.abc import Callable, Coroutine, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.outcomes import AgentAdvice, add_cost, build_reply, classify_failure, unwrap_error
from skillopt_sleep.errors import (
    BackendError,
    BadReply,
    ModelRefused,
    NotLoggedIn,
    Overloaded,
    QuotaExhausted,
    TimedOut,
    TooLong,
)
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Prompt, Reply, Usage
from skillopt_sleep.prompts import render

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Api = Literal["chat", "responses"]
PATHS: dict[Api, str] = {"chat": "/chat/completions", "responses": "/responses"}
OPENAI = AgentAdvice(
    name="openai",
    fixes={
        NotLoggedIn: "put a good key into OPENAI_API_KEY, or the variable `api_key_env` in [backends.openai] names",
        ModelRefused: "name another one, by `model` in [backends.openai], --target-model or --optimizer-model",
        QuotaExhausted: "add credit, or wait for the quota to renew",
    },
)
CONTENT_FILTERS = ("content_filter", "content_policy_violation")
BAD_REQUEST = 400
"""The status with which a content filter refuses; with any other status such words are about something else."""
FILTERED = "The provider's content filter refused to let this be answered."
CUT_OFF = frozenset({"length", "max_output_tokens"})
"""Reasons for the end of an answer that is longer than the model may write."""
LIMITS: dict[Api, tuple[str, str]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens", "max_output_tokens"),
}
"""The name of the limit on an answer: the service's own, and that of older endpoints."""
SECONDS_TO_CLOSE = 0.8


class Answer(Struct, frozen=True, kw_only=True):
    """An HTTP answer, good or bad. ``retry_after`` and ``date`` are headers as sent, "" when there is none."""

    status: int
    content: bytes
    retry_after: str = ""
    date: str = ""


class Address(Struct, frozen=True, kw_only=True):
    """Where an endpoint is, and what every request to it carries."""

    url: str
    key: str
    version: str = ""
    """The API version of an Azure endpoint, which also reads the key from a header of its own."""
    query: tuple[tuple[str, str], ...] = ()
    shown: str = ""
    """The address for messages, without what may be a secret in it."""


class Endpoint:
    """A connection that is made at its first use and shared by all calls. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: AsyncOpenAI | None = None

    def post(self, path: str, body: Mapping[str, Json], *, at: Address, seconds: float) -> Answer:
        """Send one request and return the answer, whatever its status.

        Raises ``TimedOut`` at the deadline and once closed, ``Overloaded`` when there is no connection.
        """
        return self._send(lambda client: client.post(path, cast_to=bytes, body=body), at, seconds)

    def get(self, path: str, *, at: Address, seconds: float) -> Answer:
        """Look something up; see ``post``."""
        return self._send(lambda client: client.get(path, cast_to=bytes), at, seconds)

    def close(self) -> None:
        """Cancel every request within a second; later ones raise ``TimedOut``. Idempotent."""
        with self._lock:
            was_closed, self._closed = self._closed, True
        if was_closed or self._loop is None or self._thread is None:
            return
        ending = asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop)
        with contextlib.suppress(TimeoutError):
            ending.result(SECONDS_TO_CLOSE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS_TO_CLOSE)
        self._loop.close()

    def _send(
        self, request: Callable[[AsyncOpenAI], Coroutine[None, None, bytes]], at: Address, seconds: float
    ) -> Answer:
        shown = at.shown or at.url
        with self._lock:
            if self._closed:
                raise TimedOut("nothing was sent: this backend has been closed")
            if self._loop is None or self._client is None:
                self._client = _connect(at)
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
                self._thread.start()
            waiting = asyncio.wait_for(_read_answer(request(self._client), shown), seconds)
            future = asyncio.run_coroutine_threadsafe(waiting, self._loop)
        try:
            return future.result()
        except TimeoutError:
            raise TimedOut(f"{shown} gave no answer within {seconds:g} s") from None
        except concurrent.futures.CancelledError:
            raise TimedOut(f"a request to {shown} was cancelled: this backend has been closed") from None

    async def _cancel_all(self) -> None:
        requests = asyncio.all_tasks() - {asyncio.current_task()}
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        if self._client is not None:
            await self._client.close()


def _connect(at: Address) -> AsyncOpenAI:
    from openai import AsyncOpenAI  # noqa: PLC0415  half a second that only its users should wait

    client = AsyncOpenAI(
        base_url=at.url,
        api_key=at.key,
        timeout=None,  # the deadline is ours
        max_retries=0,
        default_query=dict(at.query) | ({"api-version": at.version} if at.version else {}),
        default_headers={"api-key": at.key} if at.version else None,
    )
    # it has read these from this program's environment, which is not the one it was given
    client.organization = client.project = None
    return client


async def _read_answer(request: Coroutine[None, None, bytes], shown: str) -> Answer:
    import openai  # noqa: PLC0415  imported by now

    try:
        return Answer(status=200, content=await request)
    except openai.APIStatusError as error:
        response = error.response
        return Answer(
            status=response.status_code,
            content=response.content,
            retry_after=response.headers.get("retry-after", ""),
            date=response.headers.get("date", ""),
        )
    except openai.APITimeoutError as error:
        raise TimedOut(f"{shown} gave no answer in time") from error
    except openai.APIConnectionError as error:
        raise Overloaded(f"{shown} cannot be reached: {error.__cause__ or error}") from error


def build_request(
    api: Api, model: str, prompt: Prompt, *, schema_in_words: bool, old_limit: bool = False
) -> dict[str, Json]:
    """Build the body of a request; an endpoint that knows no schemas is given the schema in words."""
    system, user = prompt.system, prompt.user
    schema: dict[str, Json] = {}
    if prompt.schema is not None and schema_in_words:
        words = msgspec.json.encode(prompt.schema).decode()
        system, user = render("json_reply", system=system, user=user, schema=words)
    elif prompt.schema is not None:
        schema = {"name": "reply", "strict": True, "schema": prompt.schema}
    # no encoding can send lone surrogates
    system, user = (text.encode("utf-8", "replace").decode("utf-8") for text in (system, user))
    body: dict[str, Json] = {"model": model}
    if prompt.max_output_tokens is not None:
        body[LIMITS[api][old_limit]] = prompt.max_output_tokens
    if prompt.temperature is not None:
        body["temperature"] = prompt.temperature
    if api == "responses":
        body |= {"input": user, "store": False}  # nobody is to keep what a person typed
        if system.strip():
            body["instructions"] = system
        if schema:
            body["text"] = {"format": {"type": "json_schema", **schema}}
        return body
    turns: list[Json] = [{"role": "system", "content": system}] if system.strip() else []
    body["messages"] = [*turns, {"role": "user", "content": user}]
    if schema:
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def is_schema_refused(answer: Answer) -> bool:
    """Tell whether the endpoint cannot answer by a schema, or not by this one."""
    words = answer.content.decode("utf-8", "replace")
    refused = r"response.?format|text\.format|json_schema|structured"
    return answer.status in {400, 404, 422} and bool(re.search(refused, words))


def is_limit_refused(answer: Answer) -> bool:
    """Tell whether the endpoint knows the limit of a chat answer only by its older name."""
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
    """Both APIs' names for the same three counts."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Cached | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _Cached | None = None

    def to_usage(self) -> Usage:
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
    """A part of a response; only messages hold the model's words."""

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
    """An answer: ``choices`` belong to a chat completion, ``output`` to a response."""

    model: str = ""
    usage: _Tokens | None = None
    error: Json = None
    choices: tuple[_Choice, ...] = ()
    output: tuple[_Item, ...] = ()
    incomplete_details: _Reason | None = None

    def read_text(self) -> tuple[str, str]:
        """Return the model's words, including a refusal, and why they end, "" when they simply do."""
        if self.output or self.incomplete_details:
            parts = [part for item in self.output if item.type == "message" for part in item.content or ()]
            reason = self.incomplete_details.reason if self.incomplete_details else ""
            return "".join(part.text or part.refusal for part in parts), reason
        choice = self.choices[0] if self.choices else _Choice()
        return choice.message.content or choice.message.refusal or "", choice.finish_reason or ""


def read_reply(answer: Answer, prompt: Prompt, *, model: str, latency: float) -> Reply:
    """Return the reply in an answer of either API; a refusal is a reply.

    Raises the ``BackendError`` that fits anything else.
    """
    words = unwrap_error(answer.content.decode("utf-8", "replace"))
    if answer.status >= 400:  # noqa: PLR2004  where HTTP's errors begin
        if answer.status == BAD_REQUEST and _read_error_code(answer.content) in CONTENT_FILTERS:
            return build_reply(OPENAI, prompt, words, model=model, latency=latency)
        raise classify_failure(OPENAI, words, status=answer.status, retry_after=_read_retry_after(answer))
    try:
        body = msgspec.json.decode(answer.content, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadReply(f"openai answered with something that is no answer of its API ({error})") from error
    if body.error:
        raise classify_failure(OPENAI, words)
    text, reason = body.read_text()
    usage = body.usage.to_usage() if body.usage else None
    if reason in CUT_OFF and (not text.strip() or prompt.schema is not None):
        raise add_cost(TooLong("openai was cut off: the answer is longer than the model may write"), usage)
    if not text and reason in CONTENT_FILTERS:
        text = FILTERED
    try:
        return build_reply(OPENAI, prompt, text, model=body.model or model, latency=latency, usage=usage)
    except BackendError as error:
        raise add_cost(error, usage) from None


def _read_retry_after(answer: Answer) -> float | None:
    """Return the retry-after header in seconds, a date in it relative to the answer's own date; None without one."""
    if re.fullmatch(r"\d+(\.\d+)?", answer.retry_after):
        return float(answer.retry_after)
    try:
        wait = parsedate_to_datetime(answer.retry_after) - parsedate_to_datetime(answer.date)
    except (ValueError, TypeError):  # no date, or one with a time zone and one without
        return None
    return max(0.0, wait.total_seconds())


def _read_error_code(content: bytes) -> str:
    try:
        error = msgspec.json.decode(content, type=_Failure).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return str(error.code or "") if error else ""
