"""A backend that answers from a script."""

from __future__ import annotations

import threading

from skillopt_sleep.model.call import Health, Reply, Usage


class ScriptedBackend:
    """``ports.Backend``: each call takes the next entry; the last entry repeats.

    A line that is an exception is raised, a string answered. ``prompts`` holds what it was sent, in order.
    """

    name = "scripted"
    model = "script-1"
    sees = "nobody"

    def __init__(self, *lines, cost_usd=0.01):
        self._lines = list(lines)
        self._cost = cost_usd
        self._lock = threading.Lock()
        self.prompts = []
        self.closed = False

    def probe(self):
        return Health(ready=True, version="1.0")

    def complete(self, prompt):
        with self._lock:
            self.prompts.append(prompt)
            line = self._lines.pop(0) if len(self._lines) > 1 else self._lines[0]
        if isinstance(line, BaseException):
            raise line
        return Reply(text=line, model=self.model, usage=Usage(input_tokens=10, output_tokens=5), cost_usd=self._cost)

    def close(self):
        self.closed = True
