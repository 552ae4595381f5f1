"""Children of a killed process are recognised and ended, and no other process is."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from skillopt_sleep.backends import child_registry
from skillopt_sleep.backends.child_registry import MARK, ChildRegistry, Note, Reaped, reap
from skillopt_sleep.backends.process import Children
from skillopt_sleep.errors import DiskError
from skillopt_sleep.model.session import OWN_RUN_MARKER
from skillopt_sleep.usecases.adapters import end_leftovers
from tests.fakes.home import make_person

SLEEPER = [sys.executable, "-SE", "-c", "import time; time.sleep(60)"]
NIGHT = """
import os, sys
from pathlib import Path
from skillopt_sleep.backends.process import Children
children = Children(sys.argv[1])
with children.open_folder() as folder:
    Path("folder").write_text(str(folder))
    children.run([sys.executable, "-SE", "-c", sys.argv[2]], env={}, cwd=Path.cwd(), seconds=60)
"""
"""A night in the middle of a call."""
FAMILY = """
import os, signal, subprocess, sys, time
sleeper = [sys.executable, "-SE", "-c", "import time; time.sleep(60)"]
def start_another(*_):
    late = subprocess.Popen(sleeper, start_new_session=True)
    with open("late", "a") as file:
        file.write(f"{late.pid} ")
signal.signal(signal.SIGTERM, start_another)
children = [subprocess.Popen(sleeper), subprocess.Popen(sleeper, start_new_session=True)]
middle = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-SE', '-c', 'import time; time.sleep(60)'],"
middle += "start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); print(p.pid)"
lost = subprocess.run([sys.executable, "-SE", "-c", middle], capture_output=True, text=True).stdout.split()
pids = (os.getpid(), *(child.pid for child in children), *lost)
with open("pids", "w") as file:
    file.write(" ".join(map(str, pids)))
