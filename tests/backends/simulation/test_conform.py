"""Fitting a value into a JSON Schema, as structured output does."""

from __future__ import annotations

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.backends.simulation.conform import conform, list_properties

ITEM = {
    "type": "object",
    "additionalProperties": False,
    "required": ["kind", "size", "note"],
    "properties": {
        "kind": {"type": "string", "enum": ["small", "large"]},
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "note": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]},
        "extra": {"type": ["boolean", "null"]},
    },
}
SCHEMA = {
    "$ref": "#/$defs/Order",
    "$defs": {
        "Item": ITEM,
        "Order": {
            "type": "object",
            "additionalProperties": False,
            "required": ["items", "share", "tag"],
            "properties": {
                "items": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"$ref": "#/$defs/Item"}},
                "share": {"type": "number", "minimum": 0, "maximum": 1},
                "tag": {"const": "order"},
            },
        },
    },
}
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["items", "share", "tag", "kind", "size", "note"]), inner)
    ),
    max_leaves=12,
)


@given(value=VALUES)
def test_any_value_is_made_to_fit(value):
    """Whatever goes in, what comes out is valid under the schema."""
    VALIDATOR.validate(conform(value, SCHEMA))


def test_value_that_fits_is_left_as_it_is():
    """Nothing is lost of a value that is valid already."""
    value = {"items": [{"kind": "large", "size": 3, "note": None, "extra": True}], "share": 0.5, "tag": "order"}
    assert conform(value, SCHEMA) == value


def test_missing_is_filled_and_forbidden_left_out():
    """A required field gets the smallest value there is, an unknown one disappears."""
    assert conform({"items": [], "colour": "red"}, SCHEMA) == {
        "items": [{"kind": "small", "size": 1, "note": ".."}],
        "share": 0,
        "tag": "order",
    }


def test_union_keeps_the_variant_that_keeps_the_value():
    """Of several alternatives the first that loses nothing is taken."""
    exact = {"type": "object", "properties": {"kind": {"const": "exact"}, "answer": {"type": "string"}}}
    rubric = {"type": "object", "properties": {"kind": {"const": "rubric"}, "rubric": {"type": "string"}}}
    value = {"kind": "rubric", "rubric": "short"}
    assert conform(value, {"anyOf": [exact, rubric]}) == value


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        pytest.param(SCHEMA, ("items", "share", "tag"), id="behind a reference"),
        pytest.param(ITEM, ("kind", "size", "note", "extra"), id="outright"),
        pytest.param({"type": "string"}, (), id="no object"),
        pytest.param({"$ref": "#/$defs/Gone"}, (), id="reference to nothing"),
    ],
)
def test_property_names_of_a_schema(schema, names):
    """The properties asked for are read off the schema, through a reference too."""
    assert list_properties(schema) == names
