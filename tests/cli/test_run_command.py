"""``run``, ``status`` and ``show``: one night, and what is told of it."""

from __future__ import annotations

import json
import threading
import time

import pytest

from skillopt_sleep.storage.files import is_held, lock_night
from tests.fakes.diagnostics import check_schema
from tests.fakes.home import make_person
from tests.fakes.program import run


def valid(done):
    """The diagnosis it printed, after its schema was held against it."""
    check_schema(done.json)
    return done.json


def test_night_prints_its_report_and_where_the_rest_lies(cli, nora):
    """A verdict, exit 0, the path of diagnostics.json, and nothing on stderr."""
    done = cli(*nora.arguments("run"))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("In this demo: 1 rule is proven")
    (path,) = nora.project.rglob("diagnostics.json")
    assert f"diagnostics: {path}" in done.out
    assert sorted(each.name for each in path.parent.iterdir()) == [
        "diagnostics.json",
        "evidence.jsonl",
        "proposal",
        "report.html",
        "report.md",
    ]


def test_json_is_the_diagnosis(cli, mira):
    """What is printed is what lies on disk, and it keeps to the published schema."""
    done = cli(*mira.arguments("run", "--json"))
    (path,) = mira.project.rglob("diagnostics.json")
    assert done.json == json.loads(path.read_text())
    valid(done)


def test_files_of_a_night_are_the_users_alone(cli, mira):
    """0600 and 0700, in the project and in the data folder, and out of sight of git."""
    cli(*mira.arguments("run"))
    own = mira.project / ".skillopt-sleep"
    assert (own / ".gitignore").read_text() == "*\n"
    for path in [own, *own.rglob("*"), mira.data, mira.data / "sleep.db"]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("as_json", [False, True], ids=["words", "json"])
def test_dry_run_writes_nothing(cli, mira, tree, as_json):
    """Tonight's tasks and their price, no call, no trace: also with a backend that would cost."""
    run("harvest", *mira.places)
    before = tree()
    done = cli("run", *mira.places, "--backend=claude", "--dry-run", *(["--json"] if as_json else []))
    assert (done.code, done.err) == (0, "")
    if as_json:
        assert done.json["sessions"] == 5
        assert len(done.json["pools"]["train"]) + len(done.json["pools"]["val"]) == 10
        assert {each["phase"] for each in done.json["expected"]} >= {"mine", "train", "val"}
    else:
        assert "10 tasks" in done.out or "7" in done.out
    assert tree() == before


def test_dry_run_leaves_the_inbox_to_the_night(cli, mira):
    """After a rehearsal the night finds everything as it was, also where a database is there already."""
    cli("harvest", *mira.places)
    first = cli("run", *mira.places, "--backend=claude", "--dry-run", "--json").json
    assert cli("run", *mira.places, "--backend=claude", "--dry-run", "--json").json == first
    assert valid(cli(*mira.arguments("run", "--json")))["counts"]["sessions"] == 5


def test_dry_run_plans_the_deal_of_the_night(cli, mira):
    """With a pinned seed, the tasks it names are those that the night replays."""
    planned = cli(*mira.arguments("run", "--json"), "--dry-run").json["pools"]
    report = cli(*mira.arguments("run", "--json")).json
    ids = [task["id"] for task in (*planned["train"], *planned["val"])]
    assert [row["id"] for row in report["tasks"]] == ids
    assert (report["counts"]["train"], report["counts"]["val"]) == (len(planned["train"]), len(planned["val"]))


def test_person_without_sessions(cli, tmp_path):
    """Nothing new is no error, and the report says what to do."""
    nobody = make_person(tmp_path / "nobody", sessions=False)
    done = cli(*nobody.arguments("run"))
    assert (done.code, done.err) == (0, "")
    assert valid(cli(*nobody.arguments("run", "--json")))["stopped_by"] == "no_sessions"


