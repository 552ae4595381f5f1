"""Streams that are closed or full, names no file can have, few open files: one clear line and the right exit code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.fakes import program

PROGRAM = f"{sys.executable} -m skillopt_sleep"


def run(arguments, streams, *, before="", **env):
    """Run one command in a shell with its streams redirected; both outputs that are left."""
    line = f"{before} {PROGRAM} {arguments} {streams}"
    return subprocess.run(
        line, shell=True, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **env}
    )


def check_line(done, code, words):
    """One line of the program, no traceback."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "streams",
    ["0<&- 2>&-", *(pytest.param(one, marks=pytest.mark.slow) for one in ("0<&-", "2>&-", "1>&- 2>&-", "2>/dev/full"))],
)
def test_closed_or_full_streams_change_nothing(mira, streams):
    """A night ends as it would on a terminal, and its database is not written over by messages."""
    done = run(" ".join(mira.arguments("run")), streams)
    assert (done.returncode, done.stderr) == (0, "")
    assert program.run("status", *mira.places).returncode == 0


def test_usage_error_keeps_its_exit_code_when_nothing_can_be_said():
    """Standard error is full or closed."""
    assert [run("nosuch", streams).returncode for streams in ("2>/dev/full", "2>&-", ">&- 2>&-")] == [2, 2, 2]


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["--help", "status", "settings"])
def test_output_that_cannot_be_written(mira, command):
    """The answer is lost, so the command fails, with the reason."""
    places = "" if command == "--help" else " ".join(mira.places)
    check_line(run(f"{command} {places}", ">/dev/full"), 7, "No space left on device")


@pytest.mark.parametrize("command", ["run", "status", "doctor", "harvest"])
def test_name_that_is_too_long(tmp_path, command):
    """It is named together with the fix."""
    check_line(program.run(command, f"--data-dir={tmp_path}/{'x' * 300}"), 7, "name a shorter path")


@pytest.mark.slow
def test_few_open_files(mira):
    """A night ends without a traceback, whatever it could not open."""
    for most in (8, 11):
        done = run(" ".join(mira.arguments("run")), "", before=f"ulimit -n {most};")
        assert done.returncode in {0, 7}, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero", "folder"])
def test_file_that_never_ends_is_refused(mira, tmp_path, kind):
    """As the settings file and as a task file."""
    path = kind if kind.startswith("/") else tmp_path / kind
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    check_line(program.run("settings", SKILLOPT_SLEEP_SETTINGS=str(path)), 2, str(path))
    check_line(program.run(*mira.arguments("run", f"--tasks={path}")), 2, str(path))


def test_no_settings_file_at_all(tmp_path):
    """``/dev/null`` still stands for no settings; a link to a file is followed."""
    (tmp_path / "real.toml").write_text("workers = 3\n")
    (tmp_path / "link.toml").symlink_to("real.toml")
    assert "workers = 4" in program.run("settings", SKILLOPT_SLEEP_SETTINGS=os.devnull).stdout
    assert "workers = 3" in program.run("settings", SKILLOPT_SLEEP_SETTINGS=str(tmp_path / "link.toml")).stdout
