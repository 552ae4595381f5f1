"""Commands of sessions: told apart from those that only look around, counted, and offered in order."""

from __future__ import annotations

import pytest

from skillopt_sleep.domain.commands import checks_of, command_id, plain_command, recurring, telling
from skillopt_sleep.domain.session import Command
from tests.fakes.sessions import session, turn

HOME = "/home/ada/rockets"

PLAIN = {
    "as it is": ("pytest -q", "pytest -q", True),
    "into the project": (f"cd {HOME} && pytest -q", "pytest -q", True),
    "into a folder of it": (f'cd "{HOME}/api" && pytest', "cd api && pytest", True),
    "elsewhere": ("cd /tmp && pytest", "cd /tmp && pytest", True),
    "errors in the output": ("make test 2>&1", "make test", True),
    "output cut": ("make test 2>&1 | tail -20", "make test", False),
    "output thrown away": ("make test > /dev/null", "make test", True),
    "two lines": ("make\nmake test", "", False),
    "here document": ("python - <<E", "", False),
    "control characters": ("make \x1b[2J", "", False),
    "long": ("x" * 400, "", False),
}


@pytest.mark.parametrize(("line", "plain", "own"), PLAIN.values(), ids=PLAIN)
def test_plain_command(line, plain, own):
    """What only says where, or trims the output, is left out; behind a pipe the exit status is not the command's."""
    assert plain_command(line, HOME) == (plain, own)


@pytest.mark.parametrize(
    "line",
    [
        "pytest -q",
        "npm test",
        "cargo test --all",
        "uv run pytest",
        "python -m pytest tests",
        "go vet ./...",
        "npx tsc",
        "CI=1 make check",
        "cd api && pytest",
        "./gradlew test",
        "poetry run mypy .",
    ],
)
def test_check_is_told(line):
    """Programs whose exit status says whether something is right."""
    assert telling(line)


@pytest.mark.parametrize(
    "line",
    [
        "ls -la",
        "git status",
        "npm install",
        "npm run dev",
        "cat x | grep y",
        "rm -rf build",
        "docker compose up",
        "curl http://x",
        "python script.py",
        "cargo fmt",
        "terraform apply",
        "",
        "echo pytest",
    ],
)
def test_look_around_is_no_check(line):
    """Nor is what installs, serves, or changes things elsewhere."""
    assert not telling(line)


def ran(name, *commands, day="2026-03-02"):
    """A session in whose one turn these commands ran, each a line and a status."""
    made = [Command(line=line, exit_status=status) for line, status in commands]
    return session(name, turn("fix it please", "done", at=f"{day}T10:00:00Z", commands=tuple(made)), day=day)


def test_recurring_commands_are_counted():
    """By how they ended, over sessions, with the day of the last; a status behind a pipe is not told."""
    sessions = [
        ran("a", ("pytest -q", 1), ("pytest -q", 0), ("ls", 0)),
        ran("b", (f"cd {HOME} && pytest -q 2>&1 | tail -5", 0), day="2026-03-05"),
    ]
    (found,) = recurring(sessions, HOME)
    assert (found.line, found.failed, found.passed, found.unknown) == ("pytest -q", 1, 1, 1)
    assert (found.runs, found.sessions, found.last, found.id) == (3, 2, "2026-03-05", command_id("pytest -q"))


def test_command_that_was_seen_both_ways_is_offered_first():
    """Whatever program it is; a known checker that only ever passed comes after it, and what ran once not at all."""
    sessions = [
        ran(name, ("npm test", 0), ("npm test", 0), ("./verify", 1 - number), ("mypy .", 0) if number else ("id", 0))
        for number, name in enumerate("ab")
    ]
    assert [each.line for each in recurring(sessions, HOME)] == ["./verify", "npm test"]


def test_checks_of_some_work():
    """Those that could tell how it went, each once, the last first."""
    commands = [Command(line=line) for line in ("ls", "make lint", f"cd {HOME} && make test", "make lint", "git diff")]
    assert checks_of(commands, HOME) == ("make lint", "make test")
