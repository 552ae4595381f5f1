"""Ways for a scheduled night to fail, and what its user reads the next morning: each names the cause and what helps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from skillopt_sleep.scheduling.store import load_schedule, save_schedule
from tests.fakes.cli import make_cli
from tests.fakes.home import Person, make_person
from tests.fakes.program import ROOT, run_here

HOOK = ROOT / "plugins" / "claude-code" / "hooks" / "waiting.sh"

KEYED = """#!/bin/sh
case "$1" in
--version) echo "2.1.197 (Claude Code)" ;;
auth) if [ -n "$ANTHROPIC_API_KEY" ]; then echo '{"loggedIn": true}'; else echo '{"loggedIn": false}'; exit 1; fi ;;
*) cat > /dev/null; echo '%s' ;;
esac
"""
"""A Claude Code whose user has a key in the shell and no login."""
ERROR = '{"type":"result","subtype":"success","is_error":true,"api_error_status":%s,"result":"%s"}'
UNREACHABLE = ERROR % ("null", "API Error: Unable to connect to API (ConnectionRefused)")
NO_MODEL = ERROR % ("404", "There is an issue with the selected model (claude-x). It may not exist.")


@dataclass
class Mira:
    """A person whose nights are scheduled, and her machine."""

    person: Person
    home: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def claude(self):
        """Where her Claude Code is installed: in a folder named after a version."""
        return self.home / "versions" / "v20.1.0" / "bin" / "claude"

    @property
    def data(self):
        return self.home / ".local" / "share" / "skillopt-sleep"

    def install_claude(self, text=KEYED):
        self.claude.parent.mkdir(parents=True)
        self.claude.write_text(text)
        self.claude.chmod(0o755)

    def install_simulated_claude(self):
        """A Claude Code that answers as the simulated agent does."""
        cli = make_cli(self.claude.parent, "claude")
        cli.behave(on="--version", stdout="2.1.197 (Claude Code)")
        cli.behave(on="auth status", stdout='{"loggedIn": true}')
        cli.behave(on="-p", world=str(self.person.folder / "world.json"))

    def schedule(self, *flags, **shell):
        """Schedule her project, typed in a shell with these variables, and let its time of day be now."""
        path = f"{self.claude.parent}{os.pathsep}{os.environ['PATH']}"
        home = f"--claude-home={self.person.claude}"
        done = run_here(
            "schedule",
            "--using=daemon",
            "--jitter=0",
            f"--project={self.person.project}",
            home,
            *flags,
            **{"HOME": str(self.home), "PATH": path, **shell},
        )
        assert done.returncode == 0, done.stderr
        self.make_due()

    def make_due(self, ago=timedelta(0)):
        found = load_schedule(self.data)
        since, at = datetime.now(UTC) - timedelta(minutes=5) - ago, f"{datetime.now().astimezone():%H:%M}"
        projects = tuple(replace(entry, since=since) for entry in found.projects)
        save_schedule(self.data, replace(found, at=at, projects=projects))

    def hold_night(self, **more):
        """What her scheduler starts: the environment holds nothing of her shell."""
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", **more}
        return subprocess.run(
            [sys.executable, "-P", "-m", "skillopt_sleep", "daemon", "--once"],
            env={**env, "PYTHONPATH": str(ROOT)},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def look(self, command, *flags):
        """What a command prints in her shell, which has the key."""
        place = f"--claude-home={self.person.claude}"
        path = f"{self.claude.parent}{os.pathsep}{os.environ['PATH']}"
        project = (
            [] if command == "doctor" and not self.person.project.is_dir() else [f"--project={self.person.project}"]
        )
        done = run_here(
            command, *project, place, *flags, HOME=str(self.home), PATH=path, ANTHROPIC_API_KEY="sk-in-shell"
        )
        return f"{done.stdout}\n{done.stderr}"

    def open_session(self, folder=None):
        """What the hook shows her at the start of a session."""
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        where = folder or self.person.project
        done = subprocess.run(["/bin/sh", HOOK], env=env, cwd=where, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["systemMessage"] if done.stdout else ""

    @property
    def why(self):
        """The reason in the diagnostics of the last night."""
        files = sorted(self.person.project.rglob("diagnostics.json"))
        return json.loads(files[-1].read_text())["why"] if files else ""


pytestmark = pytest.mark.slow


@pytest.fixture
def mira(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return Mira(make_person(tmp_path / "mira", rules=1, tasks_per_rule=16), home)


def test_key_only_in_the_shell(mira):
    """Each names the key, and where a scheduled night gets it; its value is nowhere."""
    mira.install_claude()
    mira.schedule(ANTHROPIC_API_KEY="sk-in-shell")
    assert mira.hold_night().returncode == 4
    pages = [mira.look("status"), mira.look("doctor"), mira.open_session(), mira.why]
    for page in pages:
        assert "the nights have no ANTHROPIC_API_KEY, which only your shell has" in page
    assert all("start `skillopt-sleep daemon` with it" in page for page in pages)
    assert "report.md" in pages[0]
    assert not [path for path in mira.data.rglob("*") if path.is_file() and b"sk-in-shell" in path.read_bytes()]
    assert mira.open_session() == ""


def test_program_that_moved_is_found_again(mira):
    """The night runs by the new folder; the log and doctor say so."""
    mira.install_simulated_claude()
    mira.schedule("--max-calls=1000")
    shutil.move(mira.claude.parent.parent, mira.claude.parents[2] / "v22.0.0")
    (mira.claude.parents[2] / "v22.0.0" / "bin" / "behaviour.json").exists()
    script = mira.claude.parents[2] / "v22.0.0" / "bin" / "claude"
    script.write_text(script.read_text().replace("v20.1.0", "v22.0.0"))
    assert mira.hold_night().returncode == 0
    assert f"was found again: {script}" in (mira.data / "daemon.log").read_text()
    assert f"was found again: {script}" in mira.look("doctor")
    assert "FAILED" not in mira.look("status")


def test_program_that_is_gone(mira):
    """Each names the place it had and the command that records the new one."""
    mira.install_claude()
    mira.schedule(PATH=f"{mira.claude.parent}:/usr/bin:/bin")
    shutil.rmtree(mira.home / "versions")
    assert mira.hold_night().returncode == 4
    for page in (mira.look("status"), mira.look("doctor"), mira.open_session(), mira.why):
        assert f"{mira.claude} is gone since the nights were scheduled: install claude again, then run:" in page
        assert "skillopt-sleep schedule" in page


def test_logged_out(mira):
    """Each says how to log in."""
    mira.install_claude(KEYED.replace("ANTHROPIC_API_KEY", "NOTHING"))
    mira.schedule()
    assert mira.hold_night().returncode == 4
    for page in (mira.look("status"), mira.look("doctor"), mira.open_session(), mira.why):
        assert "claude is not logged in" in page
        assert "/login" in page


@pytest.mark.parametrize(
    ("answer", "cause", "remedy"),
    [
        pytest.param(NO_MODEL, "refuses the model", "Fix that", id="model refused"),
        pytest.param(UNREACHABLE, "cannot reach its service", "run again", id="network down"),
    ],
)
def test_service_that_fails(mira, answer, cause, remedy):
    """Status, hook and report quote it; doctor, which makes no call, points to the last night."""
    mira.install_claude(KEYED.replace("ANTHROPIC_API_KEY", "HOME") % answer)
    mira.schedule("--set=retry_wait=0", "--miner=heuristic")
    assert mira.hold_night().returncode == 4
    for page in (mira.look("status"), mira.look("doctor"), mira.open_session(), mira.why):
        assert cause in page
    assert remedy in mira.look("status")
