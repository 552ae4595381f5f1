"""The environment of a scheduled night, and programs that have moved since it was recorded."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from skillopt_sleep.errors import NotInstalled, NotLoggedIn, Overloaded
from skillopt_sleep.scheduling.due import SCHEDULED, Schedule, Waker
from skillopt_sleep.scheduling.installing import build_environment, find_moved, record_programs
from skillopt_sleep.scheduling.store import save_schedule
from skillopt_sleep.settings import Settings
from skillopt_sleep.usecases.announce import explain_failure


def install(path):
    """Put an executable there."""
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("version", ["v20.1.0", "22.3.1", "18", "v21.0.0-nightly"])
def test_program_in_a_folder_named_after_a_version(tmp_path, version):
    """It is found in the newest of the other versions, whose folder comes first in the PATH of the night."""
    old = install(tmp_path / "node" / version / "bin" / "claude")
    programs = record_programs(["claude", "codex"], str(old.parent))
    assert programs == {"claude": str(old)}
    schedule = Schedule(environment={"PATH": f"{old.parent}:/usr/bin"}, programs=programs)
    assert build_environment(schedule, {})[1] == ()
    old.unlink()
    assert build_environment(schedule, {"HOME": str(tmp_path)})[1] == ()  # nowhere: the night says so
    for number, name in enumerate(("v23.0.0", "v24.0.0", "not-a-version")):
        os.utime(install(tmp_path / "node" / name / "bin" / "claude"), (number, number))
    env, (note,) = build_environment(schedule, {"HOME": str(tmp_path), "KEY": "given"})
    assert env["PATH"] == f"{tmp_path}/node/not-a-version/bin:{old.parent}:/usr/bin"
    assert env["KEY"] == "given"
    assert str(old) in note


def test_program_that_an_installer_put_elsewhere(tmp_path):
    """It is found where installers put programs; a folder without a version in its name is not searched."""
    recorded = str(tmp_path / "mine" / "bin" / "claude")
    install(tmp_path / "theirs" / "bin" / "claude")
    assert find_moved("claude", recorded, {"HOME": str(tmp_path)}) == ""
    found = install(tmp_path / ".local" / "bin" / "claude")
    assert find_moved("claude", recorded, {"HOME": str(tmp_path)}) == str(found)


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can give a file away")
def test_program_of_somebody_else_is_not_run(tmp_path):
    """A night runs programs of this user and of root only."""
    found = install(tmp_path / ".local" / "bin" / "claude")
    os.chown(found, 1234, 1234)
    assert find_moved("claude", "/gone/claude", {"HOME": str(tmp_path)}) == ""


GONE = "/nowhere/v20/bin/claude"
LACKING = "the nights have no ANTHROPIC_API_KEY, which only your shell has: "


@pytest.mark.parametrize(
    ("error", "env", "expected"),
    [
        pytest.param(NotLoggedIn("no"), {SCHEDULED: "1"}, f"{LACKING}write a line NAME=value", id="key in the shell"),
        pytest.param(NotLoggedIn("no"), {SCHEDULED: "1", "ANTHROPIC_API_KEY": "x"}, "no", id="key given"),
        pytest.param(NotLoggedIn("no"), {}, "no", id="not scheduled"),
        pytest.param(NotInstalled("no"), {SCHEDULED: "1"}, f"{GONE} is gone since", id="program gone"),
        pytest.param(
            Overloaded("no"), {SCHEDULED: "1", "ANTHROPIC_API_KEY": "x"}, "the nights have no HTTPS_PROXY", id="proxy"
        ),
        pytest.param(ValueError("odd"), {SCHEDULED: "1"}, "odd", id="anything else"),
    ],
)
def test_failure_of_a_scheduled_night_is_explained(tmp_path, error, env, expected):
    """By what its environment lacks; a key of another agent is not the reason."""
    lacks = ("ANTHROPIC_API_KEY", "CODEX_API_KEY", "HTTPS_PROXY")
    save_schedule(tmp_path, Schedule(using=Waker.CRON, lacks=lacks, programs={"claude": GONE}))
    workspace = SimpleNamespace(env=env, data_dir=tmp_path, settings=Settings())
    assert explain_failure(workspace, error).startswith(expected)


def test_failure_is_explained_when_the_schedule_cannot_be_read(tmp_path):
    """In the error's own words."""
    (tmp_path / "schedule.json").write_text("{")
    workspace = SimpleNamespace(env={SCHEDULED: "1"}, data_dir=tmp_path, settings=Settings())
    assert explain_failure(workspace, NotLoggedIn("no")) == "no"
