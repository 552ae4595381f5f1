"""The records of a Codex rollout, as far as they are read; the rest of each is skipped without being built.

A record is an envelope of a type and a payload. Rollouts of 2025 held the payloads bare.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

__all__ = [
    "Envelope",
    "Item",
    "Payload",
    "Piece",
    "SessionMeta",
    "decode_envelope",
    "decode_item",
    "decode_payload",
    "decode_session_meta",
    "joined",
    "pieces_of",
    "strings_of",
    "text_of",
]

NOTHING = Raw(b"null")


class Envelope(Struct, gc=False):
    """One line."""

    type: str = ""
    timestamp: str | None = None
    payload: Raw = NOTHING


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
    command: Raw = NOTHING
    exit_code: int | None = None
    item: Raw = NOTHING
    model: str | None = None
    reason: str | None = None
    last_agent_message: str | None = None
    kinds: Kinds | None = msgspec.field(default=None, name="internal_chat_message_metadata_passthrough")


class Item(Struct, gc=False):
    """What an ``item_completed`` event completed: UserMessage, CommandExecution, FileChange, ..."""

    type: str = ""
    content: Raw = NOTHING
    command: Raw = NOTHING
    exit_code: int | None = None
    changes: dict[str, Raw] | None = None


class Piece(Struct, gc=False):
    """One piece of a message."""

    type: str = ""
    text: str | None = None


decode_envelope = msgspec.json.Decoder(Envelope).decode
decode_session_meta = msgspec.json.Decoder(SessionMeta).decode
decode_payload = msgspec.json.Decoder(Payload).decode
decode_item = msgspec.json.Decoder(Item).decode
_decode_content = msgspec.json.Decoder(str | Piece | list[Piece | str] | None).decode
_decode_strings = msgspec.json.Decoder(str | list[str] | None).decode


def pieces_of(raw: Raw) -> list[str]:
    """The texts of a message's pieces; a piece without text, such as an image, is ""."""
    try:
        content = _decode_content(raw)
    except msgspec.ValidationError:
        return []
    if content is None:
        return []
    parts = content if isinstance(content, list) else [content]
    return [part if isinstance(part, str) else part.text or "" for part in parts]


def joined(pieces: Sequence[str]) -> str:
    """Pieces as one text."""
    return "\n\n".join(piece for piece in pieces if piece)


def text_of(raw: Raw) -> str:
    """The text of a JSON string, piece or list of pieces, "" for anything that holds none."""
    return joined(pieces_of(raw))


def strings_of(raw: Raw) -> list[str]:
    """The strings of a JSON string or list of strings."""
    try:
        found = _decode_strings(raw)
    except msgspec.ValidationError:
        return []
    return [found] if isinstance(found, str) else found or []
