"""The records of a Codex rollout, as far as they are read; the rest of each is skipped without being built.

A record is an envelope of a type and a payload. Rollouts of 2025 held the payloads bare.

What the tool calls of a Codex rollout did: the commands and their exit statuses, the files of a patch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

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


SHELL_TOOLS = frozenset({"container.exec", "exec_command", "local_shell", "shell", "shell_command", "unified_exec"})
"""The names Codex's shell tool has had."""

_WRAPPERS = re.compile(r"(?:.*/)?(?:ba|da|z|fi)?sh(?:\.exe)?|(?:.*[/\\])?(?:powershell|pwsh)(?:\.exe)?")
_SHELL_FLAGS = re.compile(r"-\w*[cC](?:ommand)?")
_STATUS = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,9})\s*?$", re.MULTILINE)
_STILL_RUNS = re.compile(r"^Process running with session ID (\d{1,9})", re.MULTILINE)
_OUTPUT = "\nOutput:"
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_SCRIPTED = re.compile(r"\bcmd\s*:\s*(\"(?:[^\"\\]|\\.)*\")")


class Shell(Struct):
    """The arguments of a shell call; versions name the command differently."""

    cmd: str | list[str] | None = None
    command: str | list[str] | None = None
    session_id: int | str | None = None


class Metadata(Struct):
    """The part of an older result that says how the command ended."""

    exit_code: int | None = None


class OldResult(Struct):
    """How older versions wrote the result of a command."""

    metadata: Metadata | None = None


class Ended(Struct, frozen=True, kw_only=True):
    """How a command ended; ``session`` names the running process it goes on in instead."""

    status: int | None = None
    session: str = ""


_decode_shell = msgspec.json.Decoder(Shell).decode
_decode_old = msgspec.json.Decoder(OldResult).decode


def shell_call(arguments: Raw) -> Shell:
    """The arguments of a tool call, which Codex writes as JSON in a string."""
    try:
        return _decode_shell(text_of(arguments) or arguments)
    except (msgspec.DecodeError, RecursionError):
        return Shell()


def command_line(*candidates: str | list[str] | None) -> str:
    """The first command there is, as a person would write it, without the shell that Codex wraps it in."""
    for command in filter(None, candidates):
        return command if isinstance(command, str) else _unwrapped(command)
    return ""


def stdin_of(arguments: Raw) -> str:
    """The process that a ``write_stdin`` call speaks to."""
    session = shell_call(arguments).session_id
    return "" if session is None else str(session)


def commands_in_script(script: str) -> list[str]:
    """The commands that the JavaScript of an ``exec`` call names literally."""
    return [str(msgspec.json.decode(literal)) for literal in _SCRIPTED.findall(script) if _is_json(literal)]


def outcome(output: Raw) -> Ended:
    """How a command ended, from the result the agent was given. Only the head of it is read, not what was printed."""
    text = text_of(output)
    if text.startswith("{"):
        try:
            metadata = _decode_old(text).metadata
        except (msgspec.DecodeError, RecursionError):
            metadata = None
        return Ended(status=metadata.exit_code if metadata else None)
    printed = text.find(_OUTPUT)
    end = len(text) if printed < 0 else printed
    if match := _STATUS.search(text, 0, end):
        return Ended(status=int(match[1]))
    running = _STILL_RUNS.search(text, 0, end)
    return Ended(session=running[1] if running else "")


def patched_files(patch: str) -> list[str]:
    """The paths a patch adds, updates, deletes or moves to."""
    return [path.strip() for path in _PATCHED.findall(patch)] if "*** Begin Patch" in patch else []


def _unwrapped(words: Sequence[str]) -> str:
    """``bash -lc 'make test'`` is ``make test``."""
    wrapped = 3
    if len(words) == wrapped and _WRAPPERS.fullmatch(words[0]) and _SHELL_FLAGS.fullmatch(words[1]):
        return words[2]
    return " ".join(words)


def _is_json(literal: str) -> bool:
    try:
        msgspec.json.decode(literal)
    except msgspec.DecodeError:
        return False
    return True
