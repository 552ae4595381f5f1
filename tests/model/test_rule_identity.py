"""A rule is known again in other words, and its denial is another rule."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord
from skillopt_sleep.model.rules import contradicts, count_touched, find_contradicted, is_same_rule, states_same
from skillopt_sleep.model.task import RubricReference, TaskRecord


def edit(text, op=EditOp.APPEND, anchor="", document=DocumentKind.SKILL):
    return EditRecord(id=f"{op}{text}", op=op, document=document, text=text, anchor=anchor)


SAME = [
    ("Run the linter before you commit.", "Before committing, always run the linter."),
    ("Never push to main.", "Do not push to main"),
    ("Write the tests first.", "write tests first"),
    ("Don't forget to update the changelog.", "Update the changelog."),
    ("Ask before deleting files.", "Ask me first before you remove a file."),
    ("Write a test for each fix.", "Add a test for each fix."),
    ("Update the changelog with every change.", "Add to the changelog with every change."),
    ("Ask before deleting or moving files.", "Ask before moving or deleting files."),
]
OPPOSED = [
    ("Always push to main.", "Never push to main."),
    ("Run the linter before the commit.", "Run the linter after the commit."),
    ("Keep lines under 80 characters.", "Keep lines under 100 characters."),
    ("Use pytest with coverage.", "Use pytest without coverage."),
    ("提交前运行测试", "提交前不运行测试"),
    ("Use uv instead of pip.", "Use pip instead of uv."),
    ("Prefer httpx over requests.", "Prefer requests over httpx."),
    ("Put the tests before the docs in a commit.", "Put the docs before the tests in a commit."),
    ("Indent with tabs, not blanks.", "Indent with blanks, not tabs."),
]
OTHER = [
    ("Run the linter before you commit.", "Ask before you delete a file."),
    ("Use uv for Python packages.", "Answer in German."),
    ("Keep lines under 100 characters.", "Keep lines short."),
    ("Ask before deleting files.", "Ask before renaming files."),
    ("Ask before you rename files.", "Ask before you move files."),
    ("Ask before you push.", "Ask before you commit."),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same_rule_in_other_words(one, other):
    """It is one rule, in either order and in any document, and no contradiction."""
    assert states_same(one, other)
    assert states_same(other, one)
    assert not contradicts(one, other)
    assert is_same_rule(edit(one), edit(other, document=DocumentKind.MEMORY))


@pytest.mark.parametrize(("one", "other"), OPPOSED)
def test_changed_negation_number_or_direction(one, other):
    """It is another rule, and it contradicts the first one."""
    assert not states_same(one, other)
    assert contradicts(one, other)
    assert contradicts(other, one)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_different_rules(one, other):
    """They are neither the same nor opposed."""
    assert not states_same(one, other)
    assert not contradicts(one, other)


def test_rule_that_replaces_its_opposite_contradicts_nothing():
    """Whoever replaces a rule says so; whoever appends its denial does not."""
    live = ["- Be brief.", "- Always push to main."]
    assert find_contradicted(edit("Never push to main."), live) == "- Always push to main."
    assert find_contradicted(edit("Never push to main.", EditOp.REPLACE, "Always push to main."), live) == ""
    assert find_contradicted(edit("", EditOp.DELETE, "Always push to main."), live) == ""


def test_rules_of_one_lesson_may_differ_more():
    """Written from a common task, near-duplicates are one rule; without it they are two."""
    one, other = edit("Keep lines under 100 characters."), edit("Lines must stay under 100 characters.")
    assert not is_same_rule(one, other)
    assert is_same_rule(replace(one, task_ids=("a", "b")), replace(other, task_ids=("b",)))
    shorter = edit("Lines must stay under 80 characters.")
    assert not is_same_rule(replace(one, task_ids=("a", "b")), replace(shorter, task_ids=("b",)))


def test_deletion_is_no_rule():
    """Deleting a rule and stating it are two things."""
    assert not is_same_rule(edit("", EditOp.DELETE, "Be brief."), edit("Be brief."))


def test_words_that_a_rule_shares_with_a_task():
    """Only words with a meaning of their own count."""
    for intent, rubric, shared in (
        ("Commit the parser, please", "It is short.", 1),
        ("What is the capital of France?", "It is short.", 0),
        ("Go on.", "The linter ran.", 1),
    ):
        task = TaskRecord(id="t", intent=intent, reference=RubricReference(rubric=rubric))
        assert count_touched("Run the linter before you commit.", task) == shared