os.rename("pids", "ready")
time.sleep(60)
"""
"""An agent with a child, one in a session of its own, one that lost its parent; it starts another when told to end."""


def until(true, seconds=10.0):
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pids) -> list[int]:
    """Return the processes that are alive."""
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def killed(tmp_path):
    """A night with a whole family of children, killed: its processes, and its folder."""
    night = subprocess.Popen(
        [sys.executable, "-c", NIGHT, str(tmp_path / "children"), FAMILY],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(child_registry.__file__).parents[2]), "TMPDIR": str(tmp_path)},
    )
    try:
        until((tmp_path / "ready").exists)
    except AssertionError:
        night.kill()
        night.wait()
        raise
    pids = [int(pid) for pid in (tmp_path / "ready").read_text().split()]
    folder = Path((tmp_path / "folder").read_text())
    assert reap(tmp_path / "children", OWN_RUN_MARKER) == Reaped()
    assert alive(pids) == pids
    night.kill()
    night.wait()
    yield pids, folder
    for pid in alive(pids):
        psutil.Process(pid).kill()


def test_night_that_was_killed(killed, tmp_path):
    """All children of a killed night are ended, however detached, and its folder and file are removed."""
    pids, folder = killed
    assert len(pids) == 4
    assert alive(pids) == pids
    assert folder.is_dir()
    found = reap(tmp_path / "children", OWN_RUN_MARKER)
    late = [int(pid) for pid in (tmp_path / "late").read_text().split()]
    assert (found.processes, found.folders) == (5, 1)
    assert alive([*pids, *late]) == []
    assert not folder.exists()
    assert list((tmp_path / "children").iterdir()) == []
    assert reap(tmp_path / "children", OWN_RUN_MARKER) == Reaped()


def test_process_that_has_taken_the_number_of_a_child(tmp_path):
    """A process with a reused number and without our mark is left alone, and so is a folder of another mark."""
    stranger = subprocess.Popen(SLEEPER)
    folder = tmp_path / f"{OWN_RUN_MARKER}-other-x"
    folder.mkdir()
    notes = [
        Note(pid=4_000_000, created=1.0, mark="abc", temp=str(tmp_path)),
        Note(pid=stranger.pid, created=psutil.Process(stranger.pid).create_time() - 60),
    ]
    (tmp_path / "abc.jsonl").write_bytes(b"".join(msgspec.json.encode(note) + b"\n" for note in notes) + b'{"pid": 1')
    try:
        assert reap(tmp_path, OWN_RUN_MARKER) == Reaped()
        assert alive([stranger.pid])
        assert folder.exists()
        assert not (tmp_path / "abc.jsonl").exists()
    finally:
        stranger.kill()
        stranger.wait()


def test_login_renewed_in_the_home_of_a_killed_night(tmp_path):
    """A renewed login is restored before the home is removed."""
    login = tmp_path / "auth.json"
    login.write_text("old")
    home = tmp_path / f"{OWN_RUN_MARKER}-abc-x"
    home.mkdir()
    (home / "auth.json").write_text("new")
    notes = [
        Note(pid=4_000_000, created=1.0, mark="abc", temp=str(tmp_path)),
        Note(kind="login", paths=(str(home / "auth.json"), str(login))),
    ]
    (tmp_path / "abc.jsonl").write_bytes(b"".join(msgspec.json.encode(note) + b"\n" for note in notes))
    assert reap(tmp_path, OWN_RUN_MARKER) == Reaped(folders=1)
    assert login.read_text() == "new"
    assert (login.stat().st_mode & 0o777, home.exists()) == (0o600, False)


def test_file_is_there_while_something_runs(tmp_path):
    """The file is private, names no command, and is removed with the last child."""
    children = Children(str(tmp_path / "children"))
    with children.open_folder() as folder:
        (file,) = (tmp_path / "children").iterdir()
        assert file.stem in folder.name
        ended = children.run(
            [sys.executable, "-SE", "-c", f"import os; print(os.environ[{MARK!r}])"], env={}, cwd=folder, seconds=10
        )
        assert ended.stdout.strip() == f"{file.stem}.1"
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        own, child = [msgspec.json.decode(line, type=Note) for line in file.read_bytes().splitlines()]
        assert own.pid == os.getpid()
        assert child.pid != own.pid
        assert child.created > 0
    assert list((tmp_path / "children").iterdir()) == []
    children.close()


DEAD = {"pid": 4_000_000, "created": 1.0, "mark": "abc"}
DAMAGED = {
    "no text": b"\xff\xfe\n",
    "no text inside": b'{"pid": 1, "mark": "\xff\xff"}\n',
    "no note": b"[]\n",
    "other types": b'{"pid": "x"}\n',
    "no mark": b'{"pid": 4000000, "created": 1.0}\n',
    "number below nothing": msgspec.json.encode(DEAD | {"pid": -1}) + b"\n",
    "number beyond all": msgspec.json.encode(DEAD | {"pid": 2**40}) + b"\n",
    "mark that matches all": msgspec.json.encode(DEAD | {"mark": "*"}) + b"\n",
    "folder that none can have": msgspec.json.encode(DEAD | {"temp": "/a\0b"}) + b"\n",
    "login without paths": b"".join(msgspec.json.encode(each) + b"\n" for each in (DEAD, {"kind": "login"})),
    "child below nothing": b"".join(msgspec.json.encode(each) + b"\n" for each in (DEAD, {"pid": -1})),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_file_that_is_damaged(tmp_path, content):
    """A damaged file is renamed and reported once."""
    strangers = tmp_path / f"{OWN_RUN_MARKER}-other-x"
    strangers.mkdir()
    (tmp_path / "abc.jsonl").write_bytes(content)
    assert reap(tmp_path, OWN_RUN_MARKER).damaged == (str(tmp_path / "abc.damaged"),)
    assert (tmp_path / "abc.damaged").read_bytes() == content
    assert strangers.exists()
    assert reap(tmp_path, OWN_RUN_MARKER) == Reaped()


def test_folder_or_link_with_the_name_of_a_file(tmp_path):
    """No traceback: one is set aside, a link to nothing is nobody's."""
    (tmp_path / "one.jsonl").mkdir()
    (tmp_path / "two.jsonl").symlink_to(tmp_path / "missing")
    (tmp_path / "empty.jsonl").touch()
    assert reap(tmp_path, OWN_RUN_MARKER) == Reaped(damaged=(str(tmp_path / "one.damaged"),))
    assert not (tmp_path / "empty.jsonl").exists()
    (tmp_path / "file").touch()
    assert reap(tmp_path / "file", OWN_RUN_MARKER) == Reaped(damaged=(str(tmp_path / "file"),))


