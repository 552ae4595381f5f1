"""What an environment is given to talk to a model: each call passes the ledger, retries, caps and limits of the run.

A chat client as the way to a model that judges and analysts take.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from skillopt_sleep.errors import SleepError, TooLong, TransientBackend
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Prompt, Reply
from skillopt_sleep.model.ports import Ask
from skillopt_sleep.train.ports import ChatClient

CALL_OPTIONS: ContextVar[Mapping[str, Any]] = ContextVar("call_options", default={})  # noqa: B039  never changed
"""What the call under way in this thread was asked with, for a client that takes it: limits and temperature."""
SAMPLES = 1000
"""Numbers of samples set apart for one rollout, in which the same question may be asked again and again."""


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


def ask_of(client: ChatClient) -> Ask:
    """The client itself where it is one already, as the trainer's are; else over its ``chat``."""
    return cast("Ask", client) if callable(client) else _ChatAsk(client=client)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChatAsk:
    client: ChatClient

    @property
    def model(self) -> str:
        return self.client.model

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        text, _ = self.client.chat(
            system=prompt.system, user=prompt.user, stage=phase, schema=prompt.schema, sample=prompt.sample
        )
        return Reply(text=text, model=self.client.model)
