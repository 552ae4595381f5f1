"""A simulated agent that logs every call to a file before it answers, so that the log survives a kill."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.model.call import Health, Prompt, Reply


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WitnessBackend:
    """A backend that writes a line for every call, prompt digest and sample, to the file ``log`` before it answers.

    ``die_before`` is the number of a call, counted from 1 over the whole log, before which the process is killed.
    """

    log: str
    world: str
    latency: float = 0.0
    die_before: int = 0
    model: str = "witness"
    _inner: list[SimulatedBackend] = dataclasses.field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self._inner.append(SimulatedBackend(world=self.world, latency=self.latency))

    @property
    def name(self) -> str:
        """The registry name."""
        return "witness"

    @property
    def sees(self) -> str:
        """Who reads the prompts: nobody."""
        return "nobody"

    @property
    def provider(self) -> str:
        """No provider reads them either."""
        return ""

    def probe(self) -> Health:
        """Always ready."""
        return Health(ready=True)

    def complete(self, prompt: Prompt) -> Reply:
        """Log, then answer."""
        log = Path(self.log)
        if log.read_bytes().count(b"\n") + 1 == self.die_before:
            os.kill(os.getpid(), signal.SIGKILL)
        with log.open("a") as file:
            file.write(f"{prompt.digest} {prompt.sample}\n")
        return self._inner[0].complete(prompt)

    def close(self) -> None:
        """Wake the calls that wait."""
        self._inner[0].close()
