"""Quoted text cannot get out of its quotes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.replies import escape_tags, make_tag_suffix


@given(st.text(alphabet="< />ANSWERanswer-\n1", max_size=40))
def test_any_text(text: str) -> None:
    """Nothing that looks like the tag is left, and nothing else is changed."""
    disarmed = escape_tags(text, "answer")
    assert not re.search(r"<[\s/]*answer\b", disarmed, re.IGNORECASE)
    assert disarmed.replace("\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", "<") == text


@pytest.mark.parametrize("text", ["<answers>", "<b>", "a < answer1", "1 <answering"], ids=str)
def test_what_is_no_tag_of_ours(text: str) -> None:
    """It stays as it is."""
    assert escape_tags(text, "answer") == text


def test_a_seal() -> None:
    """It depends on every text, also on where one ends and the next begins, and takes lone surrogates."""
    assert (
        len(
            {make_tag_suffix("a", "b"), make_tag_suffix("ab", ""), make_tag_suffix("a", "c"), make_tag_suffix("\ud800")}
        )
        == 4
    )
    assert make_tag_suffix("a", "b") == make_tag_suffix("a", "b")
