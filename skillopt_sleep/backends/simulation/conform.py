"""Make a value fit a JSON Schema, as structured output makes a model's reply fit."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from skillopt_sleep.model import Json

Schema = Mapping[str, Json]
SMALLEST: Mapping[str, Json] = {"string": "", "integer": 0, "number": 0.0, "boolean": False, "null": None}
PYTHON: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class _Nothing(Struct, frozen=True):
    """Stands for the absence of a value, because None is JSON's null."""


NOTHING = _Nothing()


def conform(value: Json, schema: Schema) -> Json:
    """Return ``value`` without what ``schema`` forbids, and with the smallest of what it requires.

    Knows the part of JSON Schema that providers accept for structured output; other keywords are ignored.
    """
    return _fit(value, schema, schema)


def list_properties(schema: Schema, *inside: str) -> tuple[str, ...]:
    """Return the property names of an object schema, also behind a top-level ``$ref``; () for any other.

    ``inside`` names the property whose own properties are meant.
    """
    found = _resolve(schema, schema).get("properties")
    for name in inside:
        inner = found.get(name) if isinstance(found, dict) else None
        found = inner.get("properties") if isinstance(inner, dict) else None
    return tuple(found) if isinstance(found, dict) else ()


def _resolve(schema: Schema, root: Schema) -> Schema:
    while isinstance(reference := schema.get("$ref"), str):
        target: Json = dict(root)
        for part in reference.removeprefix("#/").split("/"):
            target = target.get(part, {}) if isinstance(target, dict) else {}
        schema = target if isinstance(target, dict) else {}
    return schema


def _fit(value: Json | _Nothing, schema: Schema, root: Schema) -> Json:
    schema = _resolve(schema, root)
    if "const" in schema:
        return schema["const"]
    if isinstance(choices := schema.get("enum"), list) and choices:
        return value if not isinstance(value, _Nothing) and value in choices else choices[0]
    if variants := _list_variants(schema):
        fitted = [_fit(value, variant, root) for variant in variants]
        return next((choice for choice in fitted if _keeps(choice, value)), fitted[0])
    kind = _read_kind(schema)
    if kind == "object":
        return _fit_object(value if isinstance(value, dict) else {}, schema, root)
    if kind == "array":
        return _fit_array(value if isinstance(value, list) else [], schema, root)
    return _fit_scalar(value, kind, schema)


def _list_variants(schema: Schema) -> list[Schema]:
    """Return the alternatives of a union: ``anyOf``, ``oneOf``, or a list of types."""
    for keyword in ("anyOf", "oneOf"):
        if isinstance(found := schema.get(keyword), list):
            return [variant for variant in found if isinstance(variant, dict)]
    if isinstance(types := schema.get("type"), list):
        return [{**schema, "type": name} for name in types]
    return []


def _read_kind(schema: Schema) -> str:
    kind = schema.get("type")
    return kind if isinstance(kind, str) else "object" if "properties" in schema else "null"


def _keeps(fitted: Json, value: Json | _Nothing) -> bool:
    if isinstance(fitted, dict) and isinstance(value, dict):
        return all(name in fitted and fitted[name] == part for name, part in value.items())
    return fitted == value


def _fit_object(value: dict[str, Json], schema: Schema, root: Schema) -> Json:
    declared, required = schema.get("properties"), schema.get("required")
    declared = declared if isinstance(declared, dict) else {}
    required = required if isinstance(required, list) else []
    return {
        name: _fit(value.get(name, NOTHING), shape if isinstance(shape, dict) else {}, root)
        for name, shape in declared.items()
        if name in value or name in required
    }


def _fit_array(value: list[Json], schema: Schema, root: Schema) -> Json:
    shape, most, least = schema.get("items"), schema.get("maxItems"), schema.get("minItems")
    shape = shape if isinstance(shape, dict) else {}
    items = [_fit(item, shape, root) for item in value]
    if isinstance(least, int):
        items += [_fit(NOTHING, shape, root)] * (least - len(items))
    return items[:most] if isinstance(most, int) else items


def _fit_scalar(value: Json | _Nothing, kind: str, schema: Schema) -> Json:
    allowed = PYTHON.get(kind, ())
    fits = isinstance(value, allowed) and (kind == "boolean" or not isinstance(value, bool))
    chosen = value if fits and not isinstance(value, _Nothing) else SMALLEST.get(kind)
    if isinstance(chosen, (int, float)) and not isinstance(chosen, bool):
        return _clamp(chosen, schema)
    if isinstance(chosen, str) and isinstance(least := schema.get("minLength"), int):
        return chosen.ljust(least, ".")
    return chosen


def _clamp(number: float, schema: Schema) -> float:
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(least, (int, float)):
        number = max(number, least)
    return min(number, most) if isinstance(most, (int, float)) else number
