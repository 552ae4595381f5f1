"""JSON is read out of whatever a model wraps around it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.replies import extract_json, strip_thinking

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
    with pytest.raises(ValueError, match="the reply has no JSON"):
        extract_json(text)


@pytest.mark.parametrize(
    "text",
    [
        '<think>Perhaps {"a": [0], "b": 1}?</think>\n{"a": [1]}',
        '<thinking>\n{"a": [0], "b": 1}\n</thinking>\n```json\n{"a": [1]}\n```',
        'so {"a": [0], "b": 1} it is\n</think>\n\n{"a": [1]}',
        '<think>a <think> b</think> {"q": "long enough"} </think> {"a": [1]}',
        '<think> without an end {"a": [1]}',
    ],
    ids=["think", "thinking", "remainder", "nested", "never closed"],
)
def test_json_after_thoughts(text: str) -> None:
    """What was thought is no answer, however much JSON is in it."""
    assert extract_json(text) == {"a": [1]}


@pytest.mark.parametrize("text", ['{"t": "a </think> b"}', 'Here: {"t": "a </think> b"} ok'])
def test_json_that_speaks_of_the_tag(text: str) -> None:
    """A string of the JSON may name the tag."""
    assert extract_json(text) == {"t": "a </think> b"}


def test_text_without_its_thoughts() -> None:
    """Blocks and remainders go; a tag within a sentence stays."""
    assert strip_thinking("<think>no</think>\n\nyes") == "yes"
    assert strip_thinking("no</think>\nyes") == "yes"
    assert strip_thinking("write <think> and </think> in pairs") == "write <think> and </think> in pairs"
    assert strip_thinking("<think>no end") == "<think>no end"
    assert strip_thinking("the tag is </think>") == "the tag is </think>"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "line\nbreak\there"}', {"a": "line\nbreak\there"}),
        ('{"a": [1, 2,], "b": ",}",}', {"a": [1, 2], "b": ",}"}),
        ('so: {"edits": [{"op": "append"},],} done', {"edits": [{"op": "append"}]}),
    ],
    ids=["control characters", "trailing commas", "trailing commas in prose"],
)
def test_slips_that_leave_no_doubt(text: str, value: object) -> None:
    """They are read over, and nothing inside a string is changed."""
    assert extract_json(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('example: {} then {"edits": [1]}', {"edits": [1]}),
        ('like {"a": 1}: {"edits": [{"op": "append"}]}', {"edits": [{"op": "append"}]}),
        ('the edits: [{"op": "a"}, {"op": "b"}]', [{"op": "a"}, {"op": "b"}]),
    ],
)
def test_largest_piece_is_meant(text: str, value: object) -> None:
    """Neither an example before it nor a piece inside it."""
    assert extract_json(text) == value


@pytest.mark.parametrize("text", ['{"edits": [{"op": "a"}, {"op"', '{"edits": [{"op": "a"}] oops}', '{"a": 1e999}'])
def test_fragment_of_damaged_json(text: str) -> None:
    """It is not taken for the whole; nor is a number that no float holds."""
    with pytest.raises(ValueError, match="the reply has no JSON"):
        extract_json(text)
