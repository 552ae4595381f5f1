"""Checks diagnostics against their published schema, which is read once."""

from __future__ import annotations

import functools

from jsonschema import Draft202012Validator

from skillopt_sleep.reports.page import build_schema


@functools.cache
def _validator():
    """Return the validator; `jsonschema.validate` would first check the schema itself, which takes a second."""
    return Draft202012Validator(build_schema())


def check_schema(found):
    """Raise `jsonschema.ValidationError` for diagnostics that do not fit the schema."""
    _validator().validate(found)
