"""A night killed at any moment goes on where it was, and pays for nothing twice."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from skillopt_sleep.reports.diagnostics import build_schema
from tests.fakes.home import SEED, make_person
from tests.fakes.package import install
from tests.fakes.program import run, started

ROOT = Path(__file__).parents[2]
EVERY = 16
"""One step in so many is died at in one test: together the tests of ``--slow`` die at all of them."""
OTHERS = [number for number in range(1, EVERY + 1) if number != EVERY // 2]


class Killing:
    """A person whose nights are witnessed, and may be killed."""

    def __init__(self, folder, *, workers):
        self.person = make_person(folder / "mira", rules=2, tasks_per_rule=5)
        self.workers = workers
        self.folder = folder
        self.log = folder / "sent.log"
        self.log.touch()
        group = {"witness": "tests.fakes.witness:WitnessBackend"}
        self.package = install(folder / "site", "witness", entry_points={"skillopt_sleep.backends": group})

    def arguments(self, **options):
        """A night of hers under the witness; ``options`` are the witness's."""
        night = ("run", "--json", "--miner=heuristic", f"--workers={self.workers}")
        return self.person.arguments(*night, backend="witness", log=self.log, **options)

    def run(self, **options):
        """Run a night, or go on with one, to its end; the report."""
        done = run(*self.arguments(**options), path=[self.package])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run_to_death(self, **options):
        """Run a night that kills itself."""
        done = run(*self.arguments(**options), path=[self.package])
        assert done.returncode == -signal.SIGKILL, done.stderr

    @property
    def sent(self):
        """Every call that was sent, in order."""
        return self.log.read_text().splitlines()

    @property
    def kept(self):
        """Every call whose reply is committed."""
        return [f"{row['digest']} {row['sample']}" for row in self.rows("SELECT digest, sample FROM replies")]

    def rows(self, query):
        """Rows of the user's own database, none as long as there is none."""
        path = self.person.data / "sleep.db"
        if not path.exists():
            return []
        connection = sqlite3.connect(path)
        connection.row_factory = sqlite3.Row
        try:
            made = connection.execute("SELECT 1 FROM sqlite_master").fetchall()
            return connection.execute(query).fetchall() if made else []
        finally:
            connection.close()

    @property
    def left(self):
        """What a finished night leaves to the next one."""
        return {
            "tasks": [tuple(row) for row in self.rows("SELECT id, fresh FROM tasks ORDER BY id")],
            "waiting": [tuple(row) for row in self.rows("SELECT path FROM sessions WHERE waiting != ''")],
            "proposals": [row["status"] for row in self.rows("SELECT status FROM proposals")],
            "states": [row["state"] for row in self.rows("SELECT state FROM nights")],
        }

    def check_diagnostics(self):
        """Whatever lies in the project is whole and valid; the nights it tells of."""
        nights = []
        for path in self.person.project.rglob("diagnostics.json"):
            found = json.loads(path.read_text())
            jsonschema.validate(found, build_schema())
            nights.append(found)
        return nights


