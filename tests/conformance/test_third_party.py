"""Packages of others: found by their entry points, served by every command, never in the place of a built-in.

``tests/third_party/goose`` is such a package, with an agent, a source, a backend and a judge. It is installed as any
other, and no file of this program knows of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from skillopt_sleep import registry
from skillopt_sleep.agents import all_agents, find_agent
from skillopt_sleep.backends.simulated_world import write_world
from skillopt_sleep.errors import UsageError
from skillopt_sleep.mining.task_file import decode_tasks, encode_tasks
from skillopt_sleep.model.rollout import ReplayResult
from skillopt_sleep.model.session import Feedback
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.registry import Kind, build, find, names
from tests.benchmarks.worlds import make_sessions, make_world
from tests.fakes.package import install

ROOT = Path(__file__).parents[2]
WORLD = make_world(1, rules=1, tasks_per_rule=4)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder into which the package is installed."""
    folder = tmp_path_factory.mktemp("goose")
    copy = shutil.copytree(ROOT / "tests" / "third_party" / "goose", folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, f"--target={folder / 'site'}", str(copy)], check=True, capture_output=True)
    return folder / "site"


@pytest.fixture
def installed(site, monkeypatch):
    """The package, on the path of this process."""
    monkeypatch.syspath_prepend(site)
    registry.forget_installed()
    yield
    registry.forget_installed()


