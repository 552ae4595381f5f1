"""The model: it honks."""

from __future__ import annotations

from dataclasses import dataclass, field

from skillopt_sleep.errors import EmptyReply, TimedOut
from skillopt_sleep.model.call import Health, Prompt, Reply


@dataclass(kw_only=True)
class GooseBackend:
    """It honks ``times``; at 0 it says nothing."""

    times: int = 1
    model: str = "goose-1"
    closed: bool = field(default=False, init=False)
    name = "goose"
    sees = "the flock"
    provider = "flock"

    def probe(self) -> Health:
        """It is always there."""
        return Health(ready=True, version="1.0")

    def complete(self, prompt: Prompt) -> Reply:
        """Honk."""
        if self.closed:
            raise TimedOut("goose has flown")
        if not self.times:
            raise EmptyReply("goose said nothing")
        return Reply(text=" ".join(["honk"] * self.times), model=self.model)

    def close(self) -> None:
        """Fly away."""
        self.closed = True
