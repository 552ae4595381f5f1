"""Clients: whoever answers for a role, made by name or brought along.

A role takes any backend of this program, and any object with the ``chat`` method of the reference's clients. Either
way every call passes the run's ledger, retries, caps and limits.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from skillopt_sleep.errors import EmptyReply, NotLoggedIn, Overloaded, SleepError, UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Health, Prompt, Reply, Usage
from skillopt_sleep.model.ports import Backend
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.prompts import render
from skillopt_sleep.registry import Kind, build
from skillopt_sleep.settings import environment
from skillopt_sleep.train.conversations import CALL_OPTIONS, usage_of
from skillopt_sleep.train.identity import client_traits

MISTAKES = (TypeError, AttributeError, NameError, AssertionError, NotImplementedError)
"""What a client raises when it is programmed wrongly; anything else it raises is the line."""


def client(name: str, *, model: str = "", **options: Json) -> Backend:
    """The backend of that name, for either role: ``client("openai", model="…")``, claude, codex, simulated, ….

    ``options`` are the backend's own; ``env`` overrides variables of the process's environment. Raises ``UsageError``
    for an unknown name or option.
    """
    table = options | ({"model": model} if model else {})
    own = cast("dict[str, str]", table.pop("env", None) or {})
    return cast("Backend", build(Kind.BACKEND, name, table, env={**environment(), **own}))


class OpenAIChatClient:
    """A model behind the OpenAI protocol, under the name and with the arguments of the reference.

    ``base_url`` may be that of any endpoint that speaks it. With ``azure_endpoint``, ``model`` is the deployment, asked
    through the ``api_version`` given, or without one through Azure's version-less API. The key is ``api_key``, else
    the variable ``OPENAI_API_KEY``, or ``AZURE_OPENAI_API_KEY`` for Azure. ``default_temperature`` is sent where a call
    names none; without it the model's own is used.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        azure_endpoint: str | None = None,
        api_version: str | None = None,
        default_temperature: float | None = None,
        timeout: float = 120.0,
    ) -> None:
        options: dict[str, Json] = {"timeout": timeout}
        key_name = "AZURE_OPENAI_API_KEY" if azure_endpoint else "OPENAI_API_KEY"
        if azure_endpoint:
            base_url = f"{azure_endpoint.rstrip('/')}/openai/{f'deployments/{model}' if api_version else 'v1'}"
            options |= {"api_key_env": key_name, "api_version": api_version or ""}
        if base_url:
            options["base_url"] = base_url
        if api_key:
            options["env"] = {key_name: api_key}
        self._backend = client("openai", model=model, **options)
        self._temperature = default_temperature

    def __repr__(self) -> str:
        """Without the key."""
        return f"OpenAIChatClient({self.model!r})"

    @property
    def name(self) -> str:
        """The registry name."""
        return self._backend.name

    @property
    def model(self) -> str:
        """The model asked for."""
        return self._backend.model

    @property
    def sees(self) -> str:
        """Who is sent the prompts."""
        return self._backend.sees

    @property
    def priced(self) -> bool:
        """It names no price."""
        return False

    @property
    def takes_limits(self) -> bool:
        """Yes; see ``OpenAIBackend``."""
        return True

    def probe(self) -> Health:
        """Whether a call could succeed; see ``ports.Backend``."""
        return self._backend.probe()

    def complete(self, prompt: Prompt) -> Reply:
        """One answer; see ``ports.Backend``."""
        if prompt.temperature is None:
            prompt = msgspec.structs.replace(prompt, temperature=self._temperature)
        return self._backend.complete(prompt)

    def close(self) -> None:
        """Give up every request."""
        self._backend.close()

    @property
    def traits(self) -> dict[str, Json]:
        """What of it changes an answer; see ``client_traits``."""
        return client_traits(self._backend) | {"temperature": self._temperature}

    def chat(
        self,
        *,
        system: str,
        user: str,
        max_completion_tokens: int | None = None,
        temperature: float | None = None,
        **_options: Any,  # noqa: ANN401  what the reference's clients take
    ) -> tuple[str, dict[str, int]]:
        """One answer and its usage, outside of any run: no ledger, no retry, no cap."""
        reply = self.complete(
            Prompt(system=system, user=user, max_output_tokens=max_completion_tokens, temperature=temperature)
        )
        return reply.text, usage_of(reply)