def test_login_that_cannot_be_given_back(tmp_path):
    """The home that holds it stays, and the file is named."""
    home = tmp_path / f"{OWN_RUN_MARKER}-abc-x"
    home.mkdir()
    (home / "auth.json").write_text("new")
    notes = [Note(**DEAD, temp=str(tmp_path)), Note(kind="login", paths=(f"{home}/auth.json", f"{tmp_path}/no/where"))]
    (tmp_path / "abc.jsonl").write_bytes(b"".join(msgspec.json.encode(note) + b"\n" for note in notes))
    assert reap(tmp_path, OWN_RUN_MARKER).damaged == (str(tmp_path / "abc.damaged"),)
    assert (home / "auth.json").read_text() == "new"


def test_command_says_what_is_damaged(tmp_path):
    """A command reports a damaged file in one line and does its work."""
    notices = []
    person = make_person(tmp_path / "mira", rules=1, tasks_per_rule=2)
    workspace = dataclasses.replace(person.workspace(), notify=notices.append)
    children = workspace.data_dir / "children"
    children.mkdir(parents=True)
    (children / "abc.jsonl").write_bytes(b"\xff\n")
    end_leftovers(workspace)
    (line,) = notices
    assert str(children / "abc.damaged") in line


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system keeps when a process began")
def test_clock_that_is_set_while_a_night_lives(tmp_path):
    """A change of the system clock ends no living process; a reused number is still recognised."""
    mine = psutil.Process()
    kid = subprocess.Popen(SLEEPER, env={MARK: "abc.1"})
    known = child_registry.read_identity(mine.pid)
    owner = Note(pid=mine.pid, created=mine.create_time() + 3600, identity=known, mark="abc")
    file = tmp_path / "abc.jsonl"
    try:
        file.write_bytes(msgspec.json.encode(owner) + b"\n")
        assert reap(tmp_path, OWN_RUN_MARKER) == Reaped()
        assert alive([kid.pid])
        other = msgspec.structs.replace(owner, created=mine.create_time(), identity="another-boot/1")
        file.write_bytes(msgspec.json.encode(other) + b"\n")
        assert reap(tmp_path, OWN_RUN_MARKER).processes == 1
        assert not alive([kid.pid])
    finally:
        kid.kill()
        kid.wait()


def test_file_is_never_there_without_its_first_line(tmp_path, monkeypatch):
    """A file appears with its first line already in it."""
    looked = []
    write = Path.write_bytes

    def look(path, data):
        looked.append(reap(tmp_path, OWN_RUN_MARKER))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", look)
    there = ChildRegistry(str(tmp_path))
    with there.open():
        assert [path.suffix for path in tmp_path.iterdir()] == [".jsonl"]
    assert looked == [Reaped()]


def test_no_file_where_none_is_wanted(tmp_path):
    """A backend without a folder keeps no file, and works."""
    with ChildRegistry().open():
        ChildRegistry().note_child(os.getpid())
    assert list(tmp_path.iterdir()) == []
    assert reap(tmp_path / "missing", OWN_RUN_MARKER) == Reaped()


def test_folder_that_cannot_be_written(tmp_path):
    """A folder that cannot be written raises DiskError before anything is started."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(DiskError, match="cannot list the running programs in"),
        ChildRegistry(str(tmp_path / "file")).open(),
    ):
        pytest.fail("the body must not run")


def test_folder_that_was_made_elsewhere_is_removed_too(tmp_path):
    """Folders in another temporary place are removed too, if they have the mark."""
    short, folder = tmp_path / "short", tmp_path / "children"
    ours, other = short / f"{OWN_RUN_MARKER}-abc-1", short / f"{OWN_RUN_MARKER}-xyz-1"
    for each in (ours, other, folder):
        each.mkdir(parents=True)
    dead = Note(pid=os.getpid(), identity="an earlier boot/1", mark="abc", temp=str(tmp_path))
    lines = (dead, Note(kind="temp", paths=(str(short),)))
    (folder / "abc.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in lines))
    assert reap(folder, OWN_RUN_MARKER).folders == 1
    assert (ours.exists(), other.exists()) == (False, True)
