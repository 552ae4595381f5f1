"""Time that goes by in steps: what a backend's calls take, told without a watch that a busy machine would put wrong."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from skillopt_sleep.model.call import Health, Prompt, Reply
from skillopt_sleep.model.ports import Backend

QUIET = 0.25
"""Seconds in which no further call comes: those that wait are all there will be in this step."""


class Lockstep:
    """Calls take one step, all that are in flight the same one; ``taken`` counts the steps.

    A step ends when ``workers`` calls are in it, or when no other comes: then somebody waits for one of these.
    """

    def __init__(self, workers: int) -> None:
        self.taken = 0
        self._workers = workers
        self._waiting = 0
        self._changed = threading.Condition()

    def backend(self, inner: Backend) -> Backend:
        """The same backend, each call of it a step long."""
        return _Stepping(inner, self)

    def wait(self) -> None:
        """Return when the step has ended that this call is in."""
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
