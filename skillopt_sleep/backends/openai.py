"""Any OpenAI-compatible API as a model: chat completions or responses of a hosted or a local endpoint."""

from __future__ import annotations

import ipaddress
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.endpoint import Address, Answer, Endpoint
from skillopt_sleep.backends.openai_wire import OPENAI, PATHS, Api, read_reply, refuses_limit, refuses_schemas, request
from skillopt_sleep.errors import BackendError, ModelRefused, NotLoggedIn, Overloaded, SettingsError, TimedOut
from skillopt_sleep.model.call import Health, Prompt, Reply
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.safety.receivers import provider_at

DEFAULT_BASE_URL = "https://api.openai.com/v1"
NO_KEY = "none"
"""What a local endpoint is given where there is no key: it looks at none, and the library wants one."""
PROBE_SECONDS = 5.0
OK, REDIRECTED = 200, 300
"""Where HTTP's good answers begin and end."""
SHOWN = 5
"""Models of an endpoint that a message names."""


class _Model(Struct, frozen=True, kw_only=True):
    id: str = ""


class _Models(Struct, frozen=True, kw_only=True):
    """The list of an endpoint's models."""

    data: tuple[_Model, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIBackend:
    """One request an answer, through the ``openai`` library.

    ``model``: a model of the endpoint, required. ``base_url``: the endpoint; "" = ``OPENAI_BASE_URL`` of ``env``, else
    OpenAI itself. ``api``: chat, which every endpoint speaks, or responses. ``api_version``: what Azure wants to be
    told. ``api_key_env``: the variable of ``env`` that holds the key; an endpoint on this machine or in its own network
    needs none. ``timeout``: seconds one call may take. Raises ``SettingsError`` for a ``base_url`` that is no HTTP
    address.
    """

    model: str = ""
    base_url: str = ""
    api: Api = "chat"
    api_version: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    timeout: float = 180.0
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    _endpoint: Endpoint = field(default_factory=Endpoint, init=False, repr=False, compare=False)
    _schemas_refused: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)
    _old_limit: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        flaw = _flaw(self._url())
        if flaw:
            raise SettingsError(f"[backends.openai] base_url is {shown(self._url())!r}, {flaw}")

    @property
    def name(self) -> str:
        """The registry name."""
        return "openai"

    @property
    def sees(self) -> str:
        """Who is sent the prompts."""
        return f"whoever answers at {shown(self._url())}"

    @property
    def takes_limits(self) -> bool:
        """Whether the limit and the temperature of a prompt are sent to the model."""
        return True

    @property
    def provider(self) -> str:
        """OpenAI or Anthropic, else the host; "" for this machine itself."""
        return provider_at(self._url())

    @property
    def priced(self) -> bool:
        """It names no price."""
        return False

    def probe(self) -> Health:
        """Whether there is a key, a model to ask for, and an endpoint that takes both; asks for its list of models.

        An endpoint that has no such list is believed to be ready.
        """
        try:
            self._require_model()
            answer = self._endpoint.get("/models", at=self._address(), seconds=min(PROBE_SECONDS, self.timeout))
        except (Overloaded, TimedOut) as error:
            detail = f"{error}; start it, or name another one by `base_url` in [backends.openai]"
            return Health(ready=False, detail=detail)
        except BackendError as error:
            logged_in = False if isinstance(error, NotLoggedIn) else None
            return Health(ready=False, logged_in=logged_in, detail=str(error))
        if answer.status in {401, 403}:
            detail = f"openai's key is refused by {shown(self._url())}: {OPENAI.cannot[NotLoggedIn]}"
            return Health(ready=False, logged_in=False, version=shown(self._url()), detail=detail)
        wrong = self._no_such_api(answer) or self._missing_model(answer)
        return Health(ready=not wrong, logged_in=True, version=shown(self._url()), detail=wrong)

    def complete(self, prompt: Prompt) -> Reply:
        """One answer; see ``Backend.complete``. An endpoint that refuses schemas is asked in words from then on.

        Nor is one that does not know the present name of the limit on an answer asked by it twice.
        """
        self._require_model()
        started = time.monotonic()
        answer = self._send(prompt)
        if prompt.max_output_tokens is not None and not self._old_limit.is_set() and refuses_limit(answer):
            self._old_limit.set()
            answer = self._send(prompt)
        if prompt.schema is not None and not self._schemas_refused.is_set() and refuses_schemas(answer):
            self._schemas_refused.set()
            answer = self._send(prompt)
        return read_reply(answer, prompt, model=self.model, latency=time.monotonic() - started)

    def close(self) -> None:
        """Give up every request; see ``Backend.close``."""
        self._endpoint.close()

    def _send(self, prompt: Prompt) -> Answer:
        in_words, old = self._schemas_refused.is_set(), self._old_limit.is_set()
        body = request(self.api, self.model, prompt, schema_in_words=in_words, old_limit=old)
        seconds = prompt.within.clip(self.timeout)
        return self._endpoint.post(PATHS[self.api], body, at=self._address(), seconds=seconds)

    def _address(self) -> Address:
        """What stands behind a question mark in the address, as Azure's version, goes behind that of every request."""
        parts = urllib.parse.urlsplit(self._url())
        query = tuple(urllib.parse.parse_qsl(parts.query))
        return Address(
            url=parts._replace(query="", fragment="").geturl(),
            key=self._key(),
            version=self.api_version or dict(query).get("api-version", ""),
            query=query,
            shown=shown(self._url()),
        )

    def _no_such_api(self, answer: Answer) -> str:
        """What to do about a list of models that is a page for people, or nothing; "" where it may be one."""
        if not OK <= answer.status < REDIRECTED or answer.content.lstrip()[:1] in {b"{", b"["}:
            return ""
        what = f"{excerpt(answer.content.decode('utf-8', 'replace'), 40)!r}" if answer.content.strip() else "nothing"
        return (
            f"{shown(self._url())} answers with {what} where its list of models should be: is base_url in"
            " [backends.openai] the address of the API, with its /v1?"
        )

    def _missing_model(self, answer: Answer) -> str:
        """What to do when an endpoint of one's own does not have the model, "" when it does or does not say.

        A hosted one may be asked by names, as of deployments, that its list does not show.
        """
        if answer.status != OK or not is_local(self._url()):
            return ""
        try:
            models = [each.id for each in msgspec.json.decode(answer.content, type=_Models).data or ()]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        if self.model in {name for each in models for name in (each, each.partition(":")[0])}:
            return ""
        has = ", ".join(models[:SHOWN]) + (", …" if len(models) > SHOWN else "") if models else "none at all"
        return f"{shown(self._url())} has no model {self.model!r}; it has {has}"

    def _url(self) -> str:
        return self.base_url or self.env.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL

    def _key(self) -> str:
        key = self.env.get(self.api_key_env, "").strip()
        if not key and not is_local(self._url()):
            raise NotLoggedIn(f"openai has no key for {shown(self._url())}: set {self.api_key_env}")
        if any(not "!" <= letter <= "~" for letter in key):
            raise NotLoggedIn(
                f"the key in {self.api_key_env} holds a space, a line end or a letter beyond ASCII, which no key has:"
                f" {OPENAI.cannot[NotLoggedIn]}"
            )
        return key or NO_KEY

    def _require_model(self) -> None:
        if not self.model:
            raise ModelRefused(f"openai was not told which model to ask: {OPENAI.cannot[ModelRefused]}")


def shown(url: str) -> str:
    """An address as it may be read by anybody: without a user, a password, and what stands behind a question mark."""
    start, two_dots, rest = url.partition("://")
    rest = rest.partition("?")[0].partition("#")[0]
    host, slash, path = rest.partition("/")
    return f"{start}{two_dots}{host.rpartition('@')[2]}{slash}{path}"


def _flaw(url: str) -> str:
    """What is wrong with an address, "" when it can be one."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        why = str(error) if "@" not in str(error) else "it cannot be read"
        return f"which is no address: {why}"
    if parts.scheme not in {"http", "https"}:
        return "it must begin with https:// or http://"
    if not parts.hostname or port == 0 or any(letter.isspace() for letter in url):
        return "which names no host, or not as an address does"
    return ""


def is_local(url: str) -> bool:
    """Whether a URL points to this machine or into its own network."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal"))


PLUGIN = OpenAIBackend
