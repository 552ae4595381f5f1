"""``harvest`` and ``insights``: what was typed, each word once, and tasks as a file to review."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillopt_sleep.mining.task_file import decode_tasks
from skillopt_sleep.usecases.status import read_status
from tests.fakes.home import make_person

KEYS = {"source", "path", "session_id", "cwd", "prompts", "finals", "tools", "feedback"}


def rows(done):
    """The JSON lines it printed."""
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_sessions_are_lines_of_json(cli, mira):
    """One object for each file: every prompt in order with its answer, and what was said about an answer."""
    found = rows(cli("harvest", *mira.places, "--sessions", "--json"))
    assert len(found) == len(list(mira.claude.rglob("*.jsonl"))) == 5
    for row in found:
        assert row.keys() >= KEYS
        assert row["source"] == "claude"
        assert row["cwd"] == str(mira.project)
        assert Path(row["path"]).is_file()
        assert row["session_id"] == Path(row["path"]).stem
        assert len(row["prompts"]) == len(row["finals"])
        for said in row["feedback"]:
            assert said["label"] in {"correction", "approval"}
            assert row["prompts"][said["prompt_index"]] == said["words"]
    asks = {ask for task in mira.world.tasks for ask in task.asks}
    assert len(asks & {prompt for row in found for prompt in row["prompts"]}) == len(mira.world.tasks)
    assert sum(said["label"] == "correction" for row in found for said in row["feedback"]) == 10


def test_second_harvest_has_nothing_new_and_opens_no_transcript(cli, mira, monkeypatch):
    """Words are printed once; files that did not change are known by size and time alone."""
    first = rows(cli("harvest", *mira.places, "--sessions", "--json"))

    def opened(_source, file, _skipped):
        raise AssertionError(f"opened {file.path}")

    monkeypatch.setattr("skillopt_sleep.sources.claude.ClaudeSource.read", opened)
    assert rows(cli("harvest", *mira.places, "--sessions", "--json")) == []
    counts = cli("harvest", *mira.places, "--json").json
    assert (counts["files"], counts["files_read"], counts["sessions"], counts["waiting"]) == (5, 0, 0, 5)
    again = rows(cli("harvest", *mira.places, "--sessions", "--all", "--json"))
    assert {row["path"] for row in again} == {row["path"] for row in first}
    assert sorted(map(str, again)) == sorted(map(str, first))


def test_session_that_grew_shows_only_its_new_words(cli, mira):
    """A file that is read again gives what nobody has seen."""
    rows(cli("harvest", *mira.places, "--sessions", "--json"))
    path = min(mira.claude.rglob("*.jsonl"))
    typed = next(json.loads(line) for line in path.read_text().splitlines() if '"type":"user"' in line)
    typed["uuid"] = "new-uuid"
    typed["message"]["content"] = "And now something else entirely."
    with path.open("a") as file:
        file.write(json.dumps(typed) + "\n")
    (row,) = rows(cli("harvest", *mira.places, "--sessions", "--json"))
    assert row["path"] == str(path)
    assert row["prompts"] == ["And now something else entirely."]


def test_sessions_of_other_projects_are_filed_but_not_shown(cli, mira, tmp_path):
    """The inbox is the user's; what is shown is of this project, or with --scope all everything."""
    other = tmp_path / "other"
    other.mkdir()
    elsewhere = [each if "--project" not in each else f"--project={other}" for each in mira.places]
    assert rows(cli("harvest", *elsewhere, "--sessions", "--json")) == []
    assert len(rows(cli("harvest", *elsewhere, "--sessions", "--all", "--scope=all", "--json"))) == 5
    assert cli("harvest", *mira.places, "--json").json["waiting"] == 5


def test_harvest_in_words(cli, mira):
    """Without --json: counts in a sentence, or a block for each session."""
    found, steps = cli("harvest", *mira.places).out.splitlines()
    assert found == "5 files, 5 read: 5 sessions with 30 new prompts; 5 sessions wait to be mined."
    assert steps.startswith("The agent's steps are kept of 5 sessions that you stepped into: 0.0")
    assert "steps" not in cli("harvest", *mira.places, "--set=keep_steps=false").out
    shown = cli("harvest", *mira.places, "--sessions", "--all").out
    assert shown.count("correction") == 10


