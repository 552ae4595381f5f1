"""How the stand-in answers. A mind decides from the request alone: ``Asked`` in, ``Said`` out, nothing remembered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.loopback.asked import Asked, Called

SCRIPTED = re.compile(r"\[\[call (\w+) (?=\{)")
TOKENS = (100, 20)
"""What an answer is said to have taken where nothing else is said."""
RULE = re.compile(r"RULE:\s*([^\n\"\\]+)")


@dataclass(frozen=True, kw_only=True)
class Said:
    """An answer: words, tool calls, or both. ``stop`` is end, refusal or length; ``took``: tokens read and written."""

    text: str = ""
    calls: tuple[Called, ...] = ()
    stop: str = "end"
    took: tuple[int, int] = TOKENS


Mind = Callable[[Asked], Said]


def follow(asked: Asked) -> Said:
    """Make the calls the user's words spell out, one a turn, then do as the last rule says that stands anywhere in it.

    A call is spelt ``[[call Bash {"command": "ls"}]]``, a rule ``RULE: answer with X``; without a rule the user's own
    words come back. Where a shape is asked for, it is filled in.
    """
    left = scripted(asked)[len(asked.results) :]
    if left and left[0].name in asked.tools:
        return Said(text=f"I call {left[0].name}.", calls=left[:1])
    if asked.schema is not None:
        return Said(text=json.dumps(filled(asked.schema)))
    rules = RULE.findall(asked.text)
    return Said(text=f"FOLLOWED: {rules[-1].strip()}" if rules else f"ECHO: {asked.user[-300:]}")


def simulated(world: str = "") -> Mind:
    """The simulated agent of the product in that world ("" = the demo's), whatever the way it is asked by."""
    from skillopt_sleep.backends.simulated import SimulatedBackend
    from skillopt_sleep.model.call import Prompt

    backend = SimulatedBackend(world=world)

    def mind(asked: Asked) -> Said:
        if "StructuredOutput" in {call.name for call in asked.calls}:
            return Said(text="done")
        return Said(text=backend.complete(Prompt(system=asked.system, user=asked.user, schema=asked.schema)).text)

    return mind


def scripted(asked: Asked) -> tuple[Called, ...]:
    """The calls that the user's words spell out."""
    words = "\n".join(text for role, text in asked.turns if role == "user")
    return tuple(
        Called(name=found[1], given=json.JSONDecoder().raw_decode(words, found.end())[0])
        for found in SCRIPTED.finditer(words)
    )


def filled(schema: dict) -> object:
    """The plainest value of a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: filled(each) for name, each in schema.get("properties", {}).items()}
    if kind == "array":
        return [filled(schema["items"])] if "items" in schema else []
    return {"string": "loopback", "integer": 1, "number": 0.5, "boolean": True, "null": None}[kind]
