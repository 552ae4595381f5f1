"""A simulated agent that keeps a log of every call it is sent, in a file that outlives the process."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.model.call import Health, Prompt, Reply


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WitnessBackend:
    """``ports.Backend``: a line of ``log`` for each call, written before it is sent: prompt digest and sample.

    ``die_before``: the number of the call, counted from 1 over the whole log, that finds the process killed.
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
        """Who reads the prompts."""
        return "nobody"

    @property
    def provider(self) -> str:
        """Who may read them too."""
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
        """Wake who waits."""
        self._inner[0].close()
