"""What was asked of the model, read from the raw request of any of the three APIs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
STRUCTURED = "StructuredOutput"
"""The tool by which Claude Code asks for an answer of a given shape."""


@dataclass(frozen=True, kw_only=True)
class Called:
    """A tool call, one the model made or one that it is to make."""

    name: str
    given: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request. ``api`` is messages, responses or chat; ``body`` and ``headers`` are as they came.

    ``system``: all instructions. ``turns``: role and text of every message. ``tools``: names of what may be called.
    ``calls``: what was called so far; ``results``: what came of it. ``schema``: the shape the answer must have.
    """

    api: str
    fault: str
    path: str
    at: float
    headers: dict[str, str] = field(repr=False)
    body: dict[str, object] = field(repr=False)
    system: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    tools: tuple[str, ...] = ()
    calls: tuple[Called, ...] = ()
    results: tuple[str, ...] = ()
    schema: dict[str, object] | None = None

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.body.get("model", ""))

    @property
    def user(self) -> str:
        """The last words of the user, without what the agent added to them."""
        said = (REMINDER.sub("", text).strip() for role, text in reversed(self.turns) if role == "user")
        return next((text for text in said if text), "")

    @property
    def text(self) -> str:
        """Every word that was sent, of whatever role, results of tools included."""
        return "\n".join((self.system, *(text for _, text in self.turns), *self.results))

    @property
    def key(self) -> str:
        """The key or token that came with it."""
        header = self.headers.get("x-api-key") or self.headers.get("authorization", "")
        return header.removeprefix("Bearer ")


def text_of(content: object) -> str:
    """The words in a message's content, however deep they stand."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text for text in map(text_of, content) if text)
    if isinstance(content, dict):
        return next((text_of(content[key]) for key in ("text", "content", "output") if key in content), "")
    return ""


def read_messages(body: dict) -> dict[str, object]:
    """A request of the Messages API."""
    blocks = [
        (message["role"], block)
        for message in body.get("messages", [])
        for block in ([{"text": message["content"]}] if isinstance(message["content"], str) else message["content"])
    ]
    told = [text_of(block) for role, block in blocks if role == "system"]  # newer models are told in between
    tools = {tool["name"]: tool for tool in body.get("tools") or [] if "name" in tool}
    calls = tuple(Called(name=b["name"], given=b["input"]) for _, b in blocks if b.get("type") == "tool_use")
    schema = ((body.get("output_config") or {}).get("format") or {}).get("schema")
    if STRUCTURED in tools and all(call.name != STRUCTURED for call in calls):
        schema = tools[STRUCTURED]["input_schema"]
    return {
        "system": "\n".join((text_of(body.get("system", "")), *told)),
        "turns": _merged((role, text_of(b)) for role, b in blocks if b.get("type", "text") == "text" != role),
        "tools": tuple(tools),
        "calls": calls,
        "results": tuple(text_of(b) for _, b in blocks if b.get("type") == "tool_result"),
        "schema": schema,
    }


def read_responses(body: dict) -> dict[str, object]:
    """A request of the Responses API."""
    import json

    given = body.get("input", [])
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    said = [(item["role"], text_of(item["content"])) for item in items if item.get("type", "message") == "message"]
    form = (body.get("text") or {}).get("format") or {}

    def arguments(item: dict) -> dict[str, object]:
        return {"input": item["input"]} if "input" in item else json.loads(item["arguments"])

    return {
        "system": "\n".join((body.get("instructions") or "", *(t for r, t in said if r in {"system", "developer"}))),
        "turns": _merged((role, text) for role, text in said if role in {"user", "assistant"}),
        "tools": tuple(tool.get("name") or tool.get("type") for tool in body.get("tools") or []),
        "calls": tuple(
            Called(name=item["name"], given=arguments(item))
            for item in items
            if item.get("type") in {"function_call", "custom_tool_call"}
        ),
        "results": tuple(
            text_of(item["output"])
            for item in items
            if item.get("type") in {"function_call_output", "custom_tool_call_output"}
        ),
        "schema": form.get("schema"),
    }


def read_chat(body: dict) -> dict[str, object]:
    """A request of the chat completions API."""
    import json

    messages = body.get("messages", [])
    form = (body.get("response_format") or {}).get("json_schema") or {}
    return {
        "system": "\n".join(text_of(each["content"]) for each in messages if each["role"] in {"system", "developer"}),
        "turns": _merged(
            (m["role"], text_of(m.get("content"))) for m in messages if m["role"] in {"user", "assistant"}
        ),
        "tools": tuple(tool["function"]["name"] for tool in body.get("tools") or []),
        "calls": tuple(
            Called(name=call["function"]["name"], given=json.loads(call["function"]["arguments"]))
            for each in messages
            for call in each.get("tool_calls") or []
        ),
        "results": tuple(text_of(each["content"]) for each in messages if each["role"] == "tool"),
        "schema": form.get("schema"),
    }


def _merged(turns) -> tuple[tuple[str, str], ...]:
    """Neighbouring blocks of one role are one turn."""
    merged: list[tuple[str, str]] = []
    for role, text in turns:
        if merged and merged[-1][0] == role:
            merged[-1] = (role, f"{merged[-1][1]}\n{text}")
        else:
            merged.append((role, text))
    return tuple(merged)


READERS = {"messages": read_messages, "responses": read_responses, "chat": read_chat}
