"""The exact judge: literal, but for white space."""

from __future__ import annotations

import pytest

from skillopt_sleep.errors import UsageError
from skillopt_sleep.judges.exact import PLUGIN
from skillopt_sleep.model.rollout import ReplayResult
from skillopt_sleep.model.task import ExactReference, RubricReference, TaskRecord
from tests.fakes.ask import nobody


def score(answer: str, response: str):
    """The score of a response."""
    task = TaskRecord(id="t", intent="name it", reference=ExactReference(answer=answer))
    return PLUGIN().score(task, ReplayResult(task_id="t", candidate="c", response=response), nobody)


@pytest.mark.parametrize(
    ("response", "hard", "soft"),
    [
        ("fix: keep tabs", 1, 1),
        ("  fix:  keep\ntabs\n", 1, 1),
        ("Fix: keep tabs", 0, 2 / 3),
        ("fix: keep tabs and more words", 0, 2 * 3 / 9),
        ("", 0, 0),
        ("nothing alike", 0, 0),
    ],
    ids=["same", "white space", "case", "more", "empty", "other"],
)
def test_a_response(response: str, hard: float, soft: float) -> None:
    """Hard only when equal with white space folded; soft by the words both have."""
    scored = score("fix: keep tabs", response)
    assert (scored.hard, scored.soft) == (hard, pytest.approx(soft))


def test_a_task_with_another_reference() -> None:
    """It is refused by name."""
    task = TaskRecord(id="t", intent="name it", reference=RubricReference(rubric="good"))
    with pytest.raises(UsageError, match="task t: the judge exact"):
        PLUGIN().score(task, ReplayResult(task_id="t", candidate="c"), nobody)