def as_backend(given: object, role: str) -> Backend:
    """A client as a backend. Raises ``UsageError`` for an object that is neither a backend nor a chat client."""
    if callable(getattr(given, "complete", None)) and hasattr(given, "name") and hasattr(given, "model"):
        return cast("Backend", given)
    if callable(getattr(given, "chat", None)):
        return ChatBackend(chat=cast("Any", given).chat, client=given)
    raise UsageError(
        f"the {role} client is {given!r:.80}; give what skillopt_sleep.train.client(NAME, model=…) returns, or"
        " an object with a method chat(*, system, user) that returns the text and its usage"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatBackend:
    """``ports.Backend`` over somebody's ``chat``; what it does not take of the call's options is not handed to it."""

    chat: Callable[..., object]
    client: object
    _takes: frozenset[str] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parameters = inspect.signature(self.chat).parameters.values()
        anything = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
        object.__setattr__(self, "_takes", None if anything else frozenset(each.name for each in parameters))

    @property
    def name(self) -> str:
        """The class of the client."""
        return type(self.client).__name__

    @property
    def model(self) -> str:
        """The client's model, "" when it does not say."""
        return str(getattr(self.client, "model", "") or "")

    @property
    def sees(self) -> str:
        """Who is sent the prompts."""
        return f"whoever {self.name} asks"

    @property
    def takes_limits(self) -> bool:
        """Whether the client's ``chat`` takes the limit of an answer."""
        return self._takes is None or "max_completion_tokens" in self._takes

    def probe(self) -> Health:
        """Ready: nothing can be found out without a call."""
        return Health(ready=True)

    def complete(self, prompt: Prompt) -> Reply:
        """One answer; a schema goes into the words. An exception of the client is the line being down, or a mistake."""
        system, user = prompt.system, prompt.user
        if prompt.schema is not None:
            schema = msgspec.json.encode(prompt.schema).decode()
            system, user = render("json_reply", system=system, user=user, schema=schema)
        options = dict(CALL_OPTIONS.get()) | {"retries": 1}
        if self._takes is not None:
            options = {key: value for key, value in options.items() if key in self._takes}
        started = time.monotonic()
        try:
            answer = self.chat(system=system, user=user, **options)
        except SleepError:
            raise
        except Exception as error:
            raise _blamed(self.name, error) from error
        text, usage = _read(self.name, answer)
        said = str(text or "").strip()
        if not said:
            raise EmptyReply(f"{self.name} returned no text")
        return Reply(text=said, model=self.model, usage=_usage(usage), latency=time.monotonic() - started)

    def close(self) -> None:
        """Close the client, when it can be."""
        close = getattr(self.client, "close", None)
        if callable(close):
            close()


def _blamed(name: str, error: Exception) -> SleepError:
    """What a client raised: a mistake in its code, a key that is refused, or the line being down."""
    said = f"{name} raised {type(error).__name__}: {error}"
    if isinstance(error, MISTAKES):
        return UsageError(f"the client {said}; mend its method chat(*, system, user, **options)")
    if getattr(error, "status_code", None) in {401, 403}:
        return NotLoggedIn(f"{said}; give it a good key")
    return Overloaded(said)


def _read(name: str, answer: object) -> tuple[object, object]:
    """The text and the usage in what a client returned. Raises ``UsageError`` for what is neither."""
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise UsageError(f"the client {name} has an async chat; give one that waits for its answer and returns it")
    if not isinstance(answer, tuple):
        return answer, {}
    if len(answer) != 2:  # noqa: PLR2004  text and usage
        raise UsageError(f"the client {name} returned {len(answer)} values; chat returns the text, or (text, usage)")
    return answer


def _usage(usage: object) -> Usage:
    if not isinstance(usage, Mapping):
        return Usage()
    figures = [usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0]
    if not all(isinstance(each, int | float) and each >= 0 for each in figures):
        raise UsageError(f"the client reports a usage of {excerpt(repr(dict(usage)), 80)}: tokens are whole numbers")
    return Usage(input_tokens=int(figures[0]), output_tokens=int(figures[1]))