@pytest.mark.parametrize("fatal", ["not_installed", "not_logged_in", "quota_exhausted"])
def test_unusable_backend_is_one_line(cli, mira, fatal):
    """Exit 4; the line on stderr is the reason in the diagnosis."""
    done = cli(*mira.arguments("run", "--json", fatal=fatal))
    assert done.code == 4
    report = valid(done)
    assert done.err == f"skillopt-sleep: {report['why']}\n"
    assert report["stopped_by"] == "backend"


def test_spent_budget_is_one_line(cli, mira):
    """Exit 5, and how to go on."""
    done = cli(*mira.arguments("run", "--json"), "--max-calls=3")
    assert done.code == 5
    report = valid(done)
    assert report["spend"]["calls"] <= 3
    assert "run again to continue, or raise --max-calls" in done.err


def test_second_night_at_once_is_refused(cli, mira, tree):
    """While another process holds the lock: exit 6, one line, nothing done."""
    cli("harvest", *mira.places)
    with lock_night(mira.data):
        before = tree()
        done = cli(*mira.arguments("run"))
        assert done.code == 6
        assert "another night is running" in done.refusal
        assert tree().keys() == before.keys()
        assert cli("status", *mira.places, "--json").json["running"] is True
    assert cli(*mira.arguments("run")).code == 0


def test_second_night_waits_when_it_is_told_to(cli, mira):
    """It says so, and runs when the first has ended; or leaves with 6 when that took too long."""
    release = threading.Event()

    def first():
        with lock_night(mira.data):
            release.wait(20)

    thread = threading.Thread(target=first)
    thread.start()
    while not is_held(mira.data):
        time.sleep(0.01)
    late = cli(*mira.arguments("run", "--wait=0.005"))
    assert late.code == 6
    assert "waiting up to 0.005 minutes" in late.err
    threading.Timer(0.5, release.set).start()
    done = cli(*mira.arguments("run", "--wait=1"))
    thread.join()
    assert done.code == 0
    assert done.err == "skillopt-sleep: another night is running; waiting up to 1 minutes for it\n"


def test_data_folder_that_cannot_be_written(cli, mira, tmp_path):
    """Exit 7 before anything is asked of a model."""
    (tmp_path / "file").touch()
    done = cli(*mira.arguments("run"), f"--data-dir={tmp_path / 'file' / 'data'}")
    assert done.code == 7
    assert str(tmp_path / "file") in done.refusal
    assert not (mira.project / ".skillopt-sleep").exists()


def test_lock_that_cannot_be_taken(cli, mira):
    """A folder in its place: exit 7, and another data folder is the way out."""
    (mira.data / "night.lock").mkdir(parents=True)
    done = cli(*mira.arguments("run"))
    assert done.code == 7
    assert "night.lock" in done.refusal
    assert "--data-dir" in done.refusal


def test_project_that_cannot_be_written(cli, mira, monkeypatch):
    """Exit 7 before anything is asked of a model: a night that cannot be told is not begun."""

    def asked(_self, _prompt):
        raise AssertionError("a model was asked")

    monkeypatch.setattr("skillopt_sleep.backends.simulated.SimulatedBackend.complete", asked)
    (mira.project / ".skillopt-sleep").write_text("in the way")
    done = cli(*mira.arguments("run"))
    assert done.code == 7
    assert ".skillopt-sleep" in done.refusal


