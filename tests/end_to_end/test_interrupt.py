"""A night that is told to stop stops at once, says so, leaves no child behind, and can be gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.fakes.cli import make_cli
from tests.fakes.diagnostics import check_schema
from tests.fakes.home import make_person
from tests.fakes.program import ROOT, run, started

SECONDS = 2.5
"""An orderly end: one second for children that ignore the polite signal, the rest for a busy machine."""


def wait_for(condition):
    """Wait until something is so."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def told(person):
    """What the one night of a project left, valid."""
    (path,) = person.project.rglob("diagnostics.json")
    found = json.loads(path.read_text())
    check_schema(found)
    return found


def calls_are_under_way(person):
    """Whether all but the calls is prepared, so that nothing else takes time."""
    return list(person.project.rglob("diagnostics.json")) and told(person)["stage"] == "expect"


def stop(process, signum):
    """Stop the program; how long that took, and what it said."""
    started_at = time.monotonic()
    process.send_signal(signum)
    _, stderr = process.communicate(timeout=30)
    return time.monotonic() - started_at, stderr


@pytest.mark.parametrize(
    ("signum", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 143, id="SIGTERM"),
        pytest.param(signal.SIGHUP, 129, id="terminal-closed"),
    ],
)
def test_signal_in_the_middle_of_calls(tmp_path, signum, code):
    """The exit code names the signal, the diagnosis is whole, and the next run goes on with the same night."""
    person = make_person(tmp_path / "mira", rules=1, tasks_per_rule=6)
    with started(*person.arguments("run", latency=20)) as process:
        wait_for(lambda: calls_are_under_way(person))
        seconds, stderr = stop(process, signum)
    assert process.returncode == code
    assert seconds < SECONDS
    assert stderr == "skillopt-sleep: interrupted; run again to resume this night\n"
    cut = told(person)
    assert (cut["stopped_by"], cut["exit_code"], cut["state"]) == ("interrupted", code, "stopped")
    assert cut["baseline_score"] is None
    done = run(*person.arguments("run"))
    assert done.returncode == 0, done.stderr
    after = told(person)
    assert (after["night"], after["resumed"], after["stopped_by"]) == (cut["night"], 1, None)


def test_second_signal_does_no_harm(tmp_path):
    """An impatient second Ctrl-C neither delays the end nor breaks what lies on disk."""
    person = make_person(tmp_path / "mira", rules=1, tasks_per_rule=6)
    with started(*person.arguments("run", latency=20)) as process:
        wait_for(lambda: calls_are_under_way(person))
        process.send_signal(signal.SIGINT)
        seconds, _ = stop(process, signal.SIGINT)
    assert process.returncode == 130
    assert seconds < SECONDS
    cut = told(person)
    assert run(*person.arguments("run")).returncode == 0
    assert told(person)["night"] == cut["night"]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_no_child_is_left(tmp_path, signum):
    """Agent CLIs under way are ended, also those that ignore the polite signal."""
    person = make_person(tmp_path / "mira", rules=1, tasks_per_rule=6)
    cli = make_cli(tmp_path / "bin", "claude")
    cli.behave(on="--version", stdout="2.1.197 (Claude Code)")
    cli.behave(on="auth status", stdout='{"loggedIn": true}')
    cli.behave(on="-p", hang=True)
    night = ("run", *person.places, "--backend=claude", "--miner=heuristic", "--workers=4")
    with started(*night, PATH=f"{cli.folder}:{os.environ['PATH']}") as process:
        wait_for(lambda: any("-p" in call["argv"] for call in cli.calls))  # one, until its price is known
        seconds, _ = stop(process, signum)
    assert process.returncode == 128 + signum
    assert seconds < SECONDS
    assert not [call["pid"] for call in cli.calls if psutil.pid_exists(call["pid"])]
    assert told(person)["stopped_by"] == "interrupted"


WHILE_IMPORTING = """
import os, signal, sys

class Finder:
    def find_spec(self, name, *_):
        if name == "skillopt_sleep.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
from skillopt_sleep.__main__ import main
main()
"""


def test_ctrl_c_while_modules_are_imported():
    """It ends at once by the signal, without a traceback."""
    done = subprocess.run([sys.executable, "-c", WHILE_IMPORTING], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")
