"""``checks``: what may score replays is offered from the sessions and approved by the user, never by a project."""

from __future__ import annotations

import json
import shutil

import pytest
from msgspec.structs import replace

from skillopt_sleep.mining.commands import command_id
from skillopt_sleep.model.session import Command, Feedback
from tests.benchmarks.worlds import make_sessions
from tests.fakes.home import make_person
from tests.fakes.repository import make_project, tree


def ran(turn):
    """Tests that failed wherever she had to complain."""
    lines = (
        ("ls -la", 0),
        ("make test", turn.feedback is Feedback.NEITHER),
        ("evil \x1b[2J", 0),
        ("npm test | tail", 0),
    )
    return tuple(Command(line=line, exit_status=int(status)) for line, status in lines)


@pytest.fixture
def ada(tmp_path):
    """A person whose agent ran her tests and a formatter again and again, and looked around a lot."""
    person = make_person(tmp_path / "ada", rules=1, tasks_per_rule=6, sessions=False)
    person.write(
        replace(each, turns=tuple(replace(turn, commands=ran(turn)) for turn in each.turns))
        for each in make_sessions(person.world, 1)
    )
    make_project(person.project, code="x\n")
    return person


def test_commands_of_the_sessions_are_offered(cli, ada, tree):
    """With their record, those first that were seen to fail and to pass; nothing is written."""
    before = tree()
    done = cli("checks", *ada.places)
    assert done.code == 0
    assert "none yet" in done.out
    offered = [line.split()[2:] for line in done.out.splitlines() if line.startswith("  - ")]
    assert offered == [["make", "test"], ["npm", "test"]]
    assert "18 runs in 3 sessions: 6 failed, 12 passed; last on " in done.out
    assert "18 runs in 3 sessions: 18 with unknown result" in done.out
    assert f"approve {command_id('make test')}" in done.out
    assert tree() == before


def test_command_is_approved_by_id_or_by_its_words_and_removed(cli, ada):
    """Its time limit can be set; what is approved is listed first, with its record."""
    project = tree(ada.project)
    done = cli("checks", *ada.places, "approve", command_id("make test"), "cargo test", "--seconds=9")
    assert done.code == 0
    assert f"approved for {ada.project}: make test (at most 9 s)" in done.out
    listed = cli("checks", *ada.places).out
    assert listed.index("make test") < listed.index("cargo test") < listed.index("Commands that your sessions")
    assert "at most 9 s; 18 runs" in listed
    told = cli("checks", *ada.places, "--json").json
    assert [each["line"] for each in told["approved"]] == ["make test", "cargo test"]
    assert cli("checks", *ada.places, "remove", "make test", command_id("cargo test")).code == 0
    assert "none yet" in cli("checks", *ada.places).out
    assert tree(ada.project) == project


def test_command_is_one_however_it_is_spaced(cli, ada, tmp_path):
    """Approved, listed, asked for by a task file and removed under its plain form."""
    done = cli("checks", *ada.places, "approve", "make   test")
    assert f"approved for {ada.project}: make test (at most" in done.out
    told = cli("checks", *ada.places, "--json").json
    assert [each["line"] for each in told["approved"]] == ["make test"]
    assert "make test" not in [each["line"] for each in told["offered"]]
    path = task_file(tmp_path, {"kind": "command", "commands": ["make  test", "npm  test"]})
    refused = cli("run", *ada.places, f"--tasks={path}", "--backend=claude", "--replay=worktree").refusal
    assert "task t0 would run 'npm test', which is not approved" in refused
    assert cli("checks", *ada.places, "remove", " make  test").code == 0


def test_options_may_stand_before_or_after_the_action(cli, ada):
    """What was said last holds."""
    other = ["--project=/", f"--data-dir={ada.data}"]
    done = cli("checks", *other, "approve", "make test", *ada.places)
    assert done.code == 0
    assert f"approved for {ada.project}: make test" in done.out
    assert "make test" in cli("checks", "remove", "make test", *ada.places).out


