"""Which items ask the same: the question decides, whatever the answers; templates stay apart."""

from __future__ import annotations

import pytest

from skillopt_sleep.train.datasets import SPLITS, split_items
from skillopt_sleep.train.splits import group_numbers


def item(question, answer, **more):
    return {"question": question, "answers": [answer], **more}


SAME = {
    "other spelling of the answer": (
        item("Who wrote Hamlet?", "Shakespeare"),
        item("Who wrote Hamlet?", "William Shakespeare"),
    ),
    "conflicting answers": (item("Is water wet?", "yes"), item("is water wet", "no")),
    "something in front": (
        item("Translate to German: I would like a cup of coffee please", "Ich"),
        item("Task 4711. Translate to German: I would like a cup of coffee please", "Ja"),
    ),
    "a number in words": (
        item("Summarise the sales report of the north in two lines", "a"),
        item("Summarize the sales report of the north in 2 lines.", "b"),
    ),
    "choices shuffled": (
        item("Which is true?", "A", choices=["a", "b"]),
        item("Which is true?", "B", choices=["b", "a"]),
    ),
    "context alike": (
        item("Which colour?", "red", context="A ball, red."),
        item("Which colour?", "Red!", context="A ball red"),
    ),
}
OTHER = {
    "other figures": (item("Total of invoice 12?", "3"), item("Total of invoice 13?", "3")),
    "rows of their own": (
        item("What is the total?", "1", ledger=[{"a": 1}]),
        item("What is the total?", "2", ledger=[{"a": 2}]),
    ),
    "another name": (item("What is the capital of France?", "x"), item("What is the capital of Spain?", "y")),
    "another sign": (item("What is 3 + 4?", "7"), item("What is 3 - 4?", "-1")),
    "another order": (item("Is A larger than B?", "yes"), item("Is B larger than A?", "no")),
    "opposites": (item("Is A larger than B?", "yes"), item("Is A smaller than B?", "no")),
    "one word more": (item("Is water wet?", "yes"), item("Is salt water wet?", "no")),
    "other choices": (item("Which is true?", "A", choices=["a", "b"]), item("Which is true?", "A", choices=["c", "d"])),
    "another context": (
        item("Which colour?", "x", context="A red ball."),
        item("Which colour?", "y", context="A blue box."),
    ),
    "another picture": (item("What is it?", "a cat", image="1.png"), item("What is it?", "a dog", image="2.png")),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_same_question_is_never_in_two_splits(one, other):
    """This holds among 60 other items, with any seed."""
    others = [item(f"Explain theme {n} by way of {'abcdefgh'[n % 8]}{n * 13}", f"z{n}", id=f"o{n}") for n in range(60)]
    for seed in range(12):
        dealt = split_items([one | {"id": "A"}, other | {"id": "B"}, *others], "1:1:1", seed=seed)
        homes = {each["id"]: split for split in SPLITS for each in dealt[split]}
        assert homes["A"] == homes["B"]


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER)
def test_different_questions_are_not_grouped(one, other):
    """Templates differ in figures, names, order, or material."""
    assert len(set(group_numbers([one, other]))) == 2


@pytest.mark.slow
def test_shared_instruction_is_not_a_repetition():
    """Items of one form stay apart, however short their own text is, and thousands are grouped quickly."""
    head = "Say whether this message of a customer is friendly or not, in one word:"
    items = [item(f"{head} {word}{number}", "yes") for number in range(700) for word in ("bell", "tyre", "chain")]
    assert len(set(group_numbers(items))) == 2100
