"""One night at a time, whoever asks about it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from skillopt_sleep.errors import DiskError, NightRunning
from skillopt_sleep.storage.atomic_replace import lock_changes
from skillopt_sleep.storage.lock import is_locked, lock_daemon, lock_night
from tests.fakes.program import ROOT

OWNER = """
import sys, time
from pathlib import Path
from skillopt_sleep.storage.lock import lock_night
with lock_night(Path(sys.argv[1])):
    print("has it", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def owner(tmp_path):
    """A process that has the lock."""
    with subprocess.Popen([sys.executable, "-c", OWNER, tmp_path], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"has it\n"
        yield process
        process.kill()


def test_second_owner_is_refused(tmp_path):
    """At once, naming the file; and let in when the first is through."""
    with lock_night(tmp_path), pytest.raises(NightRunning, match=r"night\.lock"), lock_night(tmp_path):
        raise AssertionError
    with lock_night(tmp_path) as waited:
        assert not waited


def test_second_owner_waits(tmp_path):
    """As long as it was told to, and knows then that it has."""
    through = threading.Event()

    def first():
        with lock_night(tmp_path):
            through.wait(0.5)

    thread = threading.Thread(target=first)
    thread.start()
    while not is_locked(tmp_path):
        time.sleep(0.01)
    with lock_night(tmp_path, wait=20) as waited:
        assert waited
        assert not through.is_set()
    thread.join()
    with lock_night(tmp_path), pytest.raises(NightRunning), lock_night(tmp_path, wait=0.3):
        raise AssertionError


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_lock_dies_with_its_owner(tmp_path, owner, signum):
    """Nothing has to be cleaned up, and nobody believes in a night any more."""
    assert is_locked(tmp_path)
    owner.send_signal(signum)
    owner.wait()
    assert not is_locked(tmp_path)
    with lock_night(tmp_path):
        assert is_locked(tmp_path)


def test_asking_keeps_nobody_out(tmp_path):
    """Four who ask without a pause do not make one of thirty starts fail."""
    with lock_night(tmp_path):
        pass
    stop = threading.Event()
    answers = set()

    def ask():
        while not stop.is_set():
            answers.add(is_locked(tmp_path))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            with lock_night(tmp_path):
                assert is_locked(tmp_path)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert answers


def test_asking_writes_nothing(tmp_path):
    """Before the first night and after it, also where nothing can be written."""
    assert not is_locked(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []
    with lock_night(tmp_path):
        pass
    before = {path: path.stat().st_mtime_ns for path in [tmp_path, *tmp_path.iterdir()]}
    assert not is_locked(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in [tmp_path, *tmp_path.iterdir()]} == before
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_lock_of_live_files_is_private(tmp_path):
    """As every file of ours is, whatever the umask."""
    with lock_changes(tmp_path):
        assert (tmp_path / "adopt.lock").stat().st_mode & 0o777 == 0o600


def test_locks_of_other_things_are_no_night(tmp_path):
    """A daemon that waits is not a night, nor are two data folders one."""
    with lock_daemon(tmp_path), lock_night(tmp_path / "other"):
        assert not is_locked(tmp_path)
        with lock_night(tmp_path), pytest.raises(NightRunning, match="attended"), lock_daemon(tmp_path):
            raise AssertionError


def test_lock_that_cannot_be_made(tmp_path):
    """Named, with the way out."""
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match="--data-dir"), lock_night(tmp_path / "file" / "data"):
        raise AssertionError
