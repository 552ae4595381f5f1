"""Adapters of other packages: found by their entry points, held to the same, never in the place of a built-in."""

from __future__ import annotations

import importlib
import json

import msgspec
import pytest

from skillopt_sleep import registry
from skillopt_sleep.errors import UsageError
from skillopt_sleep.mining.task_file import decode_tasks, encode_tasks
from skillopt_sleep.model.rollout import ReplayResult
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.registry import Kind, build, find, names
from tests.fakes.home import make_person
from tests.fakes.package import install
from tests.fakes.program import run

GOOSE = '''
"""Sessions of an agent called goose, and a model that only honks."""

import dataclasses

import msgspec

from skillopt_sleep.errors import EmptyReply
from skillopt_sleep.model.call import Health, Reply
from skillopt_sleep.model.rollout import Score
from skillopt_sleep.model.task import require_reference


@dataclasses.dataclass(frozen=True, kw_only=True)
class GooseSource:
    """One session file for each line of a list."""

    home: str = ""
    name = "goose"

    def files(self, skipped):
        return iter(())

    def read(self, file, skipped):
        return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class GooseBackend:
    """It honks ``times``; at 0 it says nothing."""

    times: int = 1
    name = "goose"
    model = "goose-1"
    sees = "the flock"

    def probe(self):
        return Health(ready=True, version="1.0")

    def complete(self, prompt):
        if not self.times:
            raise EmptyReply("goose said nothing")
        return Reply(text=" ".join(["honk"] * self.times), model=self.model)

    def close(self):
        pass


class Impostor:
    """Calls itself claude."""


class LoudReference(msgspec.Struct, frozen=True, kw_only=True, tag="loud", tag_field="kind"):
    """How many exclamation marks an answer needs."""

    marks: int
    why: str = ""

    def __post_init__(self):
        if self.marks < 1:
            raise ValueError(f"marks is a number from 1, not {self.marks}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoudJudge:
    """Counts exclamation marks."""

    name = "loud"
    reference = LoudReference

    def score(self, task, rollout, ask):
        wanted, found = require_reference(task, LoudReference).marks, rollout.response.count("!")
        return Score(hard=float(found >= wanted), soft=min(1.0, found / wanted), rationale=f"{found} marks")


class SilentJudge:
    """Forgets to say what it scores."""
'''


@pytest.fixture
def goose(tmp_path, monkeypatch):
    """That package, installed."""
    folder = install(
        tmp_path / "site",
        "goose_agent",
        source=GOOSE,
        entry_points={
            "skillopt_sleep.sources": {"goose": "goose_agent:GooseSource"},
            "skillopt_sleep.judges": {"loud": "goose_agent:LoudJudge", "silent": "goose_agent:SilentJudge"},
            "skillopt_sleep.backends": {
                "goose": "goose_agent:GooseBackend",
                "claude": "goose_agent:Impostor",
                "lame": "goose_agent:NoSuchThing",
                "lost": "no_such_package:Backend",
            },
        },
    )
    monkeypatch.syspath_prepend(folder)
    forget()
    yield folder
    forget()


def forget():
    """What the registry remembers of installed packages."""
    importlib.invalidate_caches()
    registry.names.cache_clear()
    registry._installed.cache_clear()
    registry._may_be_installed.cache_clear()


def test_adapter_of_a_package_is_known_by_its_name(goose):
    """It stands among the others, is built with its own options, and keeps its port."""
    assert "goose" in names(Kind.SOURCE)
    assert "goose" in names(Kind.BACKEND)
    backend = build(Kind.BACKEND, "goose", {"times": 3})
    assert backend.probe().ready
    assert backend.complete(None).text == "honk honk honk"
    assert list(build(Kind.SOURCE, "goose", {}, home="/nowhere").files(None)) == []


def test_built_in_wins_over_an_entry_point(goose):
    """No package can put itself in front of an agent that is known."""
    assert find(Kind.BACKEND, "claude").__module__ == "skillopt_sleep.backends.claude"
    assert names(Kind.BACKEND).count("claude") == 1


@pytest.mark.parametrize(("name", "why"), [("lame", "NoSuchThing"), ("lost", "no_such_package")])
def test_package_that_cannot_be_loaded_is_named(goose, name, why):
    """One line with the entry point, for it is the package that is to be mended."""
    with pytest.raises(UsageError, match=rf"backend '{name}'.*cannot be loaded.*{why}"):
        find(Kind.BACKEND, name)


def test_package_serves_a_whole_night(goose, tmp_path):
    """Named on the command line, with its options in the settings; its answers are judged like any other's."""
    mira = make_person(tmp_path / "mira", rules=1, tasks_per_rule=4)
    done = run(
        *mira.arguments("run", "--json"),
        "--target-backend=goose",
        "--share-with=goose",
        "--set=backends.goose.times=2",
        path=[goose],
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert [each["backend"] for each in report["backends"]] == ["goose", "simulated"]
    assert report["backends"][0]["sees"] == "the flock"
    assert report["verdict"] in {"reject", "undecided"}


LOUD = {"kind": "loud", "marks": 2}


def decode_task(reference):
    """The one task of a task file with that reference."""
    data = {"tasks": [{"intent": "Shout hello", "reference": reference}]}
    return decode_tasks(json.dumps(data).encode(), "tasks.json")[0]


def test_judge_of_a_package_scores_a_task_file(goose):
    """Its own reference is read, stored under its kind and scored, without a change anywhere else."""
    task = decode_task(LOUD)
    judge = build(Kind.JUDGE, "loud", {})
    assert task.reference == judge.reference(marks=2)
    assert decode_tasks(encode_tasks([task]), "tasks.json") == (task,)
    for stored in (task, msgspec.json.decode(msgspec.json.encode(task), type=TaskRecord)):
        score = judge.score(stored, ReplayResult(task_id=task.id, candidate="", response="Hello!"), None)
        assert (score.hard, score.soft) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ({"kind": "loud"}, "reference.marks: missing"),
        ({**LOUD, "mark": 1}, "unknown key 'mark'; did you mean 'marks'"),
        ({**LOUD, "marks": 0}, "reference: marks is a number from 1, not 0"),
        ({**LOUD, "marks": "two"}, "reference.marks: Expected `int`"),
        ({"kind": "silent", "x": 1}, "the judge 'silent' declares no reference"),
        ({"kind": "lout", "x": 1}, "reference.kind: 'lout' is not one of .*loud"),
    ],
    ids=["missing", "unknown key", "refused by the judge", "wrong type", "judge without reference", "unknown kind"],
)
def test_reference_of_a_package_is_checked_when_it_is_read(goose, reference, why):
    """The message names the file, the field and what is expected."""
    with pytest.raises(UsageError, match=why):
        decode_task(reference)


def test_stored_reference_outlives_its_package():
    """Without the package the stored task is read and written back byte for byte."""
    task = msgspec.json.encode(TaskRecord(id="t", intent="Shout", reference=LOUD))
    assert msgspec.json.encode(msgspec.json.decode(task, type=TaskRecord)) == task
    with pytest.raises(msgspec.ValidationError, match="names a judge"):
        msgspec.json.decode(b'{"id": "t", "intent": "x", "reference": {"rubric": "x"}}', type=TaskRecord)
