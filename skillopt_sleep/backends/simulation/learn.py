"""What the simulated optimizer replies when a skill is trained: merges, rankings, guidance and notes.

Like the rest of the simulated agent it uses what stands in the prompt and nothing else: two edits mean the same when
they state the same rule of its world, guidance is written where a good and a bad answer can be compared, and what is
better is not known to it: it ranks by how many analysts said a thing.

Make a value fit a JSON Schema, as structured output makes a model's reply fit.

It knows the part of JSON Schema that providers accept for structured output; a keyword beyond it is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from skillopt_sleep.backends.simulation.play import Luck, Traits, swapped, written_about
from skillopt_sleep.backends.simulation.world import World, occurrences, tagged
from skillopt_sleep.model import Json
from skillopt_sleep.model.text import fold

MOST_GUIDANCE = 4
"""Rules that one guidance holds."""
MOST_NOTES = 12
"""Rejected edits that one set of notes holds."""

_NUMBERED = re.compile(r"^(?P<number>\d+)\.\s(?P<head>.*(?:\n\s+\S.*)*)", re.MULTILINE)
_SUPPORT = re.compile(r"\bproposed (\d+) x")
_TEXT = re.compile(r"^\s+text: (?P<text>.*)$", re.MULTILINE)
_BETWEEN = re.compile(r"\bfrom (\d+) to (\d+)\b")
_STEP = re.compile(r"\bstep \d+:")
_REJECTED = re.compile(r"\breject", re.IGNORECASE)


def merge_edits(world: World, text: str) -> dict[str, Json]:
    """Groups of edits that state the same rule, or hold the same other text of the world."""
    groups: dict[str, list[int]] = {}
    wordings: dict[str, str] = {}
    for number, edit in _numbered(text):
        for known in _known(world, edit):
            groups.setdefault(known, []).append(number)
            wordings.setdefault(known, known)
    same: list[Json] = [
        {"same": [*numbers], "text": wordings[known]} for known, numbers in groups.items() if len(numbers) > 1
    ]
    return {"groups": same}


def rank_edits(text: str) -> dict[str, Json]:
    """The edits by how often they were proposed; as many of them as more than one analyst proposed."""
    support = {number: int(found[1]) if (found := _SUPPORT.search(edit)) else 1 for number, edit in _numbered(text)}
    ranking = sorted(support, key=lambda number: (-support[number], number))
    asked = _BETWEEN.search(text)
    least, most = (int(asked[1]), int(asked[2])) if asked else (1, len(ranking))
    seconded = sum(1 for count in support.values() if count > 1)
    return {"ranking": [*ranking], "budget": max(least, min(most, seconded))}


def write_guidance(world: World, text: str, traits: Traits, luck: Luck) -> dict[str, Json]:
    """The rules that the cases tell of and the document does not state, and those of the guidance so far."""
    kept = [
        rule.text for rule in world.rules for each in tagged(text, "guidance") if fold(rule.text) in fold(each.words)
    ]
    document = fold("\n".join(each.words for each in tagged(text, "document")))
    learnt = [rule for rule in written_about(world, text) if fold(rule) not in document]
    lines: dict[str, None] = dict.fromkeys(kept)
    for number, rule in enumerate(learnt):
        lines[swapped(world, rule, number, traits, luck) or rule] = None
    return {"guidance": "\n".join(f"- {line}" for line in [*lines][:MOST_GUIDANCE])}


def write_notes(world: World, text: str) -> dict[str, Json]:
    """What was rejected, so that it is not tried again; and what earlier notes said of that."""
    tried = [
        known
        for step in _STEP.split(" ".join(each.words for each in tagged(text, "history")))
        if _REJECTED.search(step)
        for known in _known(world, step)
    ]
    before = [known for each in tagged(text, "notes") for known in _known(world, each.words)]
    accepted = {
        known
        for step in _STEP.split(" ".join(each.words for each in tagged(text, "history")))
        if not _REJECTED.search(step)
        for known in _known(world, step)
    }
    noted = [known for known in dict.fromkeys([*before, *tried]) if known not in accepted]
    return {"notes": "\n".join(f"- Rejected before: {known}" for known in noted[-MOST_NOTES:])}


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """The edits of a prompt, by their number; their text alone where it is marked."""
    edits = next((each.words for each in tagged(text, "edits")), text)
    for match in _NUMBERED.finditer(edits):
        marked = _TEXT.search(match["head"])
        support = _SUPPORT.search(match["head"])
        yield int(match["number"]), f"{support[0] if support else ''} {marked['text'] if marked else match['head']}"


def _known(world: World, text: str) -> list[str]:
    """The rules of the world, and its harmful and useless ones, that a text holds word for word."""
    every: Mapping[str, None] = dict.fromkeys(
        [*(rule.text for rule in world.rules), *(rule.text for rule in world.harmful), *world.useless]
    )
    return [known for known in every if any(True for _ in occurrences(known, text))]


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
    """No value at all, which ``None`` cannot say: JSON has a null."""


NOTHING = _Nothing()


def conform(value: Json, schema: Schema) -> Json:
    """``value`` with what ``schema`` forbids left out and what it requires filled in, as small as it allows."""
    return _fit(value, schema, schema)


def properties(schema: Schema) -> tuple[str, ...]:
    """The property names of an object schema, also of one behind a top-level ``$ref``; () for any other."""
    found = _resolve(schema, schema).get("properties")
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
    if variants := _variants(schema):
        fitted = [_fit(value, variant, root) for variant in variants]
        return next((each for each in fitted if _keeps(each, value)), fitted[0])
    kind = _kind(schema)
    if kind == "object":
        return _fit_object(value if isinstance(value, dict) else {}, schema, root)
    if kind == "array":
        return _fit_array(value if isinstance(value, list) else [], schema, root)
    return _fit_scalar(value, kind, schema)


def _variants(schema: Schema) -> list[Schema]:
    """The alternatives of a union, whichever way it is written."""
    for keyword in ("anyOf", "oneOf"):
        if isinstance(found := schema.get(keyword), list):
            return [each for each in found if isinstance(each, dict)]
    if isinstance(types := schema.get("type"), list):
        return [{**schema, "type": each} for each in types]
    return []


def _kind(schema: Schema) -> str:
    kind = schema.get("type")
    return kind if isinstance(kind, str) else "object" if "properties" in schema else "null"


def _keeps(fitted: Json, value: Json | _Nothing) -> bool:
    if isinstance(fitted, dict) and isinstance(value, dict):
        return all(name in fitted and fitted[name] == each for name, each in value.items())
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
    items = [_fit(each, shape, root) for each in value]
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
