"""Twins are told to be twins, strangers are not, in good time."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.near_duplicates import MIN_SIMILARITY, SAME, group_near_duplicates, group_recurrences, similar
from skillopt_sleep.model.text import contains_words, excerpt, fold
from tests.wordings import WORDED

INTENTS = {
    "lint": (
        "fix the failing lint in CI",
        "CI lint is failing, fix it please",
        "the linter is red in CI again, can you repair it?",
        "please make the lint job in CI pass",
        "lint errors break our CI, sort them out",
        "get the CI lint check green",
    ),
    "release notes": (
        "write the release notes for 2.4",
        "draft release notes for version 2.4",
        "we need a changelog for 2.4, please write it",
        "can you put together the notes for the 2.4 release",
        "summarise the changes since 2.3 as release notes (2.4)",
        "prepare 2.4 release notes from the commits",
    ),
    "slow query": (
        "the orders query is slow, speed it up",
        "make the orders query faster",
        "optimise the slow query on orders",
        "improve performance of the orders query",
        "orders query takes too long, please optimize",
        "why is the orders query so slow? make it fast",
    ),
    "tests": (
        "add unit tests for the date parser",
        "write tests for the date parser",
        "the date parser has no tests, add some",
        "please cover the date parser with unit tests",
        "can you test the date parser properly (unit tests)",
        "date parser needs test coverage",
    ),
    "dependencies": (
        "update the dependencies to their latest versions",
        "bump all dependencies",
        "upgrade our deps to the newest versions",
        "dependencies are outdated, update them",
        "please bring the dependencies up to date",
        "can you bump the deps?",
    ),
    "translation": (
        "translate the README into German",
        "we need a German version of the README",
        "please write the readme in german too",
        "German translation of README.md",
        "can you translate readme to German?",
        "make a german README",
    ),
    "export": (
        "export the report as CSV",
        "add a CSV export to the report",
        "let users download the report as csv",
        "the report needs a csv export button",
        "implement exporting reports to CSV",
        "we want to export reports in csv format",
    ),
    "invoice": (
        "generate an invoice for ACME for March",
        "create the March invoice for ACME",
        "ACME needs its invoice for march",
        "make invoice for Acme, month of March",
        "write up the invoice to ACME (March)",
        "please prepare ACME's March invoice",
    ),
    "leak": (
        "find the memory leak in the worker",
        "the worker leaks memory, find out where",
        "memory usage of the worker keeps growing, investigate the leak",
        "track down the worker memory leak",
        "why does the worker eat more and more memory? there's a leak",
        "debug the memory leak in our worker process",
    ),
    "reply": (
        "write a reply to the angry customer email",
        "draft an answer to the customer's complaint email",
        "reply to the complaint from the customer by email",
        "help me answer this angry email from a customer",
        "compose a polite response to the customer complaint email",
        "customer complained by email, write back",
    ),
}
STRANGERS = (
    ("write the release notes for 2.4", "write a commit message for these changes"),
    ("make the docker image smaller", "fix the docker build"),
    ("update the dependencies to their latest versions", "update the README"),
    ("fix the failing lint in CI", "fix the failing tests on Windows"),
    ("translate the README into German", "fix the typos in the README"),
    ("the orders query is slow, speed it up", "add pagination to the orders list"),
    ("export the report as CSV", "write the weekly status report for the team"),
    ("explain this regular expression", "explain this function"),
)


def groups_of(texts: list[str]) -> dict[str, int]:
    """The group number of each text."""
    return dict(zip(texts, group_near_duplicates(texts), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_six_wordings_each_of_ten_intents_in_any_order(seed: int) -> None:
    """No twin is put apart and no two intents fall together."""
    texts = [wording for wordings in INTENTS.values() for wording in wordings]
    random.Random(seed).shuffle(texts)
    group = groups_of(texts)
    found = {name: {group[wording] for wording in wordings} for name, wordings in INTENTS.items()}
    assert {name: len(groups) for name, groups in found.items()} == dict.fromkeys(INTENTS, 1)
    assert len(set(group.values())) == len(INTENTS)


@pytest.mark.parametrize("seed", range(5))
def test_six_wordings_each_of_two_dozen_other_intents(seed: int) -> None:
    """No two intents fall together; of all wordings two are put apart, which say it in nobody else's words."""
    texts = [wording for wordings in WORDED.values() for wording in wordings]
    random.Random(seed).shuffle(texts)
    group = groups_of(texts)
    found = [{group[wording] for wording in wordings} for wordings in WORDED.values()]
    assert sum(map(len, found)) == len(set(group.values()))
    assert len(set(group.values())) <= len(WORDED) + 2


@pytest.mark.parametrize(("one", "other"), STRANGERS, ids=[f"{a[:12]}|{b[:12]}" for a, b in STRANGERS])
def test_requests_that_share_words_but_not_their_matter(one: str, other: str) -> None:
    """They are neither twins nor in one group."""
    assert similar(one, other) < MIN_SIMILARITY
    assert len(set(group_near_duplicates([one, other]))) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Fix the failing lint in CI!", "CI lint is failing, fix it please"),
        ("CI の lint を直してください", "CIのlintを直して"),
        ("修复登录页面的错误", "请修复登录页面的错误"),
        ("Исправь тесты парсера дат", "исправь, пожалуйста, тесты парсера дат"),
        ("Bitte die Abhängigkeiten aktualisieren", "die Abhängigkeiten aktualisieren"),
        ("translate the redame into german", "translate the readme into german"),
    ],
    ids=["english", "japanese", "chinese", "russian", "german", "slips"],
)
def test_the_same_request_in_several_languages(one: str, other: str) -> None:
    """It is known to be the same request made twice."""
    assert similar(one, other) >= SAME


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("please rate-limit the API endpoints", "add rate limiting to the public API"),
        ("the front-end build fails", "why is the frontend build broken?"),
        ("update package-lock.json", "regenerate the package lock"),
        ("send the e-mail digest", "email digest: send it"),
    ],
)
def test_words_with_a_hyphen(one: str, other: str) -> None:
    """They are known by their parts and written as one, for people write them all three ways."""
    assert similar(one, other) >= MIN_SIMILARITY


