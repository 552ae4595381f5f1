"""Adapters of other packages: found by their entry points, held to the same, never in the place of a built-in."""

from __future__ import annotations

import importlib
import json

import pytest

from skillopt_sleep import registry
from skillopt_sleep.errors import UsageError
from skillopt_sleep.registry import Kind, build, find, names
from tests.fakes.home import make_person
from tests.fakes.package import install
from tests.fakes.program import run

GOOSE = '''
"""Sessions of an agent called goose, and a model that only honks."""

import dataclasses

from skillopt_sleep.model.call import Health, Reply
from skillopt_sleep.errors import EmptyReply


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
    registry._entry_points.cache_clear()


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
