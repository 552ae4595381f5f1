"""Session files as Claude Code and Codex write them, made from sessions.

The way back from what ``sources/`` does: samples, benchmarks and tests need files of people who never lived. Only the
records that carry a conversation are written, a few of the noisy ones beside them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from skillopt_sleep.model import Json
from skillopt_sleep.model.session import Command, PromptKind, Session, Turn
from tests.benchmarks.worlds import stamp

CLAUDE_VERSION = "2.1.197"
CODEX_VERSION = "0.139.0"
STEP = timedelta(seconds=5)
"""Between two records of one turn."""


def claude_path(session: Session) -> str:
    """Where Claude Code keeps this session, below its home."""
    return f"projects/{re.sub(r'[^A-Za-z0-9]', '-', session.cwd)}/{session.session_id}.jsonl"


def codex_path(session: Session) -> str:
    """Where Codex keeps this session, below its home."""
    local = datetime.fromisoformat(session.started_at)
    return f"sessions/{local:%Y/%m/%d}/rollout-{local:%Y-%m-%dT%H-%M-%S}-{session.session_id}.jsonl"


def claude_lines(session: Session, *, entrypoint: str = "cli", agent_id: str = "") -> Iterator[bytes]:
    """The lines of a Claude Code session file; with ``agent_id`` those of a sub-agent of the session.

    Raises ``ValueError`` for words that were not typed: those hide in records which this does not write.
    """
    parent: str | None = None
    for turn in session.turns:
        _demand_typed(turn)
        moment = datetime.fromisoformat(turn.at)
        for number, record in enumerate(_claude_records(session, turn)):
            identity = turn.id if number == 0 else str(uuid.uuid5(uuid.UUID(turn.id), str(number)))
            frame: dict[str, Json] = {"parentUuid": parent, "isSidechain": bool(agent_id)}
            frame |= {"agentId": agent_id} if agent_id else {}
            record |= {
                "uuid": identity,
                "timestamp": stamp(moment + number * STEP),
                "userType": "external",
                "entrypoint": entrypoint,
                "cwd": session.cwd,
                "sessionId": session.session_id,
                "version": CLAUDE_VERSION,
                "gitBranch": session.branch,
            }
            yield _line(frame | record)
            parent = identity


def codex_lines(session: Session) -> Iterator[bytes]:
    """The lines of a Codex rollout. Raises ``ValueError`` for words that were not typed."""
    started = datetime.fromisoformat(session.started_at)
    meta: dict[str, Json] = {
        "id": session.session_id,
        "timestamp": session.started_at,
        "cwd": session.cwd,
        "originator": "codex-tui",
        "cli_version": CODEX_VERSION,
        "source": "cli",
        "model_provider": "openai",
        "git": {"branch": session.branch},
    }
    yield _rollout_line(started, "session_meta", meta)
    environment = f"<environment_context>\n  <cwd>{session.cwd}</cwd>\n  <shell>bash</shell>\n</environment_context>"
    yield _rollout_line(started, "response_item", _message("user", environment))
    for turn in session.turns:
        _demand_typed(turn)
        moment = datetime.fromisoformat(turn.at)
        for number, (kind, payload) in enumerate(_codex_records(session, turn)):
            yield _rollout_line(moment + number * STEP, kind, payload)


def _claude_records(session: Session, turn: Turn) -> Iterator[dict[str, Json]]:
    yield {"type": "user", "message": {"role": "user", "content": turn.prompt}}
    for command in turn.commands:
        call = _id("toolu", turn, command.line)
        yield _claude_says(
            session, call, {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command.line}}
        )
        yield _claude_result(call, command)
    for path in turn.files:
        call = _id("toolu", turn, path)
        yield _claude_says(
            session, call, {"type": "tool_use", "id": call, "name": "Edit", "input": {"file_path": path}}
        )
        yield _claude_edited(call, path)
    if turn.final:
        yield _claude_says(session, _id("msg", turn, "final"), {"type": "text", "text": turn.final}, stop="end_turn")


def _claude_says(session: Session, name: str, block: dict[str, Json], *, stop: str = "tool_use") -> dict[str, Json]:
    message: dict[str, Json] = {
        "id": name.replace("toolu", "msg"),
        "type": "message",
        "role": "assistant",
        "model": session.model,
        "content": [block],
        "stop_reason": stop,
        "usage": {"input_tokens": 900, "output_tokens": 60},
    }
    return {"type": "assistant", "message": message}


def _claude_result(call: str, command: Command) -> dict[str, Json]:
    failed = bool(command.exit_status)
    text = f"Exit code {command.exit_status}" if failed else "ok"
    block: dict[str, Json] = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}
    result: Json = f"Error: {text}" if failed else {"stdout": text, "stderr": "", "interrupted": False}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "toolUseResult": result}


def _claude_edited(call: str, path: str) -> dict[str, Json]:
    block: dict[str, Json] = {
        "type": "tool_result",
        "tool_use_id": call,
        "content": f"The file {path} has been updated.",
    }
    return {"type": "user", "message": {"role": "user", "content": [block]}, "toolUseResult": {"filePath": path}}


def _codex_records(session: Session, turn: Turn) -> Iterator[tuple[str, dict[str, Json]]]:
    yield "turn_context", {"turn_id": turn.id, "cwd": session.cwd, "model": session.model}
    yield "response_item", _message("user", turn.prompt)
    yield "event_msg", {"type": "user_message", "message": turn.prompt, "images": []}
    for command in turn.commands:
        call = _id("call", turn, command.line)
        arguments = msgspec.json.encode({"cmd": command.line, "workdir": session.cwd}).decode()
        yield (
            "response_item",
            {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": call},
        )
        output = f"Wall time: 0.1 seconds\nProcess exited with code {command.exit_status or 0}\nOutput:\nok\n"
        yield "response_item", {"type": "function_call_output", "call_id": call, "output": output}
    for path in turn.files:
        call = _id("call", turn, path)
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-old\n+new\n*** End Patch\n"
        yield "response_item", {"type": "custom_tool_call", "name": "apply_patch", "input": patch, "call_id": call}
        done = f"Success. Updated the following files:\nM {path}\n"
        yield "response_item", {"type": "custom_tool_call_output", "call_id": call, "output": done}
    if turn.final:
        yield "event_msg", {"type": "agent_message", "message": turn.final}
        yield "response_item", _message("assistant", turn.final)
    yield "event_msg", {"type": "task_complete", "turn_id": turn.id, "last_agent_message": turn.final or None}


def _message(role: str, text: str) -> dict[str, Json]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _demand_typed(turn: Turn) -> None:
    if turn.kind is not PromptKind.TYPED:
        raise ValueError(f"turn {turn.id} is {turn.kind.value}; only typed turns can be written as a session file")


def _id(prefix: str, turn: Turn, name: str) -> str:
    return f"{prefix}_{uuid.uuid5(uuid.UUID(turn.id), name).hex[:16]}"


def _rollout_line(moment: datetime, kind: str, payload: dict[str, Json]) -> bytes:
    return _line({"timestamp": stamp(moment), "type": kind, "payload": payload})


def _line(record: dict[str, Json]) -> bytes:
    return msgspec.json.encode(record) + b"\n"
