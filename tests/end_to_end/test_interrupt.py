"""A night that is told to stop stops at once, says so, leaves no child behind, and can be gone on with."""

from __future__ import annotations

import json
import os
import signal
import time

import jsonschema
import psutil
import pytest

from skillopt_sleep.reports import diagnostics
from tests.fakes.cli import make_cli
from tests.fakes.home import make_person
from tests.fakes.program import run, start

SECONDS = 2.5
"""An orderly end: one second for children that ignore the polite signal, the rest for a busy machine."""


def wait_for(condition):
    """Wait until something is so."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def told(person):
    """What the one night of a project left, valid."""
    (path,) = person.project.rglob("diagnostics.json")
    found = json.loads(path.read_text())
    jsonschema.validate(found, diagnostics.schema())
    return found


def stop(process, signum):
    """Stop the program; how long that took, and what it said."""
    started = time.monotonic()
    process.send_signal(signum)
    _, stderr = process.communicate(timeout=30)
    return time.monotonic() - started, stderr


@pytest.mark.parametrize(
    ("signum", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 143, id="SIGTERM"),
        pytest.param(signal.SIGHUP, 129, id="terminal closed"),
    ],
)
@pytest.mark.parametrize("workers", [1, 4])
def test_signal_in_the_middle_of_calls(tmp_path, signum, code, workers):
    """The exit code names the signal, the diagnosis is whole, and the next run goes on with the same night."""
    person = make_person(tmp_path / "mira", rules=1, tasks_per_rule=6)
    process = start(*person.arguments("run", f"--workers={workers}", latency=20))
    wait_for(lambda: [path for path in person.project.rglob("diagnostics.json") if '"split"' in path.read_text()])
    seconds, stderr = stop(process, signum)
    assert process.returncode == code
    assert seconds < SECONDS
    assert stderr == "skillopt-sleep: interrupted; run again to go on with this night\n"
    cut = told(person)
    assert (cut["stopped_by"], cut["exit_code"], cut["state"]) == ("interrupted", code, "stopped")
    assert cut["baseline_score"] is None
    assert run(*person.arguments("run")).returncode == 0
    done = told(person)
    assert (done["night"], done["resumed"], done["verdict"]) == (cut["night"], 1, "accept")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_no_child_is_left(tmp_path, signum):
    """Agent CLIs under way are ended, also those that ignore the polite signal, with what they started."""
    person = make_person(tmp_path / "mira", rules=1, tasks_per_rule=6)
    cli = make_cli(tmp_path / "bin", "claude")
    cli.behave(on="--version", stdout="2.1.197 (Claude Code)")
    cli.behave(on="auth status", stdout='{"loggedIn": true}')
    cli.behave(on="-p", hang=True)
    path = f"{cli.folder}:{os.environ['PATH']}"
    process = start("run", *person.places, "--backend=claude", "--miner=heuristic", "--workers=4", PATH=path)
    wait_for(lambda: sum("-p" in call["argv"] for call in cli.calls) == 4)
    seconds, _ = stop(process, signum)
    assert seconds < SECONDS
    assert process.returncode == 128 + signum
    assert not [call["pid"] for call in cli.calls if psutil.pid_exists(call["pid"])]
    assert told(person)["stopped_by"] == "interrupted"


def test_second_signal_is_no_way_out(tmp_path):
    """An impatient second Ctrl-C ends it too, and what lies on disk is still whole."""
    person = make_person(tmp_path / "mira", rules=1, tasks_per_rule=6)
    process = start(*person.arguments("run", latency=20))
    wait_for(lambda: [path for path in person.project.rglob("diagnostics.json") if '"split"' in path.read_text()])
    process.send_signal(signal.SIGINT)
    seconds, _ = stop(process, signal.SIGINT)
    assert seconds < SECONDS
    assert process.returncode == 130
    told(person)
    assert run(*person.arguments("run")).returncode == 0
    assert told(person)["resumed"] == 1