def test_unreadable_part_is_named_on_stderr(cli, mira):
    """A malformed line is skipped, counted, and named with its file and line; the rest is read."""
    path = min(mira.claude.rglob("*.jsonl"))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{broken", *lines[1:]]) + "\n")
    done = cli("harvest", *mira.places, "--sessions", "--json")
    assert len(rows(done)) == 5
    assert f"skipped {path}:2: " in done.err


@pytest.fixture
def tasks_out(cli, mira, tmp_path):
    """Tasks of hers, written to a file by ``harvest --tasks-out``."""
    path = tmp_path / "tasks.json"
    done = cli("harvest", *mira.places, "--tasks-out", path)
    assert done.code == 0
    assert f"10 tasks written to {path}" in done.err
    return path


def test_tasks_are_written_to_be_reviewed(mira, tasks_out):
    """The file holds what the night would replay, marked as read by nobody; the sessions stay in the inbox."""
    tasks = decode_tasks(tasks_out.read_bytes(), str(tasks_out))
    assert len(tasks) == 10
    assert not any(task.reviewed for task in tasks)
    assert tasks_out.stat().st_mode & 0o777 == 0o600
    assert read_status(mira.workspace()).waiting == 5


def test_unreviewed_tasks_cost_nothing_real(cli, mira, tasks_out, tree):
    """With a real agent they are refused before anything is written or spent."""
    before = tree()
    done = cli("run", *mira.places, "--backend=claude", "--tasks", tasks_out)
    assert done.code == 2
    assert "10 of 10 tasks of the file are not reviewed" in done.refusal
    assert '"reviewed": true' in done.refusal
    assert tree() == before


def test_unreviewed_tasks_may_be_tried_with_the_simulated_agent(cli, mira, tasks_out):
    """It costs nothing, so it needs no review; nothing is harvested for it."""
    report = cli(*mira.arguments("run", "--json"), "--tasks", tasks_out).json
    assert (report["counts"]["train"], report["counts"]["val"]) == (4, 6)
    assert report["stopped_by"] is None
    assert read_status(mira.workspace()).waiting == 5


def test_reviewed_tasks_run(cli, mira, tasks_out):
    """Once read and marked, the tasks and splits of the file are those of the night."""
    told = json.loads(tasks_out.read_text())
    told["reviewed"] = True
    told["tasks"] = told["tasks"][:8]
    for number, task in enumerate(told["tasks"]):
        task["split"] = "holdout" if number < 3 else "replay"
    tasks_out.write_text(json.dumps(told))
    report = cli(*mira.arguments("run", "--json"), "--tasks", tasks_out).json
    assert (report["counts"]["train"], report["counts"]["val"]) == (5, 3)
    assert {row["id"] for row in report["tasks"]} == {task["id"] for task in told["tasks"]}
    plan = cli("run", *mira.places, "--backend=claude", "--tasks", tasks_out, "--dry-run", "--json")
    assert plan.code == 0, "reviewed tasks are not refused for a real agent"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"tasks": 3}, ['"tasks" must be a list', "3"], id="no-list"),
        pytest.param({"task": []}, ["unknown key 'task'", "'tasks'"], id="unknown-key"),
        pytest.param({"tasks": [{"intent": "x"}]}, ["tasks[0]", "no reference"], id="no-reference"),
        pytest.param({"schema_version": 9}, ["schema_version is 9"], id="newer"),
    ],
)
def test_task_file_that_cannot_be_used_is_refused(cli, mira, tasks_out, change, says):
    """The message names the file and the place in it."""
    tasks_out.write_text(json.dumps(json.loads(tasks_out.read_text()) | change))
    done = cli(*mira.arguments("run"), "--tasks", tasks_out)
    assert done.code == 2
    assert all(part in done.refusal for part in [str(tasks_out), *says]), done.err


def test_insights_write_nothing(cli, mira, tree):
    """What the sessions tell, without a model call and without a trace."""
    before = tree()
    done = cli("insights", *mira.places)
    assert done.code == 0
    assert "You typed 30 prompts in 5 sessions" in done.out
    found = cli("insights", *mira.places, "--json").json
    assert (found["sessions"], found["prompts"], len(found["corrections"])) == (5, 30, 10)
    assert tree() == before


def test_insights_after_a_harvest_are_the_same(cli, mira):
    """It looks at the archive and at what is new, so it does not matter what was harvested before."""
    fresh = cli("insights", *mira.places, "--json").json
    cli("harvest", *mira.places)
    assert cli("insights", *mira.places, "--json").json == fresh


def test_insights_of_somebody_without_sessions(cli, tmp_path):
    """A plain word, no error."""
    nobody = make_person(tmp_path / "nobody", sessions=False)
    done = cli("insights", *nobody.places)
    assert done.code == 0
    assert done.out
