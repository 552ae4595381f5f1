"""The records of a Claude Code session file, as far as they are read; the rest of each is skipped without being built.

One record is one JSON object on a line. A message of the model is spread over several records, one block in each.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

__all__ = [
    "Block",
    "Message",
    "Record",
    "answers_of",
    "blocks_of",
    "decode_input",
    "decode_record",
    "shell_result",
    "text_of",
]

NOTHING = Raw(b"null")

READ = frozenset({"assistant", "attachment", "queue-operation", "user"})
"""The types of record that are read."""


class Block(Struct, gc=False):
    """One block of a message: ``text``, ``tool_use`` (id, name, input) or ``tool_result`` (tool_use_id, content)."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NOTHING
    tool_use_id: str | None = None
    content: Raw = NOTHING
    is_error: bool | None = None


class Message(Struct, gc=False):
    """The API message inside a record."""

    content: str | list[Block] | None = None
    model: str | None = None


class Origin(Struct, gc=False):
    """Who caused a record: human, task-notification, peer, coordinator, ..."""

    kind: str | None = None


class Attachment(Struct, rename="camel", gc=False):
    """What was put beside the conversation; ``queued_command`` is what came in while the agent worked."""

    type: str = ""
    prompt: Raw = NOTHING
    command_mode: str | None = None
    origin: Origin | None = None
    is_meta: bool | None = None


class Record(Struct, rename="camel", gc=False):
    """One line. ``content``, ``operation`` and ``reason`` belong to queue operations."""

    type: str = ""
    uuid: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    entrypoint: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    turn_companion: bool | None = None
    origin: Origin | None = None
    prompt_source: str | None = None
    plan_content: str | None = None
    tool_denial_kind: str | None = None
    tool_use_result: Raw = NOTHING
    source_tool_use_id: str | None = msgspec.field(default=None, name="sourceToolUseID")
    message: Message | str | None = None
    attachment: Attachment | None = None
    operation: str | None = None
    reason: str | None = None
    content: Raw = NOTHING


class Heading(Struct, gc=False):
    """What tells the kind of a line, whatever else is in it."""

    type: str = ""


class ToolInput(Struct, gc=False):
    """The arguments of the tools whose calls are told apart."""

    command: str | None = None
    file_path: str | None = None
    notebook_path: str | None = None
    skill: str | None = None


class ShellResult(Struct, rename="camel", gc=False):
    """How a shell command ended, when it did not fail."""

    interrupted: bool | None = None
    background_task_id: str | None = None
    return_code_interpretation: str | None = None


class Answers(Struct, gc=False):
    """What was chosen in a question dialogue, by question."""

    answers: dict[str, str | list[str]] | None = None


_decode_record = msgspec.json.Decoder(Record).decode
_decode_heading = msgspec.json.Decoder(Heading).decode
decode_input = msgspec.json.Decoder(ToolInput).decode
_decode_shell_result = msgspec.json.Decoder(ShellResult).decode
_decode_answers = msgspec.json.Decoder(Answers).decode
_decode_content = msgspec.json.Decoder(str | list[Block] | None).decode


def decode_record(line: bytes) -> Record:
    """One line. A record of a type that is not read may look like anything, so only an empty one comes back."""
    try:
        return _decode_record(line)
    except msgspec.ValidationError:
        if _decode_heading(line).type in READ:
            raise
        return Record()


def blocks_of(content: str | list[Block] | None) -> list[Block]:
    """The blocks of a message; a bare string is a text block."""
    if isinstance(content, str):
        return [Block(type="text", text=content)]
    return content or []


def text_of(raw: Raw) -> str:
    """The text of a JSON string or list of blocks, "" for anything that holds none."""
    try:
        content = _decode_content(raw)
    except msgspec.ValidationError:
        return ""
    return "\n\n".join(block.text for block in blocks_of(content) if block.type == "text" and block.text)


def shell_result(raw: Raw) -> ShellResult:
    """The details of a shell command's result; tools of other makers leave anything there."""
    try:
        return _decode_shell_result(raw)
    except msgspec.ValidationError:
        return ShellResult()


def answers_of(raw: Raw) -> list[str]:
    """What was chosen in a question dialogue."""
    try:
        answers = _decode_answers(raw).answers or {}
    except msgspec.ValidationError:
        return []
    return [answer if isinstance(answer, str) else ", ".join(answer) for answer in answers.values()]
