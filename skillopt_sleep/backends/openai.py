"""Any OpenAI-compatible API as a model: chat completions of a hosted or a local endpoint."""

from __future__ import annotations

import ipaddress
import re
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.endpoint import Answer, Endpoint
from skillopt_sleep.backends.outcome import Agent, error_for, reply_for, unwrapped
from skillopt_sleep.domain import Json
from skillopt_sleep.domain.call import Health, Prompt, Reply, Usage
from skillopt_sleep.errors import BackendError, BadReply, ModelRefused, NotLoggedIn, QuotaExhausted, SettingsError
from skillopt_sleep.prompts import render

__all__ = ["PLUGIN", "OpenAIBackend", "read_reply"]

OPENAI = Agent(
    name="openai",
    cannot={
        NotLoggedIn: "put a good key into OPENAI_API_KEY, or the variable `api_key_env` in [backends.openai] names",
        ModelRefused: "name another one, by `model` in [backends.openai], --target-model or --optimizer-model",
        QuotaExhausted: "add credit, or wait for the quota to renew",
    },
)
DEFAULT_BASE_URL = "https://api.openai.com/v1"
NO_KEY = "none"
"""What a local endpoint is given where there is no key: it looks at none, and the library wants one."""
CONTENT_FILTERS = ("content_filter", "content_policy_violation")
FILTERED = "The provider's content filter refused to let this be answered."


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIBackend:
    """Chat completions through the ``openai`` library.

    ``model``: a model of the endpoint, required. ``base_url``: the endpoint; "" = ``OPENAI_BASE_URL`` of ``env``, else
    OpenAI itself. ``api_key_env``: the variable of ``env`` that holds the key; an endpoint on this machine or in its
    own network needs none. ``timeout``: seconds one call may take. Raises ``SettingsError`` for a ``base_url`` that is
    no HTTP address.
    """

    model: str = ""
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    timeout: float = 180.0
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    _endpoint: Endpoint = field(default_factory=Endpoint, init=False, repr=False, compare=False)
    _schemas_refused: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self._url().startswith(("http://", "https://")):
            raise SettingsError(
                f"[backends.openai] base_url is {self._url()!r}, it must begin with https:// or http://"
            )

    @property
    def name(self) -> str:
        """The registry name."""
        return "openai"

    @property
    def sees(self) -> str:
        """Who is sent the prompts."""
        return f"whoever answers at {self._url()}"

    def probe(self) -> Health:
        """Whether there is a key, and a model to ask for; nothing is sent."""
        try:
            self._require_model()
            self._key()
        except BackendError as error:
            logged_in = False if isinstance(error, NotLoggedIn) else None
            return Health(ready=False, logged_in=logged_in, detail=str(error))
        return Health(ready=True, logged_in=True, version=self._url())

    def complete(self, prompt: Prompt) -> Reply:
        """One answer; see ``Backend.complete``. An endpoint that refuses schemas is asked in words from then on."""
        self._require_model()
        started = time.monotonic()
        answer = self._send(prompt)
        if prompt.schema is not None and not self._schemas_refused.is_set() and refuses_schemas(answer):
            self._schemas_refused.set()
            answer = self._send(prompt)
        return read_reply(answer, prompt, model=self.model, latency=time.monotonic() - started)

    def close(self) -> None:
        """Give up every request; see ``Backend.close``."""
        self._endpoint.close()

    def _send(self, prompt: Prompt) -> Answer:
        body = request(self.model, prompt, schema_in_words=self._schemas_refused.is_set())
        return self._endpoint.post(body, base_url=self._url(), api_key=self._key(), seconds=self.timeout)

    def _url(self) -> str:
        return self.base_url or self.env.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL

    def _key(self) -> str:
        key = self.env.get(self.api_key_env, "").strip()
        if not key and not is_local(self._url()):
            raise NotLoggedIn(f"openai has no key for {self._url()}: set {self.api_key_env}")
        return key or NO_KEY

    def _require_model(self) -> None:
        if not self.model:
            raise ModelRefused(f"openai was not told which model to ask: {OPENAI.cannot[ModelRefused]}")


