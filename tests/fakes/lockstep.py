"""A clock that counts steps: measures how long a backend's calls take without depending on how busy the machine is."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from skillopt_sleep.model.call import Health, Prompt, Reply
from skillopt_sleep.model.ports import Backend

QUIET = 0.25
"""A step ends when no further call has come for so many seconds."""


class Lockstep:
    """All calls in flight share one step; ``taken`` counts the steps.

    A step ends when ``workers`` calls are in it, or when no other call comes.
    """

    def __init__(self, workers: int) -> None:
        self.taken = 0
        self._workers = workers
        self._waiting = 0
        self._changed = threading.Condition()

    def backend(self, inner: Backend) -> Backend:
        """Wrap a backend so that every call takes one step."""
        return _Stepping(inner, self)

    def wait(self) -> None:
        """Wait until the current step has ended."""
        with self._changed:
            step = self.taken
            self._waiting += 1
            if self._waiting == self._workers:
                self._end()
            self._changed.notify_all()
            while self.taken == step:
                now = self.taken, self._waiting
                self._changed.wait(QUIET)
                if (self.taken, self._waiting) == now:
                    self._end()

    def _end(self) -> None:
        self.taken += 1
        self._waiting = 0
        self._changed.notify_all()


@dataclass(frozen=True)
class _Stepping:
    inner: Backend
    steps: Lockstep

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def probe(self) -> Health:
        return self.inner.probe()

    def complete(self, prompt: Prompt) -> Reply:
        self.steps.wait()
        return self.inner.complete(prompt)

    def close(self) -> None:
        self.inner.close()
