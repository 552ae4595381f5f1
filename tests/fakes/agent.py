"""What ``claude`` and ``codex`` print: an answer of the simulated agent, or words of their own."""

from __future__ import annotations

import json

from skillopt_sleep.backends.simulated import SimulatedBackend
from skillopt_sleep.model.call import Prompt


def claude(call, world):
    """The answer to a call as ``claude -p --output-format json`` prints it."""
    argv = call["argv"]
    schema = argv[argv.index("--json-schema") + 1] if "--json-schema" in argv else "null"
    return claude_says(_answer(call, world, system=call["system"] or "", schema=schema))


def claude_says(text, **changes):
    """The line ``claude -p --output-format json`` prints."""
    line = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "api_error_status": None,
        "num_turns": 1,
        "result": text,
        "stop_reason": "end_turn",
        "total_cost_usd": 0.001,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }
    return json.dumps(line | changes) + "\n"


def codex(call, world):
    """The answer to a call as ``codex exec --json`` prints it."""
    return codex_says(_answer(call, world, system="".join(call["instructions"][:1]), schema=call["schema"] or "null"))


def codex_says(*texts, failed=""):
    """The events ``codex exec --json`` prints."""
    events = [{"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}]
    events += [{"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}} for text in texts]
    if failed:
        events += [{"type": "error", "message": failed}, {"type": "turn.failed", "error": {"message": failed}}]
    else:
        events.append({"type": "turn.completed", "usage": {"input_tokens": 100, "output_tokens": 20}})
    return "".join(json.dumps(event) + "\n" for event in events)


def _answer(call, world, *, system, schema):
    prompt = Prompt(system=system, user=call["stdin"], schema=json.loads(schema))
    return SimulatedBackend(world=world).complete(prompt).text
