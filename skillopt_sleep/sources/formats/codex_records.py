"""The records of a Codex rollout, as far as they are read; the rest of each is skipped without being built.

A record is an envelope of a type and a payload. Rollouts of 2025 held the payloads bare.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

__all__ = [
    "Item",
    "Payload",
    "Piece",
    "Record",
    "SessionMeta",
    "decode_beginning",
    "decode_item",
    "decode_payload",
    "decode_record",
    "joined",
    "pieces_of",
    "text_of",
]

NOTHING = Raw(b"null")

READ = frozenset({"event_msg", "response_item", "session_meta", "turn_context"})
"""The types of record that are read."""

READ_PAYLOADS = frozenset(
    {
        "",
        "custom_tool_call",
        "custom_tool_call_output",
        "exec_command_end",
        "function_call",
        "function_call_output",
        "item_completed",
        "local_shell_call",
        "message",
        "task_complete",
        "turn_aborted",
        "user_message",
    }
)
"""The types of payload in which something is read; records of context have none."""


class Git(Struct, gc=False):
    """The repository a session began in."""

    branch: str | None = None
    commit_hash: str | None = None


class SessionMeta(Struct, gc=False):
    """Where a session came from; ``source`` is a word (cli, vscode, exec), or an object for a sub-agent."""

    id: str | None = None
    cwd: str | None = None
    source: str | dict[str, Raw] | None = None
    thread_source: str | None = None
    git: Git | None = None


class Kind(Struct, gc=False):
    """What tells the kind of a payload."""

    type: str = ""


class Kinds(Struct, gc=False):
    """What later versions say about the pieces of a message."""

    content_item_kinds: list[str] | None = None


class Payload(Struct, gc=False):
    """A ``response_item`` or ``event_msg``: the fields of all kinds that are read, each where its kind has it."""

    type: str = ""
    role: str | None = None
    content: Raw = NOTHING
    message: Raw = NOTHING
    kind: str | None = None
    name: str | None = None
    arguments: Raw = NOTHING
    input: Raw = NOTHING
    output: Raw = NOTHING
    action: Raw = NOTHING
    call_id: str | None = None
    exit_code: int | None = None
    item: Raw = NOTHING
    model: str | None = None
    reason: str | None = None
    last_agent_message: str | None = None
    kinds: Kinds | None = msgspec.field(default=None, name="internal_chat_message_metadata_passthrough")


class Record(Struct, gc=False):
    """One line."""

    type: str = ""
    timestamp: str | None = None
    payload: Payload | None = None


class Heading(Struct, gc=False):
    """What tells the kind of a line, whatever else is in it."""

    type: str = ""
    payload: Raw = NOTHING


class Beginning(Struct, gc=False):
    """A line of the type ``session_meta``."""

    payload: SessionMeta


class Item(Struct, gc=False):
    """What an ``item_completed`` event completed: UserMessage, CommandExecution, FileChange, ..."""

    type: str = ""
    content: Raw = NOTHING
    command: str | list[str] | None = None
    exit_code: int | None = None
    changes: dict[str, Raw] | None = None


class Piece(Struct, gc=False):
    """One piece of a message."""

    type: str = ""
    text: str | None = None


decode_beginning = msgspec.json.Decoder(Beginning).decode
decode_payload = msgspec.json.Decoder(Payload).decode
_decode_record = msgspec.json.Decoder(Record).decode
_decode_kind = msgspec.json.Decoder(Kind).decode
_decode_heading = msgspec.json.Decoder(Heading).decode
decode_item = msgspec.json.Decoder(Item).decode
_decode_content = msgspec.json.Decoder(str | Piece | list[Piece | str] | None).decode


def decode_record(line: bytes) -> Record:
    """One line. A record of a kind that is not read may look like anything, so only its kind comes back."""
    try:
        return _decode_record(line)
    except msgspec.ValidationError:
        heading = _decode_heading(line)
        if heading.type in READ and _decode_kind(heading.payload).type in READ_PAYLOADS:
            raise
        return Record(type="")


def pieces_of(raw: Raw) -> list[str]:
    """The texts of a message's pieces; a piece without text, such as an image, is ""."""
    return _texts(_content(raw))


def text_of(raw: Raw) -> str:
    """The text of a JSON string, piece or list of pieces, "" for anything that holds none."""
    content = _content(raw)
    return content if isinstance(content, str) else joined(_texts(content))


def joined(pieces: Sequence[str]) -> str:
    """Pieces as one text."""
    return "\n\n".join(piece for piece in pieces if piece)


def _texts(content: str | Piece | list[Piece | str]) -> list[str]:
    parts = content if isinstance(content, list) else [content]
    return [part if isinstance(part, str) else part.text or "" for part in parts]


def _content(raw: Raw) -> str | Piece | list[Piece | str]:
    try:
        return _decode_content(raw) or ""
    except msgspec.ValidationError:
        return ""
