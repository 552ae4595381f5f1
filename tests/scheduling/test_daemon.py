"""The daemon for real: processes, signals, and a night of the simulated agent."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from msgspec.structs import replace

from skillopt_sleep.scheduling import daemon as daemon_module
from skillopt_sleep.scheduling.daemon import attend_forever, attend_once
from skillopt_sleep.scheduling.due import Schedule, ScheduledProject
from skillopt_sleep.scheduling.store import save_schedule
from skillopt_sleep.storage.lock import is_locked
from tests.fakes.cli import make_cli
from tests.fakes.home import make_person
from tests.fakes.program import run, started

SECONDS = 2.5
"""An orderly end: one second for the night and its children, the rest for a busy machine."""


@pytest.fixture
def mira(tmp_path):
    """A person whose night is small."""
    return make_person(tmp_path / "mira", rules=1, tasks_per_rule=6)


def wait_for(condition, seconds=60):
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def schedule(person, *more, flags=None, **options):
    """Schedule her nights for this minute; it was done a while ago, so one is due now."""
    if flags is None:
        flags = [each for each in person.arguments(**options) if not each.startswith(("--data-dir", "--project"))]
    since = datetime.now(tz=UTC) - timedelta(minutes=5)
    found = Schedule(
        at=f"{datetime.now().astimezone():%H:%M}",
        jitter=0,
        projects=tuple(
            ScheduledProject(project=str(each), since=since, arguments=tuple(flags)) for each in (person.project, *more)
        ),
    )
    save_schedule(person.data, found)
    return found


def log(person):
    """What the daemon has said."""
    path = person.data / "daemon.log"
    return path.read_text() if path.exists() else ""


def told(project):
    """What the nights of a project left."""
    return [json.loads(path.read_text()) for path in project.rglob("diagnostics.json")]


def stop(process, signum=signal.SIGTERM):
    """Stop the daemon; how long that took, and what it said."""
    began = time.monotonic()
    process.send_signal(signum)
    _, stderr = process.communicate(timeout=30)
    return time.monotonic() - began, stderr


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_night_is_stopped_in_the_middle_and_gone_on_with(mira, signum, code):
    """The daemon and its children are gone within a second; the next start finishes the same night."""
    schedule(mira, latency=20)
    daemon = ("daemon", f"--data-dir={mira.data}")
    with started(*daemon) as process:
        wait_for(lambda: [night["counts"]["train"] > 0 for night in told(mira.project)] == [True])
        family = psutil.Process(process.pid).children(recursive=True)
        assert family
        seconds, stderr = stop(process, signum)
    assert process.returncode == code, stderr
    assert seconds < SECONDS
    assert not [child for child in family if child.is_running()]
    (cut,) = told(mira.project)
    assert (cut["stopped_by"], cut["exit_code"]) == ("interrupted", 143)
    assert "interrupted" in run("status", *mira.places).stdout
    schedule(mira)  # the same night, of an agent that answers at once; the due is the one that was cut short, or later
    with started(*daemon) as process:
        wait_for(lambda: told(mira.project)[0]["state"] == "finished")
        wait_for(lambda: "ended with 0" in log(mira))
        seconds, _ = stop(process, signum)
    assert (process.returncode, seconds < SECONDS) == (0, True)
    (done,) = told(mira.project)
    assert (done["night"], done["resumed"]) == (cut["night"], 1)


def test_status_tells_of_the_daemon(mira):
    """Since when it runs, what it is at, when the next night is due; and that none is there when it has gone."""
    schedule(mira, latency=20)
    with started("daemon", f"--data-dir={mira.data}") as process:
        wait_for(lambda: is_locked(mira.data))
        found = json.loads(run("status", *mira.places, "--json").stdout)
        page = run("status", *mira.places).stdout
        stop(process)
    assert found["running"] is True
    assert found["schedule"]["daemon"]["pid"] == process.pid
    assert found["schedule"]["daemon"]["doing"] == str(mira.project)
    assert "The daemon has been running since" in page
    assert "NOT RUNNING" not in page
    page = run("status", *mira.places).stdout
    assert "The daemon runs" not in page
    assert "NOT RUNNING: nothing runs the nights" in page


def test_once_holds_what_is_due_and_leaves(mira, tmp_path):
    """All projects, one after the other; called again it leaves at once and has done nothing."""
    other = tmp_path / "other"
    other.mkdir()
    schedule(mira, other)
    once = ("daemon", "--once", f"--data-dir={mira.data}")
    done = run(*once)
    assert done.returncode == 0, done.stderr
    assert [night["verdict"] for night in told(mira.project)] == ["accept"]
    assert [night["stopped_by"] for night in told(other)] == ["no_sessions"]
    said = log(mira)
    assert said.count("ended with 0") == 2
    assert (mira.data / "daemon.log").stat().st_mode & 0o777 == 0o600
    again = run(*once)
    assert (again.returncode, again.stderr) == (0, "")
    assert log(mira) == said
    assert len(told(mira.project)) == 1


def test_once_ends_as_the_night_that_failed(mira):
    """So that whoever calls it can see that something is wrong; and why is in the log."""
    schedule(mira, fatal="not_logged_in")
    done = run("daemon", "--once", f"--data-dir={mira.data}")
    assert done.returncode == 4
    assert "ended with 4" in done.stderr
    assert told(mira.project)[0]["why"] in log(mira)
    assert "because the backend could not be used (exit 4)" in run("status", *mira.places).stdout


def test_second_daemon_leaves(mira):
    """With 6; called by a scheduler, quietly: the first sees to what is due."""
    schedule(mira, latency=20)
    with started("daemon", f"--data-dir={mira.data}") as process:
        wait_for(lambda: is_locked(mira.data))
        second = run("daemon", f"--data-dir={mira.data}")
        once = run("daemon", "--once", f"--data-dir={mira.data}")
        stop(process)
    assert (second.returncode, once.returncode) == (6, 0)
    assert "attended by another process" in second.stderr
    assert len(told(mira.project)) == 1


def test_schedule_is_looked_at_again(mira):
    """A night that is scheduled while the daemon waits is held; SIGHUP does not have to wait for the minute."""
    due = schedule(mira)
    nowhere = replace(due.projects[0], project="/nowhere")
    save_schedule(mira.data, replace(due, projects=(nowhere,)))
    with started("daemon", f"--data-dir={mira.data}") as process:
        wait_for(lambda: "ended with 2" in log(mira))
        save_schedule(mira.data, due)
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: "ended with 0" in log(mira))
        stop(process)
    assert process.returncode == 0


def test_no_agent_outlives_the_daemon(mira, tmp_path):
    """Agent CLIs that ignore the polite signal are gone too, though each leads a session of its own."""
    cli = make_cli(tmp_path / "bin", "claude")
    cli.behave(on="--version", stdout="2.1.197 (Claude Code)")
    cli.behave(on="auth status", stdout='{"loggedIn": true}')
    cli.behave(on="-p", hang=True)
    flags = (f"--claude-home={mira.claude}", "--backend=claude", "--miner=heuristic", "--workers=4")
    found = schedule(mira, flags=flags)
    save_schedule(mira.data, replace(found, environment={"PATH": f"{cli.folder}:{os.environ['PATH']}"}))
    with started("daemon", f"--data-dir={mira.data}") as process:
        wait_for(lambda: any("-p" in call["argv"] for call in cli.calls))  # one, until its price is known
        seconds, _ = stop(process)
    assert seconds < SECONDS
    assert not [call["pid"] for call in cli.calls if psutil.pid_exists(call["pid"])]


def test_daemon_without_a_schedule(tmp_path):
    """One line says what to do first."""
    done = run("daemon", f"--data-dir={tmp_path / 'data'}")
    assert done.returncode == 2
    assert "use `skillopt-sleep schedule`" in done.stderr
    assert not (tmp_path / "data" / "daemon.log").exists()


class Broken:
    """An attendant that fails as it is told, and knows how often it was asked."""

    def __init__(self, *, at_look=None, at_wake=None):
        self.at_look, self.at_wake = at_look, at_wake
        self.stopping, self.code, self.looks = False, 0, 0

    def look(self):
        self.looks += 1
        if self.at_look is not None:
            raise self.at_look
        return False

    def find_wake_time(self, _now):
        if self.at_wake is not None:
            raise self.at_wake


def test_dead_scheduler_ends_the_daemon(monkeypatch):
    """Nobody would ever wake again: it says why and leaves with 1, instead of living on."""
    monkeypatch.setattr(daemon_module, "TICK", timedelta(milliseconds=50))
    said = []
    code = attend_forever(Broken(at_wake=KeyError("at")), lambda: False, said.append)
    assert code == 1
    assert any("KeyError" in line and "leaves with 1" in line for line in said)


def test_look_that_fails_is_said_once_and_tried_again(monkeypatch):
    """An error nobody foresaw neither ends the waking nor is kept from the user."""
    monkeypatch.setattr(daemon_module, "TICK", timedelta(milliseconds=20))
    attendant, said = Broken(at_look=ValueError("odd")), []

    def stop():
        wait_for(lambda: attendant.looks > 3)
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop)
    stopper.start()
    assert attend_forever(attendant, lambda: False, said.append) == 0
    stopper.join()
    assert [line for line in said if "ValueError: odd" in line] == said


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_once_that_fails_says_so():
    """With 1, not with the 0 of a night that ended well."""
    assert attend_once(Broken(at_look=ValueError("odd")), lambda: False) == 1


@pytest.mark.parametrize("damage", ["cut", "folder"])
def test_night_is_held_when_a_damaged_schedule_is_whole_again(mira, damage):
    """The daemon says once that it cannot read it, and lives on; SIGHUP only spares the test the minute."""
    found = schedule(mira)
    save_schedule(mira.data, replace(found, projects=(replace(found.projects[0], project="/nowhere"),)))
    path = mira.data / "schedule.json"
    with started("daemon", f"--data-dir={mira.data}") as process:
        wait_for(lambda: "ended with 2" in log(mira))
        path.unlink()
        path.mkdir() if damage == "folder" else path.write_text('{"at": ')
        for times in (1, 2, 3):
            process.send_signal(signal.SIGHUP)
            wait_for(lambda times=times: log(mira).count("reads the schedule again") == times)
        wait_for(lambda: "no night can run now" in log(mira))
        path.rmdir() if damage == "folder" else path.unlink()
        save_schedule(mira.data, found)
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: "ended with 0" in log(mira))
        stop(process)
    assert log(mira).count("no night can run now") == 1
    assert process.returncode == 0


@pytest.mark.slow
def test_daemon_wakes_for_a_night_that_is_due_in_a_minute(mira):
    """APScheduler's own waking: nothing is due when it starts, and the night begins within seconds of its time."""
    while not 5 < datetime.now(tz=UTC).second < 40:
        time.sleep(1)
    at = (datetime.now().astimezone() + timedelta(minutes=1)).replace(second=0, microsecond=0)
    save_schedule(mira.data, replace(schedule(mira), at=f"{at:%H:%M}"))
    with started("daemon", f"--data-dir={mira.data}") as process:
        wait_for(lambda: told(mira.project), seconds=90)
        began = datetime.fromisoformat(told(mira.project)[0]["started_at"])
        wait_for(lambda: told(mira.project)[0]["state"] == "finished")
        stop(process)
    assert timedelta(0) <= began - at < timedelta(seconds=10)
