"""Several commands at once: each ends as it would alone, or says that another is at work; nothing is lost."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from skillopt_sleep.usecases.plan import plan_night
from skillopt_sleep.usecases.run import run_night
from skillopt_sleep.usecases.status import read_status
from tests.fakes.clock import FakeClock
from tests.fakes.home import make_person
from tests.fakes.program import run, started

CODES = {0, 6}


@pytest.fixture
def mira(tmp_path):
    """A person whose nights take a little while."""
    return make_person(tmp_path / "mira", rules=1, tasks_per_rule=16)


def ended(processes):
    """Exit code, stdout and stderr of each, once all are done."""
    found = []
    for process in processes:
        out, err = process.communicate(timeout=60)
        found.append((process.returncode, out, err))
        assert "Traceback" not in err, err
    return found


def test_nights_at_once(mira):
    """One runs, the others leave with exit code 6; one night is in the record."""
    command = mira.arguments("run", "--json", latency=0.05)
    with started(*command) as one, started(*command) as two, started(*command) as three:
        results = ended([one, two, three])
    assert sorted(code for code, *_ in results) in ([0, 6, 6], [0, 0, 6], [0, 0, 0])
    assert {code for code, *_ in results} <= CODES
    nights = {json.loads(out)["night"] for code, out, _ in results if code == 0}
    with sqlite3.connect(mira.data / "sleep.db") as database:
        known = {row[0] for row in database.execute("SELECT id FROM nights")}
    database.close()
    assert nights == known


def test_looking_on_while_a_night_runs(mira):
    """Every command that only looks works, and the night comes to the same end."""
    looking = [("status",), ("insights",), ("revert", "--list"), ("watch",), ("harvest",)]
    with started(*mira.arguments("run", "--json", latency=0.05)) as night:
        others = [run(*words, *mira.places) for words in looking]
        ((code, out, _),) = ended([night])
    assert (code, json.loads(out)["verdict"]) == (0, "accept")
    assert [done.returncode for done in others] == [0] * len(looking), [done.stderr for done in others]


def test_adopting_twice_at_once(mira):
    """It is adopted once; the others are told so, and one revert undoes it."""
    assert run(*mira.arguments("run")).returncode == 0
    before = {path: path.read_bytes() for path in mira.project.rglob("*.md") if ".skillopt-sleep" not in path.parts}
    with started("adopt", *mira.places) as one, started("adopt", *mira.places) as two:
        results = ended([one, two])
    assert sorted(code for code, *_ in results) == [0, 8]
    assert run("revert", *mira.places).returncode == 0
    after = {path: path.read_bytes() for path in mira.project.rglob("*.md") if ".skillopt-sleep" not in path.parts}
    assert after == before


class Jumping(FakeClock):
    """A wall clock that is set forth and back while a night goes on, as by a laptop that finds the network."""

    jumps = (0, 86_400, -86_400 * 30, 3_600, -7_200, 0)

    def now(self) -> datetime:
        self.asked = getattr(self, "asked", 0) + 1
        return super().now() + timedelta(seconds=self.jumps[self.asked % len(self.jumps)])


def test_clock_that_jumps(mira):
    """The night ends; what it cost is no less than nothing, and answers that seem hours apart make no pair."""
    workspace = dataclasses.replace(mira.workspace(), clock=Jumping())
    report = run_night(workspace, plan_night(workspace))
    assert report.verdict in {"accept", "unmeasured", "undecided"}
    assert all(phase.seconds >= 0 for phase in report.phases)
    again = dataclasses.replace(mira.workspace(), clock=Jumping())
    assert read_status(again).nights[0].night == report.night


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu", "Europe/Berlin"])
def test_time_zones(mira, zone):
    """A night is the same wherever the machine stands, and its times are UTC."""
    done = run(*mira.arguments("run", "--json"), TZ=zone)
    report = json.loads(done.stdout)
    assert report["verdict"] == "accept"
    assert report["started_at"].endswith("+00:00")
    started_at = datetime.fromisoformat(report["started_at"])
    assert abs(datetime.now(tz=UTC) - started_at) < timedelta(minutes=5)
    assert report["night"].startswith(f"{started_at:%Y%m%d-%H%M}")