def came_to(report):
    """What a night found, apart from its name, its times, and how often it was cut short."""
    keys = ("verdict", "why", "baseline_score", "candidate_score", "applied_edits", "rejected_edits", "tasks")
    counts = {key: count for key, count in report["counts"].items() if key != "files_read"}
    return {key: report[key] for key in keys} | {"counts": counts}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The same night, never killed: what was sent, what it came to, what it left."""
    killing = Killing(tmp_path_factory.mktemp("unbroken"), workers=1)
    report = killing.run()
    assert report["verdict"] == "accept"
    assert sorted(killing.sent) == sorted(killing.kept)
    return killing, report


def check_paid_once(killing, unbroken, report, in_flight):
    """The night is the unbroken one; only what was in flight at a kill was sent again."""
    same, whole = unbroken
    assert set(killing.sent) == set(same.sent)
    assert len(killing.sent) <= len(same.sent) + in_flight
    assert len(killing.kept) == len(same.kept)
    assert sum(phase["calls"] for phase in report["phases"]) == len(same.sent)
    assert came_to(report) == came_to(whole)
    assert killing.left == same.left
    assert [night["night"] for night in killing.check_diagnostics()] == [report["night"]]


def test_seed_pins_the_deal(tmp_path, unbroken):
    """Two nights with the same seed on the same sessions make the same calls, in the same order at one worker."""
    again = Killing(tmp_path, workers=1)
    report = again.run()
    assert again.sent == unbroken[0].sent
    assert report["seed"] == SEED
    assert report["night"] != unbroken[1]["night"]


@pytest.mark.parametrize("call", [1, 2, 11, 23])
def test_kill_between_calls_costs_no_call(tmp_path, unbroken, call):
    """At one worker, a night killed between two calls makes exactly the calls of the unbroken one."""
    killing = Killing(tmp_path, workers=1)
    killing.run_to_death(die_before=call)
    assert len(killing.sent) == len(killing.kept) == call - 1
    (cut,) = killing.check_diagnostics()
    assert cut["state"] == "running"
    report = killing.run()
    assert report["night"] == cut["night"]
    assert killing.sent == unbroken[0].sent
    check_paid_once(killing, unbroken, report, in_flight=0)


@pytest.mark.slow
def test_kill_before_every_call_costs_no_call(tmp_path, unbroken):
    """The same night killed before each of its calls in turn, without end, still makes each call once."""
    killing = Killing(tmp_path, workers=1)
    calls = len(unbroken[0].sent)
    for number in range(calls):
        killing.run_to_death(die_before=number + 1)
        assert len(killing.sent) == number
    report = killing.run()
    assert report["resumed"] == calls
    check_paid_once(killing, unbroken, report, in_flight=0)


def kill_until_it_ends(killing, moments, latency=0.05):
    """Kill a night after each of ``moments``, in seconds, then let it end; the report, and how many were in flight."""
    in_flight = 0
    for moment in (*moments, 60):
        before, paid = len(killing.sent), set(killing.kept)
        with (
            started(*killing.arguments(latency=latency), path=[killing.package]) as process,
            contextlib.suppress(subprocess.TimeoutExpired),
        ):
            process.communicate(timeout=moment)
        assert not paid & set(killing.sent[before:]), "a committed reply was paid for again"
        in_flight += len(killing.sent[before:]) - len(set(killing.kept) - paid)
        nights = killing.check_diagnostics()
        assert len(nights) <= 1
        if killing.left["states"] == ["finished"]:  # it may have ended before the blow
            break
    return nights[0], in_flight


@pytest.mark.parametrize("chance", range(3))
def test_kill_at_any_moment(tmp_path, unbroken, chance):
    """Killed at random moments, again and again, with four calls at once: the same night, nothing paid for twice."""
    dice = random.Random(chance)
    moments = [dice.uniform(0.3, 0.6) for _ in range(3)]
    killing = Killing(tmp_path, workers=4)
    report, in_flight = kill_until_it_ends(killing, moments)
    check_paid_once(killing, unbroken, report, in_flight)


@pytest.mark.slow
@pytest.mark.parametrize("chance", range(100, 140))
def test_kill_at_many_moments(tmp_path, unbroken, chance):
    """The same with many more kills and moments."""
    dice = random.Random(chance)
    moments = [dice.uniform(0.1, 0.8) for _ in range(12)]
    killing = Killing(tmp_path, workers=dice.choice([1, 2, 4, 8]))
    report, in_flight = kill_until_it_ends(killing, moments)
    check_paid_once(killing, unbroken, report, in_flight)


@pytest.mark.parametrize("first", [EVERY // 2, *(pytest.param(n, marks=pytest.mark.slow) for n in OTHERS)])
def test_kill_before_any_step_on_disk(tmp_path, first):
    """Killed right before a statement or a change of the disk, at one worker: the same night, the same end."""
    place = ["-m", "tests.end_to_end.dying", str(tmp_path), str(first), str(EVERY)]
    done = subprocess.run([sys.executable, *place], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    unbroken, *died = map(json.loads, done.stdout.splitlines())
    steps, sent = unbroken.pop("steps"), unbroken.pop("sent")
    assert (unbroken["verdict"], len(sent)) == ("accept", len(set(sent)))
    assert [each.pop("step") for each in died] == list(range(first, steps + 1, EVERY))
    assert len(died) > 20
    for each in died:
        again = each.pop("sent")
        assert sorted(set(again)) == sorted(sent)
        assert len(again) <= len(sent) + 1, "more than the call in flight was sent again"
        assert each == unbroken
