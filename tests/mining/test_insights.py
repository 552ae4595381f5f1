"""What recurs is found and counted, in the person's own words, and what a verdict still takes."""

from __future__ import annotations

import time

import pytest

from skillopt_sleep.mining.insights import Insights, find_insights
from skillopt_sleep.model.session import PromptKind, Session
from skillopt_sleep.model.task import GROUPS_FOR_VERDICT, RubricReference, TaskRecord
from tests.fakes.sessions import session, turn

SESSIONS = (
    session(
        "s1", ("fix the failing lint in CI", "Fixed."), ("no, run make lint first", "Ran.", "no"), day="2026-03-01"
    ),
    session("s2", ("CI lint is failing, fix it", "Done."), ("run make lint first!", "Ran.", "no"), day="2026-03-05"),
    session(
        "s3",
        ("commit and push", "Pushed."),
        ("write the release notes", "Notes."),
        ("great", "", "ok"),
        day="2026-03-05",
    ),
    session(
        "s4", ("please commit and push", "Pushed."), ("continue", "More."), day="2026-03-09", cwd="/home/ada/kites"
    ),
    session("s5", ("continue", "More."), day="2026-03-09"),
)


def tasks(groups: int) -> list[TaskRecord]:
    """As many tasks, two to a group but for the last."""
    made = [
        TaskRecord(id=f"t{n}{half}", intent="x", reference=RubricReference(rubric="y"), group=f"g{n}")
        for n in range(groups)
        for half in "ab"
    ]
    return made[: 2 * groups - 1]


def test_the_counts() -> None:
    """Sessions, prompts, corrections and approvals are counted, days with a prompt, folders."""
    found = find_insights(SESSIONS, [])
    assert (found.sessions, found.projects, found.prompts) == (5, 2, 10)
    assert (len(found.corrections), found.approvals) == (2, 1)
    assert (found.first_day, found.last_day, found.active_days) == ("2026-03-01", "2026-03-09", 3)


def test_what_was_asked_in_several_sessions() -> None:
    """It is one finding with each wording and session, and what was said about the answers; "continue" is none."""
    lint, push = find_insights(SESSIONS, []).asked
    assert [(each.day, each.session_id, each.words) for each in lint.sightings] == [
        ("2026-03-05", "s2", "CI lint is failing, fix it"),
        ("2026-03-01", "s1", "fix the failing lint in CI"),
    ]
    assert [each.said.words for each in lint.corrections] == ["run make lint first!", "no, run make lint first"]
    assert (lint.sessions, push.sessions, push.corrections) == (2, 2, ())


def test_what_was_corrected_in_several_sessions() -> None:
    """Repeated corrections are found even if the requests differ."""
    (again,) = find_insights(SESSIONS, []).corrected
    assert [each.session_id for each in again.sightings] == ["s2", "s1"]
    assert {each.asked for each in again.corrections} == {"CI lint is failing, fix it", "fix the failing lint in CI"}


def test_a_request_repeated_within_one_session() -> None:
    """Repetition within one session does not count as recurring."""
    twice = session(
        "s1", ("fix the lint in CI", "Done."), ("write the release notes", "So."), ("fix the lint in CI", "Done.")
    )
    assert find_insights([twice], []).asked == ()


def test_what_was_pasted() -> None:
    """It is not quoted as the person's words."""
    pasted = [session(f"s{n}", ("why does the build fail:\n[lint:go] x.go:1: bad", "So.")) for n in (1, 2)]
    assert find_insights(pasted, []).asked[0].sightings[0].words == "why does the build fail:"


def test_weak_words() -> None:
    """Choices and headless runs are no prompts of a person."""
    weak = session("s1", turn("Option B", kind=PromptKind.ANSWER), turn("review all", kind=PromptKind.HEADLESS))
    assert (find_insights([weak], []).prompts, find_insights([weak], []).asked) == (0, ())


@pytest.mark.parametrize(
    ("groups", "missing", "days"),
    [(0, 15, None), (1, 14, 42), (3, 12, 12), (14, 1, 1), (15, 0, 0), (40, 0, 0)],
    ids=str,
)
def test_how_much_a_verdict_still_takes(groups: int, missing: int, days: int | None) -> None:
    """Different requests are counted, and the days by the rate of the days with work; unknown without a task."""
    found = find_insights(SESSIONS, tasks(groups) if groups else [])
    assert (found.groups, found.groups_missing, found.days_missing) == (groups, missing, days)
    assert found.groups_needed == GROUPS_FOR_VERDICT == 15


def test_sessions_without_times() -> None:
    """Without times the forecast in days is unknown; everything else is reported."""
    found = find_insights([session("s1", turn("fix the lint in CI", "Done."), day="")], tasks(1))
    assert (found.active_days, found.first_day, found.days_missing) == (0, "", None)


def test_no_sessions() -> None:
    """Without sessions the insights are empty."""
    assert find_insights([], []) == Insights()


def test_five_hundred_sessions() -> None:
    """They take well under a second."""
    words = ("fuel", "valve", "engine", "tank", "sensor", "nozzle", "pump", "gyro", "antenna", "fairing")

    def made(number: int) -> Session:
        asks = [
            (f"explain how {words[n]} {number % 41} and the {words[(number + n) % 10]} work", "So.") for n in range(10)
        ]
        return session(f"s{number}", *asks)

    sessions = [made(number) for number in range(500)]
    started = time.process_time()
    assert find_insights(sessions, []).asked
    assert time.process_time() - started < 2