class Goose:
    """A user of Goose: a home with chats, and a project."""

    def __init__(self, folder, site):
        self.folder, self.site = folder, site
        self.project = folder / "project"
        self.project.mkdir()
        self.home = folder / ".goose"
        (self.home / "chats").mkdir(parents=True)
        (folder / "world.json").write_bytes(write_world(WORLD))
        for session in make_sessions(WORLD, 1):
            lines = [
                {"id": turn.id, "you": turn.prompt, "goose": turn.final, "at": turn.at}
                | {"again": turn.feedback is Feedback.CORRECTION}
                for turn in session.turns
            ]
            chat = {"id": session.session_id, "folder": str(self.project), "lines": lines}
            (self.home / "chats" / f"{session.session_id}.json").write_text(json.dumps(chat))

    def run(self, *arguments, site=True, **env):
        """A command of this user's, in an interpreter that has the package, unless without ``site``."""
        env = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin", **env}
        path = os.pathsep.join(map(str, [*([self.site] if site else []), ROOT]))
        return subprocess.run(
            [sys.executable, "-m", "skillopt_sleep", *arguments],
            env=env | {"PYTHONPATH": path, "SKILLOPT_SLEEP_DATA_DIR": str(self.folder / "data")},
            cwd=self.project,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def goose(tmp_path, site):
    """Somebody who works with Goose."""
    return Goose(tmp_path, site)


NIGHT = ("--backend=simulated", "--miner=heuristic", "--max-calls=1000", "--set=seed=2")


@pytest.mark.slow
def test_package_is_known_by_its_name(installed):
    """It is listed among the others, built with its own options, and keeps its port."""
    assert all("goose" in names(kind) for kind in (Kind.AGENT, Kind.SOURCE, Kind.BACKEND))
    assert "loud" in names(Kind.JUDGE)
    assert build(Kind.BACKEND, "goose", {"times": 3}).complete(None).text == "honk honk honk"
    assert find_agent("goose").label == "Goose"
    assert [agent.name for agent in all_agents()] == ["claude", "codex", "goose"]


def test_command_line_offers_what_is_installed(goose):
    """Source, folder and agent have their options, with the agent's own name."""
    page = " ".join(goose.run("run", "--help").stdout.split())
    assert "--goose-home" in page
    assert "sessions of Goose" in page
    assert "claude, codex, goose; auto" in page
    assert "goose" not in goose.run("run", "--help", site=False).stdout


@pytest.mark.slow
def test_sessions_are_found_by_default_and_by_name(goose):
    """Without a word about Goose, in the folder named by a variable, and in the one named by the option."""
    found = json.loads(goose.run("harvest", "--json").stdout)
    assert found["sessions"] == len(make_sessions(WORLD, 1))
    moved = goose.home.rename(goose.folder / "moved")
    refused = goose.run("harvest", "--source=goose")
    assert refused.returncode == 2
    assert "no Goose sessions found; name their folder with --goose-home DIR" in refused.stderr
    for options, env in ([f"--goose-home={moved}"], {}), ([], {"GOOSE_HOME": str(moved)}):
        done = goose.run("harvest", "--json", "--source=goose", "--data-dir=../other", *options, **env)
        assert json.loads(done.stdout)["files"] == found["files"], done.stderr
        shutil.rmtree(goose.folder / "other")


def test_whole_night_over_the_package(goose):
    """Its sessions are read, its model attempts, and the files of its agent are the ones that would change."""
    doctor = json.loads(goose.run("doctor", "--json", *NIGHT).stdout)
    assert [Path(each["path"]).relative_to(goose.project).as_posix() for each in doctor["targets"]] == [
        ".goose/skills/skillopt-sleep-learned/SKILL.md",
        "GOOSE.md",
    ]
    world = f"--set=backends.simulated.world={goose.folder / 'world.json'}"
    done = goose.run("run", "--json", *NIGHT, world, "--target-backend=goose", "--set=backends.goose.times=2")
    assert done.returncode in {0, 5}, done.stderr
    report = json.loads(done.stdout)
    assert [each["backend"] for each in report["backends"]] == ["goose", "simulated"]
    assert report["backends"][0]["sees"] == "the flock"
    assert report["backends"][0]["model"] == "goose-1"
    assert report["counts"]["sessions"]
    assert report["verdict"] in {"reject", "undecided"}


@pytest.mark.slow
def test_rules_of_a_night_land_in_the_files_of_its_agent(goose):
    """A proposal made with another backend is one for the agent whose sessions it was learnt from."""
    world = f"--set=backends.simulated.world={goose.folder / 'world.json'}"
    done = goose.run("run", "--json", *NIGHT, world, "--gate-mode=off")
    assert json.loads(done.stdout)["proposal"], done.stderr
    assert goose.run("adopt").returncode == 0
    assert (goose.project / "GOOSE.md").exists() or (goose.project / ".goose" / "skills").exists()
    assert not (goose.project / "CLAUDE.md").exists()


@pytest.mark.slow
def test_receiver_is_named_by_the_agents_own_name(goose):
    """Its provider has its sessions; another one has to be agreed to, in words that fit."""
    done = goose.run("run", *NIGHT[1:], "--backend=codex")
    assert "your Goose sessions went to flock" in done.stderr
    assert "to OpenAI" in done.stderr


LOUD = {"kind": "loud", "honks": 2}


def decode_task(reference):
    """The one task of a task file with that reference."""
    data = {"tasks": [{"intent": "Shout hello", "reference": reference}]}
    return decode_tasks(json.dumps(data).encode(), "tasks.json")[0]


SHOUTS = (
    "Warn the ducks of the fox", "Say hello to Brussels", "Read the parish newsletter aloud", "Name a prime number",
    "Order tea with lemon", "Translate 'cellar door' into Welsh", "Explain how tides work", "Sort these nine invoices",
    "Sing the refrain again", "Which train goes to Ghent?", "Rhyme on orange", "Count backwards from forty",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("honks", "reflects"), [(2, False), (3, True)], ids=["loud enough", "too quiet"])
def test_judge_of_the_package_scores_the_tasks_of_a_file(goose, honks, reflects):
    """A night over a task file with references of the judge's own type; only failures are reflected on."""
    tasks = [{"intent": intent, "reference": {"kind": "loud", "honks": honks}, "reviewed": True} for intent in SHOUTS]
    (goose.folder / "tasks.json").write_text(json.dumps({"tasks": tasks}))
    chosen = ("--target-backend=goose", "--set=backends.goose.times=2", "--gate-metric=hard")
    done = goose.run("run", "--json", *NIGHT, *chosen, f"--tasks={goose.folder / 'tasks.json'}")
    report = json.loads(done.stdout)
    assert report["counts"]["tasks"] == len(tasks), done.stderr
    phases = {phase["phase"] for phase in report["phases"]}
    assert "train" in phases
    assert ("reflect skill" in phases) == reflects


def test_reference_of_the_package_is_read_stored_and_scored(installed):
    """As any other, without a change anywhere else."""
    task = decode_task(LOUD)
    judge = build(Kind.JUDGE, "loud", {})
    assert task.reference == judge.reference(honks=2)
    assert decode_tasks(encode_tasks([task]), "tasks.json") == (task,)
    for stored in (task, msgspec.json.decode(msgspec.json.encode(task), type=TaskRecord)):
        score = judge.score(stored, ReplayResult(task_id=task.id, candidate="", response="honk"), None)
        assert (score.hard, score.soft) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ({"kind": "loud"}, "reference has no honks"),
        ({**LOUD, "honk": 1}, "unknown key 'honk'; did you mean 'honks'"),
        ({**LOUD, "honks": 0}, "reference cannot be used: honks is a number from 1, not 0"),
        ({**LOUD, "honks": "two"}, "reference.honks cannot be used: Expected `int`"),
        ({"kind": "lout", "x": 1}, "reference.kind is 'lout'; expected one of .*loud"),
    ],
    ids=["missing", "unknown key", "refused by the judge", "wrong type", "unknown kind"],
)
def test_reference_of_the_package_is_checked_when_it_is_read(installed, reference, why):
    """The message names the file, the field and what is expected."""
    with pytest.raises(UsageError, match=why):
        decode_task(reference)


