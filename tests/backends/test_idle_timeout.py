"""A CLI at work may be silent for one deadline of a call, and without limit while one of its tools runs."""

from __future__ import annotations

import json
import math

import pytest

from skillopt_sleep.backends import claude_output, codex_output
from skillopt_sleep.backends.process import SLACK, STARTING, IdleTimeout

CALL = 100.0


def line(**event):
    return json.dumps(event, separators=(",", ":")) + "\n"


def says(kind):
    return line(type="assistant" if kind == "tool_use" else "user", message={"content": [{"type": kind}]})


CLAUDE = {
    "begun": line(type="system", subtype="init"),
    "running": says("tool_use"),
    "ended": says("tool_result"),
    "again": line(type="system", subtype="api_retry", retry_delay_ms=500, error_status=None),
}
CODEX = {
    "begun": "a warning\n" + line(type="turn.started"),
    "running": line(type="item.started", item={"type": "command_execution"}),
    "ended": line(type="item.completed", item={"type": "command_execution"}),
    "again": line(type="error", message="Reconnecting... 1/1 (idle timeout waiting for SSE)"),
}


class Watched:
    """A run with a clock of its own."""

    def __init__(self, said, at_work, tries_again):
        self.now, self.printed, self.said = 0.0, "", said
        self.timeout = IdleTimeout(CALL, is_running_tool=at_work, is_retrying=tries_again, now=lambda: self.now)

    def __call__(self, word="", *, after=0.0):
        """Print a word after so many seconds, and return how long the CLI may then be silent."""
        self.now += after
        self.printed += self.said.get(word, "")
        return self.timeout(self.printed)


@pytest.fixture(params=["claude", "codex"])
def run(request):
    if request.param == "claude":
        return Watched(CLAUDE, claude_output.is_running_tool, claude_output.is_retrying)
    return Watched(CODEX, codex_output.is_running_tool, codex_output.is_retrying)


def test_call_has_its_deadline_and_a_tool_as_long_as_it_likes(run):
    """Before the first output there is time to start."""
    assert run() == CALL + STARTING
    assert run("begun", after=3) == CALL + SLACK
    assert run("running", after=50) == math.inf
    assert run("ended", after=5000) == CALL + SLACK


def test_second_try_after_a_whole_deadline_is_none(run):
    """A retry after a whole deadline ends the run; a retry after a quick failure is allowed."""
    run()
    run("begun", after=3)
    assert run("again", after=1) == CALL + SLACK
    assert run("again", after=CALL) == 0.0


def test_slow_start_is_no_call(run):
    """The time before the first output counts as no call."""
    run()
    assert run("again", after=2 * CALL) == CALL + SLACK
