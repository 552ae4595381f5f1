"""An installed package that is broken stops only what needs it, and is named in one line."""

from __future__ import annotations

import json
import sys

import pytest

from skillopt_sleep import registry
from skillopt_sleep.agents import all_agents, find_agent, list_unusable_agents
from skillopt_sleep.errors import PluginError
from skillopt_sleep.registry import Kind, build, find, find_fault
from tests.fakes import program
from tests.fakes.package import install

KINDS = ("agents", "sources", "backends", "judges")
SOURCES = {
    "raises": "raise ValueError('no licence')\n",
    "exits": "raise SystemExit(3)\n",
    "number": "PLUGIN = 3\n",
    "plain class": "class PLUGIN:\n    name = 'bad'\n",
}
WHY = {
    "raises": "cannot be used: it cannot be loaded: ValueError: no licence",
    "exits": "cannot be used: it cannot be loaded: SystemExit: 3",
    "number": "cannot be used: its entry point must name a .*, but names 3",
    "plain class": "cannot be used: its entry point must name a .*, but names <class",
}


@pytest.fixture(params=SOURCES)
def broken(request, tmp_path):
    """A kind of fault, and the folder of a package that has it in every entry-point group."""
    points = {f"skillopt_sleep.{kind}": {"bad": "bad_module:PLUGIN"} for kind in KINDS}
    return request.param, install(tmp_path / "site", "bad_module", source=SOURCES[request.param], entry_points=points)


@pytest.fixture
def installed(broken, monkeypatch):
    """The fault of the package, which is on the path of this process."""
    monkeypatch.syspath_prepend(broken[1])
    registry.forget_installed()
    yield WHY[broken[0]]
    registry.forget_installed()
    sys.modules.pop("bad_module", None)


def test_fault_names_package_and_entry_point(installed):
    """Where the plugin is needed, by one error that the user can act on."""
    line = rf"'bad' of the package bad_module \(bad_module:PLUGIN\) {installed}.*; update or uninstall bad_module$"
    for kind in (Kind.SOURCE, Kind.BACKEND, Kind.JUDGE):
        with pytest.raises(PluginError, match=f"^the {kind[:-1]} {line}"):
            find(kind, "bad")
        assert find_fault(kind, "bad")
    with pytest.raises(PluginError, match=f"^the agent {line}"):
        find_agent("bad")


def test_other_agents_stay_usable(installed):
    """The broken one is left out and listed."""
    assert [agent.name for agent in all_agents()] == ["claude", "codex"]
    assert len(list_unusable_agents()) == 1


def test_option_of_a_type_nobody_can_set_is_named(tmp_path, monkeypatch):
    """A dataclass that cannot be built from a table."""
    source = (
        "from dataclasses import dataclass\n"
        "@dataclass\nclass PLUGIN:\n    hook: int | str | dict | list | tuple | set = 0\n    name = 'odd'\n"
    )
    points = {"skillopt_sleep.backends": {"odd": "odd_module:PLUGIN"}}
    monkeypatch.syspath_prepend(install(tmp_path / "site", "odd_module", source=source, entry_points=points))
    registry.forget_installed()
    try:
        with pytest.raises(PluginError, match="the backend 'odd' of the package odd_module"):
            build(Kind.BACKEND, "odd", {})
    finally:
        registry.forget_installed()


def run(tmp_path, site, *arguments):
    """A command of a user who has the package."""
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    environment = {"HOME": str(tmp_path), "SKILLOPT_SLEEP_DATA_DIR": str(tmp_path / "data")}
    return program.run(*arguments, path=[site], cwd=project, **environment)


def test_commands_that_do_not_need_the_package_work(tmp_path, broken):
    """With a notice of one line for each plugin that is left out, and no traceback."""
    assert run(tmp_path, broken[1], "run", "--help").returncode == 0
    for command in ["status"], ["uninstall"], ["insights"], ["doctor", "--backend=simulated"]:
        done = run(tmp_path, broken[1], *command)
        assert done.returncode == 0, (command, done.stderr)
        assert "Traceback" not in done.stderr
        assert "left out: the agent 'bad' of the package bad_module" in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(set(lines))
    assert sum("the judge 'bad'" in line for line in lines) == 1


def test_night_without_tasks_for_the_judge_runs(tmp_path, broken):
    """A task that names the judge is refused with the fault; other tasks do not notice it."""
    tasks = tmp_path / "tasks.json"
    command = ("run", "--backend=simulated", "--source=claude", "--miner=heuristic", f"--tasks={tasks}", "--dry-run")
    for kind, code in ("exact", 0), ("bad", 2):
        task = {"intent": "Name a prime", "reference": {"kind": kind, "answer": "7"}, "reviewed": True}
        tasks.write_text(json.dumps({"tasks": [task]}))
        done = run(tmp_path, broken[1], *command)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
    assert "bad_module" in done.stderr.splitlines()[-1]


def test_chosen_plugin_that_is_broken_is_one_line(tmp_path, broken):
    """Exit code 2."""
    for option in "--agent=bad", "--source=bad", "--backend=bad":
        done = run(tmp_path, broken[1], "run", "--dry-run", option)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert "update or uninstall bad_module" in done.stderr