def is_local(url: str) -> bool:
    """Whether a URL points to this machine or into its own network."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal"))


def request(model: str, prompt: Prompt, *, schema_in_words: bool) -> dict[str, Json]:
    """The body of a chat completion; pure. A schema goes with it, or into the words for an endpoint that knows none."""
    system, user = prompt.system, prompt.user
    body: dict[str, Json] = {"model": model}
    if prompt.schema is not None and schema_in_words:
        schema = msgspec.json.encode(prompt.schema).decode()
        system, user = render("json_reply", system=system, user=user, schema=schema)
    elif prompt.schema is not None:
        schema_format: dict[str, Json] = {"name": "reply", "strict": True, "schema": prompt.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema_format}
    turns: list[Json] = [{"role": "system", "content": _clean(system)}] if system.strip() else []
    body["messages"] = [*turns, {"role": "user", "content": _clean(user)}]
    return body


def refuses_schemas(answer: Answer) -> bool:
    """Whether the endpoint says that it cannot answer by a schema, or not by this one; pure."""
    said = answer.content.decode("utf-8", "replace")
    return answer.status in {400, 404, 422} and bool(re.search(r"response.?format|json_schema|structured", said))


class _Message(Struct, frozen=True, kw_only=True):
    content: str | None = None
    refusal: str | None = None


class _Choice(Struct, frozen=True, kw_only=True):
    message: _Message = _Message()
    finish_reason: str | None = None


class _CachedTokens(Struct, frozen=True, kw_only=True):
    cached_tokens: int | None = None


class _Usage(Struct, frozen=True, kw_only=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _CachedTokens | None = None

    def total(self) -> Usage:
        details = self.prompt_tokens_details or _CachedTokens()
        return Usage(
            input_tokens=self.prompt_tokens,
            output_tokens=self.completion_tokens,
            cached_tokens=details.cached_tokens or 0,
        )


class _Completion(Struct, frozen=True, kw_only=True):
    choices: tuple[_Choice, ...] = ()
    model: str = ""
    usage: _Usage | None = None
    error: Json = None


def read_reply(answer: Answer, prompt: Prompt, *, model: str, latency: float) -> Reply:
    """The reply in an answer; pure. A refusal is what the model said. Raises the ``BackendError`` of anything else."""
    said = unwrapped(answer.content.decode("utf-8", "replace"))
    if answer.status >= 400:  # noqa: PLR2004  where HTTP's errors begin
        if any(each in said for each in CONTENT_FILTERS):
            return reply_for(OPENAI, prompt, said, model=model, latency=latency)
        raise error_for(OPENAI, said, status=answer.status, retry_after=_seconds(answer.retry_after))
    try:
        completion = msgspec.json.decode(answer.content, type=_Completion)
    except msgspec.DecodeError as error:
        raise BadReply(f"openai answered with something that is no chat completion ({error})") from error
    if completion.error:
        raise error_for(OPENAI, said)
    choice = completion.choices[0] if completion.choices else _Choice()
    text = choice.message.content or choice.message.refusal or ""
    if not text and choice.finish_reason in CONTENT_FILTERS:
        text = FILTERED
    return reply_for(
        OPENAI,
        prompt,
        text,
        model=completion.model or model,
        latency=latency,
        usage=completion.usage.total() if completion.usage else None,
    )


def _seconds(retry_after: str) -> float | None:
    """A retry-after header in seconds; None for none, or for a date."""
    return float(retry_after) if re.fullmatch(r"\d+(\.\d+)?", retry_after) else None


def _clean(text: str) -> str:
    """Without the lone surrogates that no encoding can send."""
    return text.encode("utf-8", "replace").decode("utf-8")


PLUGIN = OpenAIBackend
