"""How many more tasks a verdict takes, and how long that is."""

from __future__ import annotations

import pytest

from skillopt_sleep.model.task import GROUPS_FOR_VERDICT, Origin, RubricReference, Shortfall, TaskRecord, shortfall


def task(number, *days, group=""):
    """A task that was asked on these days of one month."""
    origins = tuple(
        Origin(source="claude", session_id=f"s{number}", path="/p", words="w", at=f"2026-07-{day:02}T10:00:00Z")
        for day in days
    )
    return TaskRecord(
        id=f"t{number}", intent=f"do {number}", reference=RubricReference(rubric="r"), origins=origins, group=group
    )


@pytest.mark.parametrize(
    ("tasks", "found"),
    [
        pytest.param([], Shortfall(groups=0, missing=GROUPS_FOR_VERDICT), id="none"),
        pytest.param([task(1)], Shortfall(groups=1, missing=GROUPS_FOR_VERDICT - 1), id="no-times"),
        pytest.param([task(n, 1) for n in range(12)], Shortfall(groups=12, missing=3, days=1), id="twelve-a-day"),
        pytest.param([task(n, 1 + n // 2) for n in range(12)], Shortfall(groups=12, missing=3, days=2), id="two-a-day"),
        pytest.param(
            [task(n, 1, 2, group="one") for n in range(9)], Shortfall(groups=1, missing=14, days=28), id="twins"
        ),
        pytest.param([task(n, n + 1) for n in range(15)], Shortfall(groups=15), id="enough"),
    ],
)
def test_days_are_those_of_this_work(tasks, found):
    """The pace is different requests by days with any; days without work are none."""
    assert shortfall(tasks) == found
