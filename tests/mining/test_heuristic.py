"""Rules find the tasks a person would call theirs, and name what they leave."""

from __future__ import annotations

import random
import time

import pytest

from skillopt_sleep.mining.tasks import mine_heuristic
from skillopt_sleep.model.session import Session
from skillopt_sleep.model.task import ExactReference, Outcome, RubricReference, TaskRecord
from tests.fakes.sessions import session, turn


def mined(*turns: object) -> TaskRecord:
    """The one task of these turns."""
    (task,) = mine_heuristic([session("s1", *turns)]).tasks
    return task


def rubric(task: TaskRecord) -> str:
    """The rubric of a task."""
    assert isinstance(task.reference, RubricReference)
    return task.reference.rubric


ASK = "Write the release notes for rockets 2.4"


def test_a_corrected_request() -> None:
    """The task is what was asked, what was wrong, what was said about it, and what stood in the end."""
    task = mined(
        (ASK, "A long story."),
        ("not like that: a table that names the issues", "| issue |", "no"),
        ("yes", "", "ok"),
    )
    assert task.intent == ASK
    assert (task.rejected, task.accepted, task.outcome) == ("A long story.", "| issue |", Outcome.MIXED)
    assert task.feedback == ("not like that: a table that names the issues",)
    assert "\N{LEFT DOUBLE QUOTATION MARK}not like that: a table that names the issues" in rubric(task)
    assert "\N{LEFT DOUBLE QUOTATION MARK}| issue |" in rubric(task)
    assert task.project == "/home/ada/rockets"
    assert [(each.session_id, each.words, each.at) for each in task.origins] == [("s1", ASK, "2026-03-02T10:00:00Z")]


@pytest.mark.parametrize(
    ("turns", "outcome", "said"),
    [
        ([(ASK, "Notes."), ("perfect", "", "ok")], Outcome.SUCCESS, "approved"),
        ([(ASK, "Notes."), ("no, shorter", "Short.", "no")], Outcome.MIXED, "let stand"),
        ([(ASK, "Notes."), ("no, shorter", "", "no")], Outcome.FAIL, "no, shorter"),
        ([(ASK, "Notes.")], Outcome.UNKNOWN, "let stand"),
    ],
    ids=["approved", "corrected", "never right", "nothing said"],
)
def test_how_the_work_ended(turns: list[tuple[str, ...]], outcome: Outcome, said: str) -> None:
    """The outcome says it, and the rubric says what the person did with the answer."""
    task = mined(*turns)
    assert task.outcome is outcome
    assert said in rubric(task)


def test_a_request_of_several_sessions() -> None:
    """It is one task with an origin each time, told by the time that was corrected, with all that was said."""
    sessions = [
        session("s1", ("please draft a notice about the launch failure", "Drafted."), day="2026-03-01"),
        session(
            "s2",
            ("draft a notice: launch failure", "Done."),
            ("no, name the cause first", "Ran.", "no"),
            day="2026-03-05",
        ),
        session(
            "s3",
            ("a notice about the launch failure, draft one", "OK."),
            ("again: name the cause first", "Ran.", "no"),
            day="2026-03-09",
        ),
    ]
    (task,) = mine_heuristic(sessions).tasks
    assert task.intent == "draft a notice: launch failure"
    assert [origin.session_id for origin in task.origins] == ["s1", "s2", "s3"]
    assert task.feedback == ("no, name the cause first", "again: name the cause first")
    assert all(said in rubric(task) for said in task.feedback)


def test_an_approved_answer_that_is_a_literal() -> None:
    """It is compared literally; a report of work done, or an answer nobody approved, is not."""
    ask = "suggest a branch name for the parser work"
    approved = ("great", "", "ok")
    assert mined((ask, "`ada/date-parser`"), approved).reference == ExactReference(answer="ada/date-parser")
    for turns in (
        [(ask, "ada/date-parser")],
        [(ask, "Created the branch."), approved],
        [turn(ask, "ada/date-parser", tools=("Bash",)), approved],
    ):
        assert isinstance(mined(*turns).reference, RubricReference)


def test_a_request_that_points_at_the_answer_before_it() -> None:
    """It is no task: with nothing else at hand nobody knows what it is about."""
    sessions = [
        session(
            "s1",
            ("list all known engine troubles of March", "1. Valve."),
            ("explain these valve failures to our customers", "Dear all"),
        )
    ]
    assert [task.intent for task in mine_heuristic(sessions).tasks] == ["list all known engine troubles of March"]


def test_prompts_that_are_no_tasks() -> None:
    """Each is refused by name, with its session and the reason."""
    found = mine_heuristic(
        [session("s9", ("commit and push", "Pushed."), ("what is the launch code of rockets?", "7."))]
    )
    assert found.tasks == ()
    assert [(each.subject, each.words, each.why.split(";")[0][:10]) for each in found.refused] == [
        ("s9", "commit and push", "understand"),
        ("s9", "what is the launch code of rockets?", "a question"),
    ]


def test_a_target_skill() -> None:
    """Work in which it was invoked, and work about its name, stays; the rest is refused by name."""
    sessions = [
        session("s1", turn("summarise the launch of Monday", "Notes.", skills=("acme:release-notes",))),
        session("s2", ("write the release notes of rockets", "Notes.")),
        session("s3", ("draft a poem about rockets", "Fixed.")),
    ]
    found = mine_heuristic(sessions, target_skill="release-notes")
    assert [task.origins[0].session_id for task in found.tasks] == ["s1", "s2"]
    assert found.tasks[0].skill_hint == "acme:release-notes"
    assert [(each.subject, each.why) for each in found.refused] == [("s3", "not of the skill 'release-notes'")]


def test_mining_twice() -> None:
    """The same sessions give the same tasks, with the same names."""
    sessions = [
        session(f"s{n}", (f"explain how the {word} of rockets works", "It."))
        for n, word in enumerate(("fuel", "valve"))
    ]
    assert mine_heuristic(sessions) == mine_heuristic(sessions)
    assert len({task.id for task in mine_heuristic(sessions).tasks}) == 2


@pytest.mark.slow
def test_two_hundred_sessions() -> None:
    """They are mined in half a second."""
    sessions = [_long_session(number) for number in range(200)]
    started = time.process_time()
    assert len(mine_heuristic(sessions).tasks) > 100
    assert time.process_time() - started < 3


def _long_session(number: int) -> Session:
    dice = random.Random(number)
    syllables = [a + b for a in "bdfgklmnprst" for b in ("ar", "el", "in", "or", "ul")]
    turns = [
        ("explain how " + " ".join("".join(dice.choices(syllables, k=2)) for _ in range(5)) + " work", "So. " * 200)
        for _ in range(10)
    ]
    return session(f"s{number}", *turns)
