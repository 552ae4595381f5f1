"""How the simulated agent reads a prompt."""

from __future__ import annotations

import pytest

from skillopt_sleep.backends.simulated_world import (
    find_last_line,
    find_occurrences,
    find_owner,
    find_tagged,
    split_statements,
)


def test_statement_is_a_bullet_with_its_indented_lines():
    """Phrases on two lines of one bullet belong together; those of two bullets, or of plain lines, do not."""
    text = "# Rules\n- Dates\n  as YYYY\n\n- Amounts\nplain\n  indented\n  12. Names"
    assert split_statements(text) == ("# rules", "- dates as yyyy", "- amounts", "plain", "indented", "12. names")


def test_occurrence_is_found_across_case_and_white_space():
    """A phrase that was wrapped is found, and comes back in the exact words of the text."""
    (found,) = find_occurrences("No, like THAT.", "x\nno, like\n  that. y")
    assert (found.start, found.end, found.words) == (2, 18, "no, like\n  that.")


def test_empty_phrase_occurs_nowhere():
    """Nothing to look for is not found everywhere."""
    assert [*find_occurrences(" ", "some text")] == []


def test_tagged_words_stand_between_tags_with_a_telling_name():
    """Attributes and longer names count; an other tag does not."""
    text = '<the-developer-said n="1">\nNo.\n</the-developer-said> <asked>Why?</asked> <feedback>Yes</feedback>'
    assert [each.words for each in find_tagged(text, "said", "feedback")] == ["No.", "Yes"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param('<request id="a1"> x', "a1", id="tag"),
        pytest.param('<request id="a1"/><request id="b2"> x', "b2", id="the nearest tag"),
        pytest.param('<request id="a1"> request 42: x', "a1", id="a tag before any label"),
        pytest.param("Request id: r-17\nx", "r-17", id="label"),
        pytest.param("the request was x", "", id="prose"),
        pytest.param('<session id="s1"> x', "", id="other kind"),
    ],
)
def test_owner_is_the_nearest_id_of_its_kind(text, found):
    """A passage belongs to the tag or label above it."""
    assert find_owner(text, text.index("x"), "request", "task") == found


def test_last_line_skips_what_only_delimits():
    """Closing tags and fences at the end say nothing."""
    assert find_last_line("Do this.\nAnd that.\n```\n</request>\n\n") == "And that."
