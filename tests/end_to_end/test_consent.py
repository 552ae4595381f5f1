"""Sessions are sent to nobody new before the user has agreed, once."""

from __future__ import annotations

import json

import pytest

from skillopt_sleep.errors import NotAllowed
from skillopt_sleep.usecases.permissions import ask_first
from tests.end_to_end.test_backend_failures import DIALECTS, SYSTEM_PATH
from tests.fakes.cli import make_cli
from tests.fakes.home import make_person
from tests.fakes.program import run_here as run


@pytest.fixture
def person(tmp_path):
    """Somebody who works with Claude Code."""
    return make_person(tmp_path / "mira", rules=1, tasks_per_rule=4)


@pytest.fixture
def codex(tmp_path):
    """Codex, which believes that it is logged in."""
    cli = make_cli(tmp_path / "bin", "codex")
    cli.behave(on="--version", stdout=DIALECTS["codex"].version)
    cli.behave(on="login status", stdout="Logged in")
    cli.behave(on="exec", **DIALECTS["codex"].says["401"])
    return cli


def places(person):
    """Her places, without the agreement that other tests begin with."""
    return [each for each in person.places if "share_with" not in each]


def test_night_that_nobody_watches(person, codex):
    """It sends nothing, and says in one line what would agree; its diagnosis says it too."""
    done = run("run", *places(person), "--backend=codex", PATH=f"{codex.folder}:{SYSTEM_PATH}")
    assert done.returncode == 4
    (line,) = done.stderr.splitlines()
    assert "your Claude Code sessions went to Anthropic" in line
    assert "to OpenAI: agree to it with --share-with openai" in line
    assert codex.calls == []
    (found,) = person.project.rglob("diagnostics.json")
    assert json.loads(found.read_text())["call_error"].startswith("NotAllowed: ")
    doctor = run("doctor", *places(person), "--backend=codex", PATH=f"{codex.folder}:{SYSTEM_PATH}")
    assert "--share-with openai agrees" in doctor.stdout


def test_scheduled_night_that_nobody_agreed_to(person, codex):
    """The page offers what makes every later night run, with the options of this one: `run` would agree only once."""
    path = f"{codex.folder}:{SYSTEM_PATH}"
    flags = ["--backend=codex", "--max-calls=30", "--max-calls-day=30"]
    assert run("run", *places(person), *flags, PATH=path, SKILLOPT_SCHEDULED="1").returncode == 4
    found = json.loads(run("show", "--json", *places(person)).stdout)
    yes, no = (command for command, _ in found["view"]["steps"])
    assert " schedule --share-with openai --backend codex --max-calls 30 --source claude " in yes
    assert " schedule --backend claude --max-calls 30 --source claude " in no


@pytest.mark.sample(1)
@pytest.mark.parametrize("agree", ["flag", "variable", "same provider"])
def test_night_that_was_agreed_to(person, codex, agree):
    """The flag, the setting, or nothing at all where the sessions went anyway."""
    flags = ["--share-with=openai"] if agree == "flag" else []
    env = {"SKILLOPT_SLEEP_SHARE_WITH": "anthropic, openai"} if agree == "variable" else {}
    backend = "claude" if agree == "same provider" else "codex"
    done = run("run", *places(person), f"--backend={backend}", *flags, PATH=f"{codex.folder}:{SYSTEM_PATH}", **env)
    assert "agree" not in done.stderr
    assert bool(codex.calls) == (backend == "codex")


def test_receiver_that_is_not_the_label(person, codex):
    """An agreement with OpenAI is none with another host that Codex is set up for; nor is Claude's own address."""
    elsewhere = "--set=backends.codex.config=['openai_base_url=\"http://evil.example/v1\"']"
    path = f"{codex.folder}:{SYSTEM_PATH}"
    done = run("run", *places(person), "--backend=codex", "--share-with=openai", elsewhere, PATH=path)
    assert done.returncode == 4
    assert "to evil.example: agree to it with --share-with evil.example" in done.stderr
    done = run("run", *places(person), "--backend=claude", PATH=path, ANTHROPIC_BASE_URL="http://evil.example")
    assert (done.returncode, "went to Anthropic" in done.stderr, "to evil.example" in done.stderr) == (4, True, True)
    assert codex.calls == []


def test_question_is_asked_once(person):
    """A yes is kept in the user's data; a no ends it; who had the sessions anyway is not asked about."""
    asked = []

    def answers(yes):
        def answer(question):
            asked.append(question)
            return yes

        return answer

    with pytest.raises(NotAllowed, match="did not agree"):
        ask_first(person.workspace(backend="codex", share_with=""), answers(False))
    ask_first(person.workspace(backend="codex", share_with=""), answers(True))
    ask_first(person.workspace(backend="codex", share_with=""), answers(False))
    ask_first(person.workspace(backend="claude", share_with=""), answers(False))
    ask_first(person.workspace(backend="simulated", share_with=""), answers(False))
    assert len(asked) == 2
    assert set(person.project.iterdir()) == set()
