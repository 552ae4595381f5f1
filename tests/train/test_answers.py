"""Scoring short answers: what is right, what is nearly right, and what could never be."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.train.answers import Expected, Scoring, compute_word_f1, find_final_answer, find_flaw, score_answer

CHOICES = {"A": "Paris", "B": "Rome", "C": "A cat"}


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ("Paris", "Paris"),
        ("I think so.\nAnswer: Paris", "Paris"),
        ("**Final answer:** Paris", "Paris"),
        ("<answer>x</answer> no: <answer> Paris </answer> done", "Paris"),
        ("  ", ""),
    ],
)
def test_final_answer_is_the_last_one(response, said):
    """Tags win over a label, a label over the whole text; the last of several counts."""
    assert find_final_answer(response).strip("* ") == said


RIGHT = {
    "exact, dressed up": (Scoring.EXACT, ("Paris",), "  the PARIS. "),
    "exact, one of several": (Scoring.EXACT, ("Pacific Ocean", "Pacific"), "pacific"),
    "exact, all punctuation": (Scoring.EXACT, ("++",), "++"),
    "exact, labelled": (Scoring.EXACT, ("42",), "Well.\nAnswer: 42"),
    "contains": (Scoring.CONTAINS, ("Paris",), "It is Paris, in France"),
    "f1": (Scoring.F1, ("the red old house",), "red house, old"),
    "regex": (Scoring.REGEX, (r"^\d{4}-\d\d$", r"(?i)may"), "In MAY"),
    "choice by letter": (Scoring.CHOICE, ("B",), "(b)"),
    "choice by text": (Scoring.CHOICE, ("Rome",), "I would say Rome"),
    "choice by option": (Scoring.CHOICE, ("B",), "The answer is B, since it is old"),
    "choice that begins with a letter": (Scoring.CHOICE, ("C",), "A cat"),
    "numeric with separators": (Scoring.NUMERIC, ("1234.5",), "the total is 1,234.50 USD"),
    "numeric, percent": (Scoring.NUMERIC, ("0.12",), "about 12 %"),
    "numeric, minus sign": (Scoring.NUMERIC, ("-7",), "x = \N{MINUS SIGN}7"),
    "numeric, power of ten": (Scoring.NUMERIC, ("-350",), "-3.5e2"),
}


@pytest.mark.parametrize(("scoring", "answers", "response"), RIGHT.values(), ids=RIGHT)
def test_right_answer_passes(scoring, answers, response):
    """A right answer scores 1 whatever surrounds it."""
    score = score_answer(response, Expected(answers=answers, scoring=scoring, choices=CHOICES))
    assert (score.hard, score.soft) == (1.0, 1.0)


WRONG = {
    "exact, too much": (Scoring.EXACT, ("Paris",), "Paris or Rome", 0.5),
    "exact, nothing": (Scoring.EXACT, ("Paris",), "", 0.0),
    "f1 below the mark": (Scoring.F1, ("one two three four",), "one two", 2 / 3),
    "regex": (Scoring.REGEX, (r"^\d+$",), "none", 0.0),
    "two choices named": (Scoring.CHOICE, ("B",), "It is Paris or Rome", 0.0),
    "the article A is no choice": (Scoring.CHOICE, ("A",), "A city in Italy", 0.0),
    "no number": (Scoring.NUMERIC, ("7",), "seven", 0.0),
    "another number": (Scoring.NUMERIC, ("7",), "7 or 8", 0.0),
}


@pytest.mark.parametrize(("scoring", "answers", "response", "soft"), WRONG.values(), ids=WRONG)
def test_wrong_answer_gets_a_soft_score(scoring, answers, response, soft):
    """Hard is 0, soft is the share of the words if words count, and the reason names both answers."""
    score = score_answer(response, Expected(answers=answers, scoring=scoring, choices=CHOICES))
    assert score.hard == 0.0
    assert score.soft == pytest.approx(soft)
    assert repr(answers[0]) in score.rationale


def test_tolerance_is_relative_above_one():
    """1 % of 200 is 2; below 1 the tolerance is absolute, so that 0 can be met."""
    near = Expected(answers=("200",), scoring=Scoring.NUMERIC, tolerance=0.01)
    assert score_answer("202", near).hard == 1
    assert score_answer("202.1", near).hard == 0
    assert score_answer("0.01", Expected(answers=("0",), scoring=Scoring.NUMERIC, tolerance=0.01)).hard == 1


def test_pattern_has_a_time_limit(monkeypatch):
    """A pattern that would run for ever does not match, and takes no more than its time limit."""
    monkeypatch.setattr("skillopt_sleep.model.json_schema.PATTERN_SECONDS", 0.05)
    started = time.monotonic()
    slow = Expected(answers=(r"(a|aa)+$",), scoring=Scoring.REGEX)
    assert score_answer("a" * 60 + "b", slow).hard == 0
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("scoring", "answers", "choices", "says"),
    [
        (Scoring.EXACT, (), {}, "no answer"),
        (Scoring.EXACT, (" ",), {}, "no answer"),
        (Scoring.REGEX, ("(",), {}, "not a regular expression"),
        (Scoring.CHOICE, ("A",), {}, "needs choices"),
        (Scoring.CHOICE, ("Oslo",), CHOICES, r"'Oslo' is none of its choices \(A: Paris"),
        (Scoring.NUMERIC, ("many",), {}, "'many' is not a number"),
    ],
)
def test_impossible_reference_is_reported(scoring, answers, choices, says):
    """A reference that no answer could meet is reported before anything is paid."""
    import re

    assert re.search(says, find_flaw(Expected(answers=answers, scoring=scoring, choices=choices)))


@given(st.text(max_size=40), st.text(max_size=40))
def test_f1_is_a_share_and_symmetric(a, b):
    """Between 0 and 1, the same both ways, 1 for equal texts."""
    assert 0 <= compute_word_f1(a, b) == compute_word_f1(b, a) <= 1
    assert compute_word_f1(a, a) == 1


@given(st.sampled_from(Scoring), st.text(min_size=1, max_size=30).filter(str.strip), st.text(max_size=60))
def test_any_answer_gets_a_score(scoring, answer, response):
    """No reply raises an exception; scores are between 0 and 1."""
    expected = Expected(answers=(answer,), scoring=scoring, choices=CHOICES)
    if not find_flaw(expected):
        score = score_answer(response, expected)
        assert score.hard in {0.0, 1.0}
        assert 0 <= score.soft <= 1


@pytest.mark.parametrize("response", ["<think>Answer: Rome</think>\nParis", "Answer: Rome? No.</think>Paris"])
def test_thoughts_are_not_scored(response):
    """Text in think tags is ignored, even a label in it."""
    assert score_answer(response, Expected(answers=("Paris",))).hard == 1
    assert score_answer(response, Expected(answers=("Rome",), scoring=Scoring.CONTAINS)).hard == 0


@pytest.mark.parametrize("gold", ["1,5", "May 5, 2024", "A0", "1 000", "12:30", "10/05/2024", "0,123", "5-7", "3/0"])
def test_reference_must_be_one_number(gold):
    """With several numbers, or one within a name, nobody knows which is meant."""
    assert repr(gold) in find_flaw(Expected(answers=(gold,), scoring=Scoring.NUMERIC))


@pytest.mark.parametrize("gold", ["3/4", "-7", "$1,234", "5 km", "12 %", ".5", "1e3"])
def test_numeric_reference_is_accepted(gold):
    """A sign, a currency, a unit or a fraction is fine, and the reference meets itself."""
    expected = Expected(answers=(gold,), scoring=Scoring.NUMERIC)
    assert find_flaw(expected) == ""
    assert score_answer(gold, expected).hard == 1


def test_fraction_is_its_value():
    """3/4 is 0.75 on either side, not 4; the year of a date is not a fraction."""
    for said, wanted, hard in [
        ("0.75", "3/4", 1),
        ("it is 3/4", "0.75", 1),
        ("3/4", "4", 0),
        ("10/05/2024", "2024", 1),
    ]:
        assert score_answer(said, Expected(answers=(wanted,), scoring=Scoring.NUMERIC)).hard == hard


def test_worked_sum_ends_with_its_number():
    """Datasets of worked sums put the number after four hashes at the end."""
    worked = Expected(answers=("48 / 2 = 24 clips in May.\nTogether 48 + 24 = 72.\n#### 72",), scoring=Scoring.NUMERIC)
    assert find_flaw(worked) == ""
    assert score_answer("She sold 72 clips.", worked).hard == 1
    assert score_answer("48 and 24\n#### 72", worked).hard == 1
    assert score_answer("#### Steps\nShe sold 24.", worked).hard == 0