def test_approval_holds_for_one_project(cli, ada, tmp_path):
    """Another one grants nothing, whatever lies in it."""
    cli("checks", *ada.places, "approve", "make test")
    other = make_project(tmp_path / "other", checks="make test\n")
    done = cli("checks", f"--project={other}", f"--data-dir={ada.data}", f"--claude-home={ada.claude}")
    assert "none yet" in done.out


WRONG = {
    "unknown id": (["approve", "abcdef"], "no command has the id abcdef"),
    "nothing": (["approve", ""], "an empty command checks nothing"),
    "a space": (["approve", "   "], "an empty command checks nothing"),
    "two lines": (["approve", "make\nmake test"], "write the command on one line"),
    "output trimmed": (
        ["approve", "make test | tail"],
        "leave out what shortens its output, because that hides the exit status: 'make test'",
    ),
    "too long": (["approve", "x" * 301], "301 characters, and at most 300 are allowed"),
    "a document": (["approve", "cat <<E"], "a here-document (<<)"),
    "unseen": (["approve", "make\u200b test"], "an invisible character"),
    "limit": (["approve", "make", "--seconds=0"], "--seconds 0: expected a limit above 0 and up to 3600 seconds"),
    "not approved": (["remove", "make"], "'make' is not approved"),
    "no command": (["approve"], "COMMAND"),
    "no such action": (["allow", "make"], "allow"),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG)
def test_wrong_word_gets_one_line(cli, ada, arguments, says):
    """Exit 2, and what to do."""
    done = cli("checks", *ada.places, *arguments)
    assert done.code == 2
    assert says in done.refusal


def task_file(folder, reference):
    path = folder / "tasks.json"
    tasks = [{"id": f"t{number}", "intent": f"do {number}", "reference": reference} for number in range(3)]
    path.write_text(json.dumps({"reviewed": True, "tasks": tasks}))
    return path


def test_task_file_grants_nothing(cli, ada, tmp_path):
    """A command in it is run only where it was approved, and only in a copy of the project."""
    path = task_file(tmp_path, {"kind": "command", "commands": ["make test"]})
    text = cli("run", *ada.places, f"--tasks={path}", "--backend=claude")
    assert text.code == 2
    assert "task t0 is scored by commands, which only --replay worktree can run" in text.refusal
    copied = cli("run", *ada.places, f"--tasks={path}", "--backend=claude", "--replay=worktree")
    assert copied.code == 2
    assert "task t0 would run 'make test', which is not approved" in copied.refusal


REFUSED = {
    "no agent": (["--backend=openai", "--replay=native"], "the backend openai has no agent"),
    "simulated": (["--backend=simulated", "--replay=worktree"], "the backend simulated has no agent"),
    "no such mode": (["--replay=fast"], "expected one of text, native, worktree"),
    "all projects": (["--replay=worktree", "--scope=all"], "it cannot be used with --scope all"),
    "no sandbox": (
        ["--replay=worktree"],
        "claude needs bwrap and socat for its sandbox; install them: apt-get install bubblewrap socat",
    ),
}


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine with git and what passes for claude, and no program to confine anything with."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("claude", "git"):
        (programs / name).symlink_to(shutil.which("git"))
    monkeypatch.setenv("PATH", str(programs))


@pytest.mark.parametrize(("arguments", "says"), REFUSED.values(), ids=REFUSED)
@pytest.mark.usefixtures("bare")
def test_replay_that_cannot_be_done_here_is_refused_in_one_line(cli, ada, arguments, says):
    """Before anything is spent, and it says what would help."""
    done = cli("run", *ada.places, *arguments)
    assert done.code == 2
    assert says in done.refusal


def test_folder_that_is_no_git_project_is_refused(cli, mira):
    """There is nothing to make a copy of."""
    done = cli("run", *mira.places, "--replay=worktree")
    assert done.code == 2
    assert "is not the root of a git repository with a commit" in done.refusal
