"""The caps hold with agent CLIs too: to the call, and to the minute and one deadline; the next run goes on."""

from __future__ import annotations

import json
import time

import pytest

from tests.end_to_end.test_backend_failures import DIALECTS, Nights
from tests.fakes.program import run_here as run

DEADLINE = 3.0
LOADED = 10.0
"""Seconds that the program itself may need on a busy machine, to start and to end."""


class Capped(Nights):
    """A person whose nights have caps."""

    def run(self, *caps, timeout=20.0):
        """One night; how it ended, its diagnosis, and the seconds it took."""
        started = time.monotonic()
        done = run(
            "run",
            "--json",
            *self.person.places,
            f"--backend={self.name}",
            "--gate-mode=strict",
            "--set=seed=2",
            "--set=retry_wait=0",
            f"--set=backends.{self.name}.timeout={timeout}",
            *caps,
            PATH=self.path,
        )
        return done, json.loads(done.stdout), time.monotonic() - started

    @property
    def calls(self):
        """Calls of the model that the CLI saw."""
        return sum(call["argv"][0] == DIALECTS[self.name].call for call in self.cli.calls)


@pytest.mark.slow
def test_cap_on_calls(tmp_path):
    """Not one call more, by however many workers; then the same night goes on to its verdict."""
    nights = Capped(tmp_path, "codex")
    done, found, _ = nights.run("--max-calls=6", "--workers=4")
    assert (done.returncode, nights.calls) == (5, 6)
    assert (found["stopped_by"], found["verdict"]) == ("budget", "unmeasured")
    assert "run again to continue" in found["why"]
    before = nights.calls
    done, after, _ = nights.run()
    assert (done.returncode, after["verdict"], after["night"]) == (0, "accept", found["night"])
    assert nights.calls > before
    nights.check_account()


@pytest.mark.slow
def test_cap_on_minutes(tmp_path):
    """A CLI that hangs keeps the night no longer than the cap and one deadline; what is next then goes on."""
    nights = Capped(tmp_path, "claude")
    nights.fail("hang")
    done, found, seconds = nights.run("--max-minutes=0.02", timeout=DEADLINE)
    assert (done.returncode, found["stopped_by"]) == (4, "backend")  # no call was ever answered
    assert seconds < 0.02 * 60 + DEADLINE + LOADED
    nights.heal()
    done, after, _ = nights.run()
    assert (done.returncode, after["night"]) == (0, found["night"])


@pytest.mark.slow
@pytest.mark.parametrize("name", DIALECTS)
def test_cap_of_one_minute(tmp_path, name):
    """Every other call hangs: the night ends within the minute and one deadline, with a diagnosis; it then goes on."""
    nights, deadline = Capped(tmp_path, name), 5.0
    nights.heal(hang_every=2)
    done, found, seconds = nights.run("--max-minutes=1", "--workers=1", timeout=deadline)
    assert (done.returncode, found["stopped_by"], found["verdict"]) == (5, "budget", "unmeasured"), found["why"]
    assert "--max-minutes" in found["why"]
    assert 60.0 <= seconds < 60.0 + deadline + LOADED
    before = nights.calls
    nights.heal()
    done, after, _ = nights.run()
    assert (done.returncode, after["verdict"], after["night"]) == (0, "accept", found["night"])
    assert nights.calls > before
    nights.check_account()
