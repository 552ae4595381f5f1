"""The subset of JSON Schema says what the full implementation says, and nothing outside it is let through."""

from __future__ import annotations

import time

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.json_schema import PATTERN_SECONDS, check_schema, find_violations, matches

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 1.5]) | st.sampled_from("ab")
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
types = st.sampled_from(["object", "array", "string", "boolean", "null", "number", "integer"])
leaf_schemas = st.fixed_dictionaries(
    {},
    optional={
        "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
        "const": scalars,
        "enum": st.lists(values, min_size=1, max_size=3),
        "minimum": st.integers(-2, 2),
        "maximum": st.integers(-2, 2),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "pattern": st.sampled_from(["a", "^b$"]),
        "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        "title": st.just("a title"),
    },
)
schemas = st.recursive(
    leaf_schemas,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": types,
            "items": inner,
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        },
    ),
    max_leaves=4,
)


@given(schemas, values)
def test_any_schema_of_the_subset(schema: dict[str, object], value: object) -> None:
    """A value conforms exactly when the reference implementation says so."""
    check_schema(schema)
    conforms = next(find_violations(value, schema), None) is None
    assert conforms == jsonschema.Draft202012Validator(schema).is_valid(value)


def test_a_value_that_does_not_conform() -> None:
    """Each violation says where it is and what is wrong there."""
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["title", "tags"],
        "properties": {
            "title": {"type": "string", "maxLength": 3},
            "tags": {"type": "array", "items": {"enum": ["a"]}},
        },
    }
    assert list(find_violations({"title": "long", "tags": ["a", "b"], "x": 1}, schema)) == [
        "the length of answer.title is 4, more than 3",
        "answer.tags[1] is none of ['a']",
        "answer must not have 'x'",
    ]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "Expected `object`, got `array`"),
        ({"$ref": "#/x"}, r"unknown field `\$ref`; known are type, properties"),
        ({"items": [{}]}, r"Expected `object`, got `array` - at `\$\.items`"),
        ({"properties": {"a": 1}}, r"Expected `object`, got `int` - at `\$\.properties"),
        ({"minLength": True}, r"Expected `int`, got `bool` - at `\$\.minLength`"),
        ({"pattern": "("}, r"the pattern '\(' is not a regular expression"),
        ({"type": []}, r"length >= 1 - at `\$\.type`"),
    ],
    ids=["array", "reference", "tuple", "inner", "true", "pattern", "no type"],
)
def test_a_schema_outside_the_subset(schema: object, message: str) -> None:
    """It is refused, naming the place."""
    with pytest.raises(ValueError, match=message):
        check_schema(schema)


def test_a_schema_nested_without_end() -> None:
    """It is refused before anything runs out of stack."""
    schema: dict[str, object] = {}
    for _ in range(100_000):
        schema = {"items": schema}
    with pytest.raises(ValueError, match="levels deep"):
        check_schema(schema)
    while schema:  # taken apart from outside, for Python itself unwinds such a value by recursion
        schema = schema["items"]


@pytest.mark.slow
def test_a_pattern_that_would_run_for_ever() -> None:
    """It is stopped after its time and counts as not found."""
    started = time.monotonic()
    assert not matches(r"(x+x+)+y", "x" * 3000)
    assert time.monotonic() - started < PATTERN_SECONDS + 5  # for ever, but for the limit
