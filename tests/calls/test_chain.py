"""The whole chain: what the roles of a night share, and what each has to itself."""

from __future__ import annotations

import pytest

from skillopt_sleep.calls.chain import chain
from skillopt_sleep.errors import BackendUnusable, Overloaded
from skillopt_sleep.model.call import Caps, Health, Prompt, Reply, Role
from skillopt_sleep.storage.database import Database
from skillopt_sleep.storage.ledger import NightLedger
from tests.fakes.clock import FakeClock


class Model:
    """A backend that answers, or is always overloaded."""

    sees = "nobody"

    def __init__(self, model, *, dead=False):
        self.name = "made"
        self.model = model
        self.dead = dead

    def probe(self):
        return Health(ready=True)

    def close(self):
        """Nothing to end."""

    def complete(self, prompt):
        if self.dead:
            raise Overloaded("down")
        return Reply(text="hello")


def test_model_that_answers_does_not_bring_another_one_back(tmp_path):
    """Four calls in a row lost by one model end the night, even if another model answers in between."""
    ledger = NightLedger(Database(tmp_path / "sleep.db"), night="n", sitting=1)
    backends = {Role.TARGET: Model("small"), Role.OPTIMIZER: Model("large", dead=True)}
    asks = chain(backends, ledger, FakeClock(), caps=Caps(), workers=2)
    for number in range(3):
        with pytest.raises(Overloaded):
            asks[Role.OPTIMIZER](Prompt(system="s", user=f"{number}"), phase="reflect")
        asks[Role.TARGET](Prompt(system="s", user=f"{number}"), phase="rollout")
    with pytest.raises(BackendUnusable, match="4 calls in a row"):
        asks[Role.OPTIMIZER](Prompt(system="s", user="last"), phase="reflect")