def test_stored_reference_outlives_its_package():
    """Without the package the stored task is read and written back byte for byte."""
    task = msgspec.json.encode(TaskRecord(id="t", intent="Shout", reference=LOUD))
    assert msgspec.json.encode(msgspec.json.decode(task, type=TaskRecord)) == task
    with pytest.raises(msgspec.ValidationError, match="names a judge"):
        msgspec.json.decode(b'{"id": "t", "intent": "x", "reference": {"rubric": "x"}}', type=TaskRecord)


def test_judge_that_declares_no_reference_is_named(tmp_path, monkeypatch):
    """When a task file uses it."""
    source = "from dataclasses import dataclass\n\n@dataclass\nclass Silent:\n    name = 'silent'\n"
    points = {"skillopt_sleep.judges": {"silent": "silent_judge:Silent"}}
    monkeypatch.syspath_prepend(install(tmp_path / "site", "silent_judge", source=source, entry_points=points))
    registry.forget_installed()
    try:
        with pytest.raises(UsageError, match="the judge 'silent' declares no reference"):
            decode_task({"kind": "silent", "x": 1})
    finally:
        registry.forget_installed()


def test_built_in_wins_over_an_entry_point(tmp_path, monkeypatch):
    """No package can put itself in front of an agent that is known; a broken one is named."""
    points = {"claude": "goose_agent:Impostor", "lame": "json:NoSuchThing", "lost": "no_such_package:Backend"}
    folder = install(tmp_path / "site", "impostor", entry_points={"skillopt_sleep.backends": points})
    monkeypatch.syspath_prepend(folder)
    registry.forget_installed()
    try:
        assert find(Kind.BACKEND, "claude").__module__ == "skillopt_sleep.backends.claude"
        assert names(Kind.BACKEND).count("claude") == 1
        for name, why in ("lame", "NoSuchThing"), ("lost", "no_such_package"):
            with pytest.raises(UsageError, match=rf"backend '{name}'.*cannot be loaded.*{why}"):
                find(Kind.BACKEND, name)
    finally:
        registry.forget_installed()


def test_metadata_is_not_read_while_no_package_has_a_plugin():
    """What every start would pay for is left to those who installed one."""
    script = (
        "import sys; from skillopt_sleep.registry import Kind, names\n"
        "assert all(names(kind) for kind in Kind)\n"
        "assert 'importlib.metadata' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_page_for_authors_shows_the_package_that_is_tested():
    """The entry points in docs/extending.md are those of the package that these tests install and run."""
    page = (ROOT / "docs" / "extending.md").read_text()
    shown = page.split("```toml\n")[1].split("```")[0]
    assert shown in (ROOT / "tests" / "third_party" / "goose" / "pyproject.toml").read_text()
    assert all(f"`skillopt_sleep.{kind}`" in page for kind in Kind)
