"""Locks: one night and one daemon at a time, and tests of a lock that keep nobody out."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from skillopt_sleep.errors import DiskError, NightRunning
from skillopt_sleep.storage.atomic_replace import lock_changes
from skillopt_sleep.storage.files import is_held, lock_daemon, lock_night
from tests.fakes.program import ROOT

OWNER = """
import sys, time
from pathlib import Path
from skillopt_sleep.storage.files import lock_night
with lock_night(Path(sys.argv[1])):
    print("has it", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def owner(tmp_path):
    """A process that holds the lock."""
    with subprocess.Popen([sys.executable, "-c", OWNER, tmp_path], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"has it\n"
        yield process
        process.kill()


def test_second_owner_is_refused(tmp_path):
    """A second owner is refused at once, by the name of the file, and let in when the first has ended."""
    with lock_night(tmp_path), pytest.raises(NightRunning, match=r"night\.lock"), lock_night(tmp_path):
        raise AssertionError
    with lock_night(tmp_path) as waited:
        assert not waited


def test_second_owner_waits(tmp_path):
    """A second owner waits as long as it may, and learns that it had to."""
    through = threading.Event()

    def first():
        with lock_night(tmp_path):
            through.wait(0.5)

    thread = threading.Thread(target=first)
    thread.start()
    while not is_held(tmp_path):
        time.sleep(0.01)
    with lock_night(tmp_path, wait=20) as waited:
        assert waited
        assert not through.is_set()
    thread.join()
    with lock_night(tmp_path), pytest.raises(NightRunning), lock_night(tmp_path, wait=0.3):
        raise AssertionError


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_lock_dies_with_its_owner(tmp_path, owner, signum):
    """After a kill the lock is free without any clean-up."""
    assert is_held(tmp_path)
    owner.send_signal(signum)
    owner.wait()
    assert not is_held(tmp_path)
    with lock_night(tmp_path):
        assert is_held(tmp_path)


def test_asking_keeps_nobody_out(tmp_path):
    """Four threads that test the lock all the time make none of thirty starts fail."""
    with lock_night(tmp_path):
        pass
    stop = threading.Event()
    answers = set()

    def ask():
        while not stop.is_set():
            answers.add(is_held(tmp_path))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            with lock_night(tmp_path):
                assert is_held(tmp_path)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert answers


def test_asking_writes_nothing(tmp_path):
    """Testing a lock writes nothing, before the first night and after it."""
    assert not is_held(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []
    with lock_night(tmp_path):
        pass
    before = {path: path.stat().st_mtime_ns for path in [tmp_path, *tmp_path.iterdir()]}
    assert not is_held(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in [tmp_path, *tmp_path.iterdir()]} == before
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_lock_of_live_files_is_private(tmp_path):
    """Only the owner can read the lock file, whatever the umask."""
    with lock_changes(tmp_path):
        assert (tmp_path / "adopt.lock").stat().st_mode & 0o777 == 0o600


def test_locks_of_other_things_are_no_night(tmp_path):
    """A daemon is not a night, and two data folders have two locks."""
    with lock_daemon(tmp_path), lock_night(tmp_path / "other"):
        assert not is_held(tmp_path)
        with (
            lock_night(tmp_path),
            pytest.raises(NightRunning, match="another process runs the schedule"),
            lock_daemon(tmp_path),
        ):
            raise AssertionError


def test_lock_that_cannot_be_made(tmp_path):
    """The error names the file and the option that helps."""
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match="--data-dir"), lock_night(tmp_path / "file" / "data"):
        raise AssertionError
