"""An answer in the words of each API, as one JSON body or as a stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

from tests.loopback.asked import STRUCTURED, Asked
from tests.loopback.minds import Said

Event = tuple[str, dict[str, object]]
"""Name and data of one event; a stream may be cut before any of them."""

CACHED = 10
"""Of the tokens read, those that every answer is said to have found in a cache."""


def _id(kind: str) -> str:
    return f"{kind}_{uuid4().hex[:20]}"


# --- Anthropic ----------------------------------------------------------------------------------------------------


def message(asked: Asked, said: Said) -> dict[str, object]:
    """An answer of the Messages API."""
    blocks: list[dict[str, object]] = [{"type": "text", "text": said.text}] if said.text else []
    wanted = STRUCTURED in asked.tools and asked.schema is not None and not said.calls and said.text
    if wanted:
        blocks = [{"type": "tool_use", "id": _id("toolu"), "name": STRUCTURED, "input": json.loads(said.text)}]
    blocks += [{"type": "tool_use", "id": _id("toolu"), "name": call.name, "input": call.given} for call in said.calls]
    stop = {"end": "end_turn", "refusal": "refusal", "length": "max_tokens"}[said.stop]
    return {
        "id": _id("msg"),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": blocks,
        "stop_reason": "tool_use" if wanted or said.calls else stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": said.took[0] - CACHED,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": CACHED,
            "output_tokens": said.took[1],
        },
    }


def message_events(asked: Asked, said: Said) -> Iterator[Event]:
    """The same as a stream."""
    whole = message(asked, said)
    usage = {**whole["usage"], "output_tokens": 1}
    yield (
        "message_start",
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "usage": usage}},
    )
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": start}
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": ending, "usage": {"output_tokens": said.took[1]}}
    yield "message_stop", {"type": "message_stop"}


def message_failure(body: dict[str, object]) -> Iterator[Event]:
    """An error in the middle of a stream."""
    yield "error", body


# --- OpenAI Responses ---------------------------------------------------------------------------------------------


def response(asked: Asked, said: Said) -> dict[str, object]:
    """An answer of the Responses API."""
    custom = {tool.get("name") for tool in asked.body.get("tools") or [] if tool.get("type") == "custom"}
    items: list[dict[str, object]] = []
    if said.text and not said.calls:
        kind = "refusal" if said.stop == "refusal" else "output_text"
        part = {"type": kind, "refusal" if kind == "refusal" else "text": said.text}
        part |= {} if kind == "refusal" else {"annotations": []}
        items.append(
            {"type": "message", "id": _id("msg"), "role": "assistant", "status": "completed", "content": [part]}
        )
    for call in said.calls:
        given = {"call_id": _id("call"), "name": call.name, "status": "completed"}
        if call.name in custom:
            items.append({"type": "custom_tool_call", "id": _id("ctc"), "input": call.given["input"], **given})
        else:
            items.append({"type": "function_call", "id": _id("fc"), "arguments": json.dumps(call.given), **given})
    cut = said.stop == "length"
    return {
        "id": _id("resp"),
        "object": "response",
        "created_at": int(asked.at),
        "model": asked.model,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": items,
        "usage": {
            "input_tokens": said.took[0],
            "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens": said.took[1],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sum(said.took),
        },
    }


def response_events(asked: Asked, said: Said) -> Iterator[Event]:
    """The same as a stream."""
    whole = response(asked, said)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"type": "response.created", "response": begun}
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index}
        empty = {"content": []} if item["type"] == "message" else {}
        added = {**item, "status": "in_progress", **empty}
        yield "response.output_item.added", {"type": "response.output_item.added", **place, "item": added}
        if item["type"] == "message":
            delta = {"item_id": item["id"], "content_index": 0, "delta": said.text}
            yield "response.output_text.delta", {"type": "response.output_text.delta", **place, **delta}
        yield "response.output_item.done", {"type": "response.output_item.done", **place, "item": item}
    ending = f"response.{whole['status']}"
    yield ending, {"type": ending, "response": whole}


def response_failure(body: dict[str, object]) -> Iterator[Event]:
    """A response that fails half way."""
    failed = {"id": _id("resp"), "object": "response", "status": "failed", "output": [], "error": body["error"]}
    yield "response.failed", {"type": "response.failed", "response": failed}


# --- OpenAI Chat --------------------------------------------------------------------------------------------------


def completion(asked: Asked, said: Said) -> dict[str, object]:
    """An answer of the chat completions API."""
    refused = said.stop == "refusal"
    answer: dict[str, object] = {
        "role": "assistant",
        "content": None if refused else said.text,
        "refusal": said.text if refused else None,
    }
    if said.calls:
        answer["tool_calls"] = [
            {
                "id": _id("call"),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.given)},
            }
            for call in said.calls
        ]
    finish = "tool_calls" if said.calls else {"end": "stop", "refusal": "stop", "length": "length"}[said.stop]
    return {
        "id": _id("chatcmpl"),
        "object": "chat.completion",
        "created": int(asked.at),
        "model": asked.model,
        "choices": [{"index": 0, "message": answer, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": said.took[0],
            "completion_tokens": said.took[1],
            "total_tokens": sum(said.took),
            "prompt_tokens_details": {"cached_tokens": CACHED},
        },
    }


def completion_events(asked: Asked, said: Said) -> Iterator[Event]:
    """The same as a stream."""
    whole = completion(asked, said)
    choice = whole["choices"][0]
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    yield "", {**head, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}
    ending = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield "", {**head, "choices": [ending], "usage": whole["usage"]}


def completion_failure(body: dict[str, object]) -> Iterator[Event]:
    """An error in the middle of a stream."""
    yield "", body


WHOLE = {"messages": message, "responses": response, "chat": completion}
STREAMED = {"messages": message_events, "responses": response_events, "chat": completion_events}
FAILED = {"messages": message_failure, "responses": response_failure, "chat": completion_failure}
