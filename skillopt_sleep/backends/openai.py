"""Ask any OpenAI-compatible endpoint, hosted or local, for chat completions or responses."""

from __future__ import annotations

import ipaddress
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from skillopt_sleep.backends.openai_api import (
    MAX_REPLY_BYTES,
    OPENAI,
    PATHS,
    Address,
    Answer,
    Api,
    Endpoint,
    build_request,
    is_limit_refused,
    is_schema_refused,
    read_reply,
)
from skillopt_sleep.backends.outcomes import decode_json
from skillopt_sleep.errors import BackendError, BadReply, ModelRefused, NotLoggedIn, Overloaded, SettingsError, TimedOut
from skillopt_sleep.model.call import Health, Prompt, Reply
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.safety.receivers import hide_secrets, identify_provider

DEFAULT_BASE_URL = "https://api.openai.com/v1"
NO_KEY = "none"
"""The key sent when there is none: a local endpoint ignores it, but the library requires one."""
PROBE_SECONDS = 5.0
OK, REDIRECTED = 200, 300
"""The first HTTP status that means success, and the first one beyond these."""
MODELS_SHOWN = 5
"""Models of an endpoint that a message names."""


class _Model(Struct, frozen=True, kw_only=True):
    id: str = ""


class _Models(Struct, frozen=True, kw_only=True):
    """An endpoint's list of models."""

    data: tuple[_Model, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIBackend:
    """One request per answer, through the ``openai`` library.

    Raises ``SettingsError`` for a ``base_url`` that is no HTTP address.
    """

    model: str = ""
    """A model of the endpoint, required."""
    base_url: str = ""
    """The endpoint; "" = ``OPENAI_BASE_URL`` of ``env``, else OpenAI itself."""
    api: Api = "chat"
    """"chat", which every endpoint speaks, or "responses"."""
    api_version: str = ""
    """The API version that Azure requires."""
    api_key_env: str = "OPENAI_API_KEY"
    """The variable of ``env`` that holds the key; an endpoint on this machine or its own network needs none."""
    timeout: float = 180.0
    """Seconds that one call may take."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment that holds the key."""
    max_reply_bytes: int = MAX_REPLY_BYTES
    """Bytes of one answer that are read; a longer one is lost."""
    _endpoint: Endpoint = field(default_factory=Endpoint, init=False, repr=False, compare=False)
    _schemas_refused: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)
    _old_limit: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.max_reply_bytes < 1:
            raise SettingsError(f"[backends.openai] max_reply_bytes is {self.max_reply_bytes}; it must be 1 or more")
        object.__setattr__(self, "_endpoint", Endpoint(self.max_reply_bytes))
        flaw = _find_flaw(self._url())
        if flaw:
            raise SettingsError(f"[backends.openai] base_url is {hide_secrets(self._url())!r}, {flaw}")

    @property
    def name(self) -> str:
        """The registry name."""
        return "openai"

    @property
    def sees(self) -> str:
        """Who receives the prompts, in words for the user."""
        return f"whoever answers at {hide_secrets(self._url())}"

    @property
    def takes_limits(self) -> bool:
        """The limit and the temperature of a prompt are sent to the model."""
        return True

    @property
    def provider(self) -> str:
        """OpenAI or Anthropic, else the host; "" for this machine itself."""
        return identify_provider(self._url())

    @property
    def priced(self) -> bool:
        """The API names no price."""
        return False

    def probe(self) -> Health:
        """Check, by asking for the list of models, that there is a key, a model and an endpoint that accepts both.

        An endpoint that has no such list is believed to be ready.
        """
        shown = hide_secrets(self._url())
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
            detail = f"openai's key is refused by {shown}: {OPENAI.fixes[NotLoggedIn]}"
            return Health(ready=False, logged_in=False, version=shown, detail=detail)
        flaw = self._find_no_api(answer) or self._find_missing_model(answer)
        return Health(ready=not flaw, logged_in=True, version=shown, detail=flaw)

    def complete(self, prompt: Prompt) -> Reply:
        """Answer one prompt; see ``Backend.complete``.

        An endpoint that refuses schemas is given them in words from then on, and one that does not know the present
        name of the limit on an answer is given its older name.
        """
        self._require_model()
        started = time.monotonic()
        answer = self._send(prompt)
        if prompt.max_output_tokens is not None and not self._old_limit.is_set() and is_limit_refused(answer):
            self._old_limit.set()
            answer = self._send(prompt)
        if prompt.schema is not None and not self._schemas_refused.is_set() and is_schema_refused(answer):
            self._schemas_refused.set()
            answer = self._send(prompt)
        return read_reply(answer, prompt, model=self.model, latency=time.monotonic() - started)

    def close(self) -> None:
        """Cancel every request; see ``Backend.close``."""
        self._endpoint.close()

    def _send(self, prompt: Prompt) -> Answer:
        in_words, old = self._schemas_refused.is_set(), self._old_limit.is_set()
        body = build_request(self.api, self.model, prompt, schema_in_words=in_words, old_limit=old)
        seconds = prompt.within.clip(self.timeout)
        return self._endpoint.post(PATHS[self.api], body, at=self._address(), seconds=seconds)

    def _address(self) -> Address:
        """Split the address: its query, such as Azure's version, goes with every request."""
        parts = urllib.parse.urlsplit(self._url())
        query = tuple(urllib.parse.parse_qsl(parts.query))
        return Address(
            url=parts._replace(query="", fragment="").geturl(),
            key=self._read_key(),
            version=self.api_version or dict(query).get("api-version", ""),
            query=query,
            shown=hide_secrets(self._url()),
        )

    def _find_no_api(self, answer: Answer) -> str:
        """Return what to do when the list of models is a web page or empty; "" when it may be a list."""
        if not OK <= answer.status < REDIRECTED or answer.content.lstrip()[:1] in {b"{", b"["}:
            return ""
        what = f"{excerpt(answer.content.decode('utf-8', 'replace'), 40)!r}" if answer.content.strip() else "nothing"
        return (
            f"{hide_secrets(self._url())} answers with {what} where its list of models should be: is base_url in"
            " [backends.openai] the address of the API, with its /v1?"
        )

    def _find_missing_model(self, answer: Answer) -> str:
        """Return what to do when a local endpoint does not have the model; "" when it has it or does not say.

        A hosted endpoint may accept names, as of deployments, that its list does not show.
        """
        if answer.status != OK or not is_local(self._url()):
            return ""
        try:
            models = [model.id for model in decode_json(answer.content, _Models).data or ()]
        except BadReply:
            return ""
        if self.model in {name for model in models for name in (model, model.partition(":")[0])}:
            return ""
        more = ", …" if len(models) > MODELS_SHOWN else ""
        known = ", ".join(models[:MODELS_SHOWN]) + more if models else "none at all"
        return f"{hide_secrets(self._url())} has no model {self.model!r}; it has {known}"

    def _url(self) -> str:
        return self.base_url or self.env.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL

    def _read_key(self) -> str:
        key = self.env.get(self.api_key_env, "").strip()
        if not key and not is_local(self._url()):
            raise NotLoggedIn(f"openai has no key for {hide_secrets(self._url())}: set {self.api_key_env}")
        if any(not "!" <= letter <= "~" for letter in key):
            raise NotLoggedIn(
                f"the key in {self.api_key_env} holds a space, a line end or a letter beyond ASCII, which no key has:"
                f" {OPENAI.fixes[NotLoggedIn]}"
            )
        return key or NO_KEY

    def _require_model(self) -> None:
        if not self.model:
            raise ModelRefused(f"openai has no model to ask: {OPENAI.fixes[ModelRefused]}")


def _find_flaw(url: str) -> str:
    """Return what is wrong with an address, "" for nothing."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        why = str(error) if "@" not in str(error) else "it cannot be read"
        return f"which is no address ({why}); expected one like {DEFAULT_BASE_URL}"
    if parts.scheme not in {"http", "https"}:
        return "it must begin with https:// or http://"
    if not parts.hostname or port == 0 or any(letter.isspace() for letter in url):
        return "which names no host, or not as an address does"
    return ""


def is_local(url: str) -> bool:
    """Tell whether a URL points to this machine or into its own network."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal"))


PLUGIN = OpenAIBackend
