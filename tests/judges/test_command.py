"""The judge of exit statuses: all must pass, the share is the grade, and nothing is run here."""

from __future__ import annotations

import pytest

from skillopt_sleep.errors import UsageError
from skillopt_sleep.judges.command import CommandJudge
from skillopt_sleep.model.rollout import CommandRun, ReplayResult
from skillopt_sleep.model.task import CommandReference, RubricReference, TaskRecord
from tests.fakes.ask import nobody

CASES = {
    "all pass": ((0, 0), 1.0, 1.0, "every command passes"),
    "one fails": ((0, 2), 0.0, 0.5, "'make lint' ends with status 2"),
    "out of time": ((None, 0), 0.0, 0.5, "'make test' ran out of time"),
    "not run": ((0,), 0.0, 0.5, "'make lint' was not run"),
    "none run": ((), 0.0, 0.0, "'make test' was not run; 'make lint' was not run"),
}


def test_command_that_printed_too_much_is_told_so():
    """It has no status, and did not run out of time."""
    runs = (CommandRun(line="yes", status=None, flooded=True),)
    rollout = ReplayResult(task_id="t", candidate="c", runs=runs)
    score = CommandJudge().score(task(CommandReference(commands=("yes",))), rollout, nobody)
    assert (score.hard, score.rationale) == (0.0, "'yes' printed over 16 MB and was ended; have it print less")


def task(reference):
    return TaskRecord(id="t", intent="do it", reference=reference)


@pytest.mark.parametrize(("statuses", "hard", "soft", "why"), CASES.values(), ids=CASES)
def test_score(statuses, hard, soft, why):
    """Hard is all of them, soft their share; a command that was not run has not passed."""
    lines = ("make test", "make lint")
    runs = tuple(CommandRun(line=line, status=status) for line, status in zip(lines, statuses, strict=False))
    rollout = ReplayResult(task_id="t", candidate="c", runs=runs)
    score = CommandJudge().score(task(CommandReference(commands=lines)), rollout, nobody)
    assert (score.hard, score.soft, score.rationale) == (hard, soft, why)


@pytest.mark.parametrize("reference", [RubricReference(rubric="x"), CommandReference(commands=())])
def test_task_without_commands_is_refused(reference):
    """It names the task."""
    with pytest.raises(UsageError, match=r"task t: .* (of the kind command, not rubric|but it has no command)"):
        CommandJudge().score(task(reference), ReplayResult(task_id="t", candidate="c"), nobody)
