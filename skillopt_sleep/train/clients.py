"""Clients: whoever answers for a role, made by name or brought along, and what an environment is given to talk to it.

A role takes any backend of this program, and any object with the ``chat`` method of the reference's clients. Either
way every call passes the run's ledger, retries, caps and limits.
"""

from __future__ import annotations

import dataclasses
import inspect
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from skillopt_sleep.domain import Json
from skillopt_sleep.domain.call import Health, Prompt, Reply, Usage
from skillopt_sleep.domain.words import excerpt
from skillopt_sleep.errors import (
    EmptyReply,
    NotLoggedIn,
    Overloaded,
    SleepError,
    TooLong,
    TransientBackend,
    UsageError,
)
from skillopt_sleep.ports import Ask, Backend
from skillopt_sleep.prompts import render
from skillopt_sleep.train.traits import client_traits
from skillopt_sleep.train.workshop import workshop

__all__ = ["AskClient", "ChatBackend", "OpenAIChatClient", "TurnClient", "as_backend", "client"]

CALL_OPTIONS: ContextVar[Mapping[str, Any]] = ContextVar("call_options", default={})  # noqa: B039  never changed
"""What the call under way in this thread was asked with, for a client that takes it: limits and temperature."""

SAMPLES = 1000
"""Numbers of samples set apart for one rollout, in which the same question may be asked again and again."""
MISTAKES = (TypeError, AttributeError, NameError, AssertionError, NotImplementedError)
"""What a client raises when it is programmed wrongly; anything else it raises is the line."""


def client(name: str, *, model: str = "", **options: Json) -> Backend:
    """The backend of that name, for either role: ``client("openai", model="…")``, claude, codex, simulated, ….

    ``options`` are the backend's own. Raises ``UsageError`` for a name or an option that there is not.
    """
    return workshop().backend(name, options | ({"model": model} if model else {}))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AskClient:
    """``train.ports.ChatClient`` over a role's way to its model.

    ``sample`` is the first of the numbers set apart for one rollout: the same question asked again within it is
    another sample, and the same rollout made again after a kill asks for the same ones. ``phase`` is what the calls are
    booked under; "" = the ``stage`` they name.
    """

    ask: Ask
    phase: str = ""
    sample: int = 0
    max_completion_tokens: int | None = None
    _asked: Counter[str] = field(default_factory=Counter, repr=False, compare=False)
    _back: dict[str, list[tuple[int, SleepError]]] = field(default_factory=dict, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def model(self) -> str:
        """The model asked for."""
        return self.ask.model

    def chat(
        self,
        *,
        system: str,
        user: str,
        max_completion_tokens: int = 4096,
        temperature: float | None = None,
        stage: str = "",
        retries: int = 3,  # noqa: ARG002  the run's own retries hold
        schema: dict[str, Json] | None = None,
        sample: int = 0,
        **_options: Any,  # noqa: ANN401  what the reference's clients take
    ) -> tuple[str, dict[str, int]]:
        """See ``train.ports.ChatClient``; ``schema`` asks for JSON, ``sample`` tells equal questions apart."""
        limit = self.max_completion_tokens or max_completion_tokens
        prompt = Prompt(
            system=system,
            user=user,
            schema=schema,
            sample=self.sample + sample,
            max_output_tokens=limit,
            temperature=temperature,
        )
        asked = prompt.digest
        again = self._number(asked)
        if self.phase:  # a judge's question is the same question whoever asks it again
            prompt = msgspec.structs.replace(prompt, sample=self.sample + sample + again)
        options: dict[str, Any] = {"max_completion_tokens": limit}
        options |= {"stage": stage or self.phase} | ({} if temperature is None else {"temperature": temperature})
        token = CALL_OPTIONS.set(options)
        try:
            reply = self.ask(prompt, phase=self.phase or stage or "judge")
        except SleepError as error:
            with self._lock:  # asked again, it is the same sample: so a run that is gone on with finds the answer
                self._back.setdefault(asked, []).append((again, error))
            raise
        finally:
            CALL_OPTIONS.reset(token)
        return reply.text, usage_of(reply)

    @property
    def lost(self) -> SleepError | None:
        """What a ``chat`` ended with that was not asked again with better luck, what ends a run first; None for none.

        A prompt that is too long is not among them: whoever asks may shorten it.
        """
        with self._lock:
            errors = [error for lost in self._back.values() for _, error in lost if not isinstance(error, TooLong)]
        return next((each for each in errors if not isinstance(each, TransientBackend)), next(iter(errors), None))

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """The client as ``ports.Ask``: the same limits, the prompt as it is."""
        prompt = msgspec.structs.replace(prompt, max_output_tokens=self.max_completion_tokens)
        token = CALL_OPTIONS.set({"max_completion_tokens": self.max_completion_tokens or 4096, "stage": phase})
        try:
            return self.ask(prompt, phase=phase)
        finally:
            CALL_OPTIONS.reset(token)

    def for_rollout(self, *, phase: str, sample: int) -> AskClient:
        """The client of one rollout, numbered by the caller."""
        own: dict[str, Any] = {"_asked": Counter(), "_back": {}, "_lock": threading.Lock()}
        return dataclasses.replace(self, phase=phase, sample=sample * SAMPLES, **own)

    def _number(self, asked: str) -> int:
        """Which time this question is asked; the number of a lost call is given out again."""
        with self._lock:
            if self._back.get(asked):
                return self._back[asked].pop(0)[0]
            self._asked[asked] += 1
            return self._asked[asked] - 1


class TurnClient:
    """The target as an environment that rolls out batches has it: one client for the whole run.

    The run says before each batch which draw it is, so that the same question in another draw is another sample.
    """

    def __init__(self, client: AskClient) -> None:
        self._client = self._now = client

    @property
    def model(self) -> str:
        """The model asked for."""
        return self._client.model

    def begin(self, *, phase: str, sample: int) -> None:
        """From now on, calls are of this draw."""
        self._now = self._client.for_rollout(phase=phase, sample=sample)

    def chat(self, **asked: Any) -> tuple[str, dict[str, int]]:  # noqa: ANN401  what ``AskClient.chat`` takes
        """See ``AskClient.chat``; from any thread."""
        return self._now.chat(**asked)


def usage_of(reply: Reply) -> dict[str, int]:
    """What a reply used, under the reference's names."""
    used = reply.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "calls": 1,
    }


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
