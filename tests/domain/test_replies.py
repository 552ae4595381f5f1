"""JSON is read out of whatever a model wraps around it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.domain.replies import extract_json

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_pure_json(value: object) -> None:
    """Any value is read back as it is, white space around it or not."""
    assert extract_json(f"\n {json.dumps(value)} \n") == value


@pytest.mark.parametrize(
    "text",
    [
        'Sure! Here it is:\n```json\n{"a": [1]}\n```\nAnything else?',
        '```\n{"a": [1]}\n```',
        'The list [1] is wrong, so: {"a": [1]} I hope this helps {x}.',
        'In {braces} first, then {"a": [1]}',
        '{"a": [1]}\n{"b": 2}',
    ],
    ids=["fence", "bare fence", "prose", "braces in prose", "two objects"],
)
def test_json_within_other_text(text: str) -> None:
    """The first whole object is found."""
    assert extract_json(text) == {"a": [1]}


def test_an_array_where_there_is_no_object() -> None:
    """It is found too."""
    assert extract_json("the edits: [1, 2], that is all") == [1, 2]


@pytest.mark.parametrize(
    "text",
    ["", "no idea", '{"a": ', "{'a': 1}", '{"a": NaN}', "[" * 100_000, '{"a":' * 20_000],
    ids=["empty", "prose", "cut off", "python", "not a number", "deep arrays", "deep objects"],
)
def test_text_without_json(text: str) -> None:
    """It is refused in one line, in good time."""
    with pytest.raises(ValueError, match="no JSON in a reply"):
        extract_json(text)