def test_database_of_a_newer_program(cli, mira):
    """Exit 7, one line; nothing is touched."""
    import sqlite3

    cli("harvest", *mira.places)
    with sqlite3.connect(mira.data / "sleep.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    done = cli("status", *mira.places)
    assert done.code == 7
    assert "made by a newer version" in done.refusal


def test_database_that_is_none(cli, mira):
    """Exit 7, one line that names the file."""
    mira.data.mkdir()
    (mira.data / "sleep.db").write_bytes(b"this is no database, whatever it is called" * 100)
    for command in ("status", "run", "doctor"):
        done = cli(command, *mira.places)
        assert done.code == 7
        assert str(mira.data / "sleep.db") in done.refusal


def test_status_of_somebody_new(cli, mira, tree):
    """Before the first night: the first steps, and not a file is made."""
    before = tree()
    done = cli("status", *mira.places)
    assert done.code == 0
    assert "No night yet" in done.out
    assert cli("status", *mira.places, "--json").json["nights"] == []
    assert tree() == before


def test_status_follows_a_proposal(cli, nora):
    """It waits, is adopted, and is there again when it was reverted."""
    night = cli(*nora.arguments("run", "--json")).json["night"]
    assert f"adopt {night}" in cli("status", *nora.places).out
    assert cli("status", *nora.places, "--json").json["proposals"] == [night]
    cli("adopt", *nora.places)
    told = cli("status", *nora.places, "--json").json
    assert (told["proposals"], told["adopted"]) == ([], [night])
    assert "adopted" in cli("status", *nora.places).out
    cli("revert", *nora.places)
    told = cli("status", *nora.places, "--json").json
    assert told["adopted"] == []
    assert "adopted" not in cli("status", *nora.places).out


def test_show_is_the_report_of_a_night(cli, mira):
    """The last one, or the one that is named; as JSON it is the diagnosis, and what the page says."""
    report = cli(*mira.arguments("run", "--json")).json
    last = cli("show", *mira.places)
    (path,) = mira.project.rglob("report.md")
    assert (last.code, last.out) == (0, path.read_text())
    assert cli("show", report["night"], *mira.places).out == last.out
    found = cli("show", *mira.places, "--json").json
    view = found.pop("view")
    assert found == report
    assert view["night"] == report["night"]
    edits = [row["edit"]["id"] for row in (*report["applied_edits"], *report["held_edits"], *report["rejected_edits"])]
    assert edits
    assert {rule["id"] for group in view["groups"] for rule in group["rules"]} >= {*edits[:1]}


def test_show_of_an_unknown_night_names_the_known_ones(cli, mira):
    """Exit 2, one line."""
    night = cli(*mira.arguments("run", "--json")).json["night"]
    done = cli("show", "20010101-030000-abcd", *mira.places)
    assert done.code == 2
    assert night in done.refusal


@pytest.mark.sample(3)
@pytest.mark.parametrize("command", ["insights", "doctor", "status", "show", "harvest", "settings"])
def test_json_of_every_command_can_be_read(cli, mira, command):
    """One document, and nothing else, on stdout."""
    cli(*mira.arguments("run"))
    arguments = ["--backend=simulated"] if command in {"doctor", "settings"} else []
    done = cli(command, *mira.places, *arguments, "--json")
    assert done.code == 0
    assert isinstance(done.json, dict)


def test_reader_that_goes_away_is_no_error(mira, tmp_path):
    """As with ``| head -1``: the program ends quietly, with nothing on stderr."""
    import subprocess
    import sys

    shell = 'PYTHON -m skillopt_sleep "$@" | head -c 1'.replace("PYTHON", sys.executable)
    arguments = ["harvest", *mira.places, "--sessions", "--all", "--json"]
    piped = ["bash", "-c", f"set -o pipefail; for i in 1 2 3; do {shell} > /dev/null || exit 9; done", "sh"]
    done = subprocess.run([*piped, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_night_of_a_process_of_its_own(nora):
    """The same night through ``python -m``, with stdout, stderr and exit status apart."""
    done = run(*nora.arguments("run", "--json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["verdict"] == "accept"


def test_command_that_goes_on_is_the_one_that_was_given(cli, mira):
    """With its backend and all its other options, but for the cap that it names itself."""
    done = cli(*mira.arguments("run", "--rollouts-k=2", "--scope=invoked"), "--max-calls=4", "--max-calls=5")
    assert done.code == 5
    higher, again = (line for line in done.out.splitlines() if " run --" in line)
    for word in ("--backend simulated", "--rollouts-k 2", "--scope invoked", f"--project {mira.project}"):
        assert word in higher
        assert word in again
    assert "--max-calls 10" in higher
    assert "--max-calls 5" not in higher
    assert "--max-calls 5" in again
