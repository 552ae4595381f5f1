"""A night that is killed in the middle of its calls leaves children; the next command, whatever it is, ends them.

However a rollout ends, as text, native or in a copy of the project, nothing of it stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from tests.agents import night as rollouts
from tests.end_to_end.test_backend_failures import DIALECTS, SYSTEM_PATH
from tests.fakes.agent import claude_says, codex_says
from tests.fakes.cli import make_cli
from tests.fakes.home import make_person
from tests.fakes.program import run, started
from tests.fakes.repository import git, make_project, tree

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
    assert "cleaned up after a killed night: 1 processes" in done.stderr
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


class Killed:
    """A program of many rollouts with fake CLIs, some of which hang, are killed or leave something; to be killed."""

    def __init__(self, folder, monkeypatch):
        self.temporary, self.data = folder / "tmp", folder / "data"
        self.project = make_project(folder / "project", code="x\n")
        self.place = (f"--project={self.project}", f"--data-dir={self.data}")
        self.temporary.mkdir()
        monkeypatch.setenv("TMPDIR", str(self.temporary))
        self.clis = [make_cli(folder / "bin" / name, name) for name in DIALECTS]
        says = {"claude": claude_says("done"), "codex": codex_says("done")}
        for cli in self.clis:
            dialect = DIALECTS[cli.command]
            answer = {"stdout": says[cli.command]}
            faults = {
                "[[fault hang]]": {"hang": True, "leaves": True},
                "[[kill me]]": {"kill": signal.SIGKILL, "leaves": True},
                "[[fault reset]]": dialect.says["529"],
                "[[fault 529]]": dialect.says["529"],
                "[[leave one]]": answer | {"leaves": True},
            }
            cli.behave(on=dialect.call, **answer, at=faults)
        self.told = rollouts.Told(
            env={"PATH": os.pathsep.join([*(str(cli.folder) for cli in self.clis), SYSTEM_PATH]), "HOME": str(folder)},
            record=str(self.data / "children"),
            project=str(self.project),
            commit=git(self.project, "rev-parse", "HEAD"),
            rollouts=0,
            timeout=1.0,
            commands={"codex": ("true",)},  # Claude's are run by bubblewrap, which may be missing here
        )
        self.before = tree(self.project)

    def begin(self, number):
        """The program, with so many rollouts to make."""
        return rollouts.begin(msgspec.structs.replace(self.told, rollouts=number))

    @property
    def hanging(self):
        """The calls that hang for good."""
        return [call for cli in self.clis for call in cli.calls if "for good" in call["stdin"]]

    def left(self):
        """Processes, throwaway folders and notes that are there."""
        folders = list(self.temporary.glob("skillopt-sleep*"))
        notes = list((self.data / "children").glob("*"))  # it may have died before there was a folder for them
        return rollouts.living(str(self.temporary), str(self.clis[0].folder.parent)), folders, notes

    def check_nothing_left(self):
        """The next command has taken it all away, and the project has never been touched."""
        assert self.left() == ([], [], [])
        assert tree(self.project) == self.before
        assert git(self.project, "worktree", "list").count("\n") == 0


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """Nothing of it outlives the test."""
    made = Killed(tmp_path, monkeypatch)
    yield made
    for line in rollouts.living(str(tmp_path)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("number", [36, 200])
def test_rollouts_of_every_kind_and_a_kill(killed, number):
    """Those that hang, are killed or leave something leave nothing; what a kill in the middle leaves, `status` ends."""
    program = killed.begin(number)
    became = msgspec.json.decode(program.stdout.readline(), type=rollouts.Became)
    assert sum(became.ended.values()) == number
    assert {"done", "TimedOut", "Overloaded"} == set(became.ended)
    assert (became.processes, became.folders) == ((), ())
    deadline = time.monotonic() + 30
    while len(killed.hanging) < rollouts.WORKERS:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    program.kill()
    program.communicate()
    processes, folders, notes = killed.left()
    assert len(processes) >= rollouts.WORKERS
    assert len(folders) >= rollouts.WORKERS
    assert sum((folder / "workspace" / "code").exists() for folder in folders) == len(killed.clis)
    assert notes
    assert "cleaned up after a killed night" in run("status", *killed.place).stderr
    killed.check_nothing_left()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.2 * number for number in range(3, 23)])
def test_kill_at_any_moment(killed, seconds):
    """While a copy is made, an agent works or is ended, or a check runs."""
    program = killed.begin(200)
    time.sleep(seconds)
    program.kill()
    program.communicate()
    run("status", *killed.place)
    killed.check_nothing_left()
