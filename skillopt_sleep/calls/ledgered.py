"""Outermost: a reply already paid for in this night is returned, and nothing is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from skillopt_sleep.calls.send import Send
from skillopt_sleep.domain.call import Prompt, Reply, Role
from skillopt_sleep.ports import Ledger

__all__ = ["Ledgered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledgered:
    """The ``ports.Ask`` of one role.

    Two threads that ask the same thing at once share one call: the second waits for the first one's reply.
    """

    role: Role
    model: str
    ledger: Ledger
    send: Send
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asking: dict[tuple[str, int], threading.Lock] = field(default_factory=dict)

    def __call__(self, prompt: Prompt, *, phase: str) -> Reply:
        """Answer from the ledger, or send."""
        with self._alone((prompt.digest, prompt.sample)):
            known = self.ledger.find(self.role, prompt, self.model)
            if known is not None:
                self.ledger.reuse(phase)
                return known
            return self.send(prompt, phase=phase)

    @contextmanager
    def _alone(self, key: tuple[str, int]) -> Iterator[None]:
        with self._lock:
            mine = self._asking.setdefault(key, threading.Lock())
        with mine:
            try:
                yield
            finally:
                with self._lock:
                    self._asking.pop(key, None)
