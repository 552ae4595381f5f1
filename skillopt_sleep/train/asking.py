"""A chat client as the way to a model that judges and analysts take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from skillopt_sleep.domain.call import Prompt, Reply
from skillopt_sleep.ports import Ask
from skillopt_sleep.train.ports import ChatClient

__all__ = ["ask_of"]


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
