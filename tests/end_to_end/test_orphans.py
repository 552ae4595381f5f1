"""A night that is killed in the middle of its calls leaves children; the next command, whatever it is, ends them."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.test_backend_failures import DIALECTS, SYSTEM_PATH
from tests.fakes.cli import make_cli
from tests.fakes.home import make_person
from tests.fakes.program import run, started

NEXT = {
    "status": ("status",),
    "run": ("run", "--dry-run", "--backend=simulated"),
}
"""One that only looks, and one that works."""


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """A person, the name of her agent's CLI, which hangs in every call, and a folder for what is temporary."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()

    def make(name):
        cli = make_cli(tmp_path / "bin", name)
        dialect = DIALECTS[name]
        cli.behave(on="--version", stdout=dialect.version)
        cli.behave(on=dialect.login, stdout=dialect.logged_in)
        cli.behave(on=dialect.call, hang=True)
        return make_person(tmp_path / "mira", rules=1, tasks_per_rule=4), cli, dialect

    yield make
    for pid in pids(tmp_path):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def pids(folder) -> list[int]:
    """Every living process that carries the fake CLI's path."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = any(str(folder / "bin") in each for each in process.cmdline())
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def kill_in_the_middle(person, cli, dialect, name):
    """Start a night, and kill it when its first call hangs."""
    night = ("run", "--miner=model", f"--backend={name}", *person.places)
    with started(*night, PATH=f"{cli.folder}:{SYSTEM_PATH}") as process:
        deadline = time.monotonic() + 30
        while not any(call["argv"][0] == dialect.call for call in cli.calls):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(("name", "command"), [("claude", "status"), ("codex", "run")])
def test_next_command_after_a_kill(agent, tmp_path, name, command):
    """No process, no folder and no note is left, and it says so in a line; the one after it has nothing to say."""
    person, cli, dialect = agent(name)
    kill_in_the_middle(person, cli, dialect, name)
    assert pids(tmp_path)
    assert list((tmp_path / "tmp").glob("skillopt-sleep*"))
    done = run(*NEXT[command], *person.places, PATH=f"{cli.folder}:{SYSTEM_PATH}")
    assert "a night that was killed had left 1 processes and" in done.stderr
    assert pids(tmp_path) == []
    assert list((tmp_path / "tmp").glob("skillopt-sleep*")) == []
    assert list((person.data / "children").iterdir()) == []
    assert "killed" not in run("status", *person.places).stderr


def test_command_beside_a_night_that_lives(agent, tmp_path):
    """It leaves the children of the night alone; Ctrl-C ends them, and nothing is noted any more."""
    person, cli, dialect = agent("claude")
    night = ("run", "--miner=model", "--backend=claude", *person.places)
    with started(*night, PATH=f"{cli.folder}:{SYSTEM_PATH}") as process:
        deadline = time.monotonic() + 30
        while not any(call["argv"][0] == dialect.call for call in cli.calls):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert run("status", *person.places).returncode == 0
        assert pids(tmp_path)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    assert pids(tmp_path) == []
    assert list(Path(tmp_path / "tmp").glob("skillopt-sleep*")) == []
    assert list((person.data / "children").iterdir()) == []