def test_requests_cut_to_one_pattern() -> None:
    """They may be near-duplicates, but each has a word of its own, so they are not one request made twice."""
    texts = [f"explain the {part} module of rockets" for part in ("fuel", "valve", "engine")]
    assert group_recurrences(texts) == (0, 1, 2)
    assert group_near_duplicates(texts) == (0, 0, 0)
    assert group_recurrences(["explain the fuel module", "please explain the fuel module of rockets again"]) == (0, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("把README翻译成英文", "把README翻译成法文"),
        ("修复登录页面的错误", "修复注册页面的错误"),
        ("写周报", "写日报"),
        ("READMEを英語に翻訳して", "READMEを仏語に翻訳して"),
    ],
)
def test_requests_that_differ_in_a_chinese_character(one: str, other: str) -> None:
    """They are not one request made twice: a character is half a word, and no slip of the pen."""
    assert group_recurrences([one, other]) == (0, 1)


@given(st.text(alphabet="abc de", max_size=24), st.text(alphabet="abc de", max_size=24))
def test_one_request_made_twice(one: str, other: str) -> None:
    """Whatever else it is, it is a near-duplicate."""
    if len(set(group_recurrences([one, other]))) == 1:
        assert len(set(group_near_duplicates([one, other]))) == 1


@given(st.text(max_size=200), st.text(max_size=200))
def test_similarity_of_any_two_texts(one: str, other: str) -> None:
    """It is symmetric, lies in [0, 1], and is 1 of a text with itself."""
    assert similar(one, other) == pytest.approx(similar(other, one))
    assert 0.0 <= similar(one, other) <= 1.0 + 1e-9
    assert similar(one, one) == pytest.approx(1.0)


@given(st.lists(st.text(alphabet="abc de", max_size=12), max_size=30))
def test_groups_of_any_texts(texts: list[str]) -> None:
    """Equal texts share a group, and numbers are given by first appearance."""
    groups = group_near_duplicates(texts)
    assert len({(text, group) for text, group in zip(texts, groups, strict=True)}) == len(set(texts))
    assert list(dict.fromkeys(groups)) == list(range(len(set(groups))))


REQUESTS = st.lists(st.sampled_from("lint report fuel tank tests release notes parser".split()), min_size=1, max_size=4)  # noqa: SIM905


@given(st.lists(REQUESTS.map(" ".join), max_size=16), st.randoms(use_true_random=False), st.integers(0, 16))
def test_groups_in_any_order_of_arrival(texts: list[str], dice: random.Random, seen: int) -> None:
    """Which texts share a group depends on no order; texts that come later leave known groups whole, and join twins."""
    for group in (group_near_duplicates, group_recurrences):
        shuffled = dice.sample(texts, len(texts))
        assert _partition(texts, group(texts)) == _partition(shuffled, group(shuffled))
        known = group(texts[:seen])
        later = group(texts, known)
        assert len(set(zip(known, later, strict=False))) == len(set(known))
        twins = [" ".join(reversed(text.split())) for text in texts]
        assert group(texts + twins, later)[len(texts) :] == later


def _partition(texts: list[str], numbers: tuple[int, ...]) -> set[frozenset[str]]:
    return {frozenset(text for text, at in zip(texts, numbers, strict=True) if at == one) for one in numbers}


def test_a_chain_of_small_steps() -> None:
    """It does not tie its ends together."""
    words = "alpha bravo delta hotel kilo lima oscar papa romeo sierra tango victor whisky yankee zulu".split()  # noqa: SIM905
    chain = [" ".join(words[i : i + 4]) for i in range(len(words) - 3)]
    groups = group_near_duplicates(chain)
    assert groups[0] != groups[-1]


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["different", "one intent in 5,000 wordings"])
def test_five_thousand_texts(shape: str) -> None:
    """They are grouped in two seconds (a quarter of that on an idle machine)."""
    dice = random.Random(7)
    vocabulary = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "bdfgklmnprst"]
    texts = [" ".join(dice.choices(vocabulary, k=9)) for _ in range(5000)]
    if shape != "different":
        texts = [f"fix issue {word} in the date parser" for word in texts]
    started = time.process_time()
    group_near_duplicates(texts)
    assert time.process_time() - started < 2


def test_a_quote_with_other_white_space_and_case() -> None:
    """It is found; an empty quote is not, anywhere."""
    assert contains_words("Please\n  use TABS,\tnever spaces", "use tabs, Never")
    assert not contains_words("Please use tabs", "use spaces")
    assert not contains_words("Please use tabs", " \n")
    assert fold("ﬁne  Straße") == "fine strasse"


@given(st.text(), st.integers(min_value=2, max_value=80))
def test_an_excerpt_of_any_text(text: str, limit: int) -> None:
    """It is one line, never longer than the limit, and ends in an ellipsis when something is left out."""
    short = excerpt(text, limit)
    assert len(short) <= limit
    assert short == " ".join(text.split()) or short.endswith("…")
