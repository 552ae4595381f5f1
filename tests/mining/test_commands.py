"""Commands of sessions: told apart from those that only look around, counted, and offered in order."""

from __future__ import annotations

import pytest

from skillopt_sleep.mining.commands import (
    collapse_spaces,
    command_id,
    find_checks,
    find_command_problem,
    find_recurring_commands,
    is_check,
    normalise_command,
)
from skillopt_sleep.model.session import Command
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
    "spaces that say nothing": ("  make   test  -j 2  2>&1", "make test -j 2", True),
    "two lines": ("make\nmake test", "", False),
    "here document": ("python - <<E", "", False),
    "control characters": ("make \x1b[2J", "", False),
    "long": ("x" * 400, "", False),
}


@pytest.mark.parametrize(("line", "plain", "own"), PLAIN.values(), ids=PLAIN)
def test_normalise_command(line, plain, own):
    """What only says where, or trims the output, is left out; behind a pipe the exit status is not the command's."""
    assert normalise_command(line, HOME) == (plain, own)


SPACED = {
    "make  test": "make test",
    " make\ttest ": "make test",
    "CI=1   make test  &&  npm  test": "CI=1 make test && npm test",
    "grep -q 'a  b'  x": "grep -q 'a  b' x",
    'grep -q "a  \\"  b"  x': 'grep -q "a  \\"  b" x',
    "grep -q a\\  \\ b  x": "grep -q a\\  \\ b x",
    "pytest -k 'it''s  a'  x": "pytest -k 'it''s  a' x",
    "grep -q it\\'s  x": "grep -q it\\'s x",
    "grep -q 'not  closed": "grep -q 'not  closed",
    'test "$(cat "a  b")"  = x': 'test "$(cat "a  b")"  = x',
    "grep -q $'a\\'  b'  x": "grep -q $'a\\'  b'  x",
    "test `cat 'a  b'`  = x": "test `cat 'a  b'`  = x",
    "pytest -k a\u00a0\u00a0b": "pytest -k a\u00a0\u00a0b",
}
"""As a shell splits it: what is quoted, escaped or nested stays."""


@pytest.mark.parametrize(("line", "spaced"), SPACED.items())
def test_spaces_are_one_where_a_shell_sees_any_number(line, spaced):
    """Differently spaced commands are one check, and their meaning does not change."""
    assert collapse_spaces(line) == spaced
    assert collapse_spaces(spaced) == spaced
    assert find_command_problem("make  test") == ""


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
    assert is_check(line)


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
    """Programs that install, serve or change things elsewhere are not checks."""
    assert not is_check(line)


def ran(name, *commands, day="2026-03-02"):
    """A session in whose one turn these commands ran, each a line and a status."""
    made = [Command(line=line, exit_status=status) for line, status in commands]
    return session(name, turn("fix it please", "done", at=f"{day}T10:00:00Z", commands=tuple(made)), day=day)


def test_recurring_commands_are_counted():
    """Runs are counted by result over all sessions; a status behind a pipe counts as unknown."""
    sessions = [
        ran("a", ("pytest -q", 1), ("pytest -q", 0), ("ls", 0)),
        ran("b", (f"cd {HOME} && pytest -q 2>&1 | tail -5", 0), day="2026-03-05"),
    ]
    (found,) = find_recurring_commands(sessions, HOME)
    assert (found.line, found.failed, found.passed, found.unknown) == ("pytest -q", 1, 1, 1)
    assert (found.runs, found.sessions, found.last, found.id) == (3, 2, "2026-03-05", command_id("pytest -q"))


def test_command_that_was_seen_both_ways_is_offered_first():
    """A command seen to pass and fail comes first, then known checkers; a command that ran once is left out."""
    sessions = [
        ran(name, ("npm test", 0), ("npm test", 0), ("./verify", 1 - number), ("mypy .", 0) if number else ("id", 0))
        for number, name in enumerate("ab")
    ]
    assert [each.line for each in find_recurring_commands(sessions, HOME)] == ["./verify", "npm test"]


def test_command_typed_in_two_ways_is_one():
    """The runs of both spellings are counted together."""
    (found,) = find_recurring_commands(
        [ran("a", ("make  test", 1), ("make test", 0)), ran("b", (" make test", 0))], HOME
    )
    assert (found.line, found.runs, found.sessions) == ("make test", 3, 2)


def test_find_checks_some_work():
    """Commands that can show the result are listed once, the last first."""
    commands = [Command(line=line) for line in ("ls", "make lint", f"cd {HOME} && make test", "make lint", "git diff")]
    assert find_checks(commands, HOME) == ("make lint", "make test")
