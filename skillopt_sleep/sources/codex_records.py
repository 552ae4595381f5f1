"""Decodes the records of a Codex rollout, and what its tool calls did: commands, exit statuses, patched files.

A record is an envelope with a type and a payload; rollouts of 2025 hold the payloads bare. Fields that are not needed
are skipped without being built.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

NOTHING = Raw(b"null")

READ_TYPES = frozenset({"event_msg", "response_item", "session_meta", "turn_context"})
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
"""The types of payload that are read; records of context have none."""


class Git(Struct, gc=False):
    """The repository a session began in."""

    branch: str | None = None
    commit_hash: str | None = None
    repository_url: str | None = None


class SessionMeta(Struct, gc=False):
    """Where a session came from; ``source`` is a word (cli, vscode, exec), or an object for a sub-agent."""

    id: str | None = None
    cwd: str | None = None
    source: str | dict[str, Raw] | None = None
    thread_source: str | None = None
    git: Git | None = None


class ContentKinds(Struct, gc=False):
    """What later versions record about each piece of a message."""

    content_item_kinds: list[str] | None = None


class Payload(Struct, gc=False):
    """A ``response_item`` or ``event_msg``: the fields that are read, of all its types."""

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
    kinds: ContentKinds | None = msgspec.field(default=None, name="internal_chat_message_metadata_passthrough")


class Record(Struct, gc=False):
    """One line of the file."""

    type: str = ""
    timestamp: str | None = None
    payload: Payload | None = None


class PayloadType(Struct, gc=False):
    """Only the type of a payload."""

    type: str = ""


class RecordType(Struct, gc=False):
    """Only the type of a record, for lines that do not decode as a whole."""

    type: str = ""
    payload: Raw = NOTHING


class MetaRecord(Struct, gc=False):
    """A record of type ``session_meta``."""

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


decode_session_meta = msgspec.json.Decoder(MetaRecord).decode
decode_bare_payload = msgspec.json.Decoder(Payload).decode
decode_item = msgspec.json.Decoder(Item).decode
_decode_record = msgspec.json.Decoder(Record).decode
_decode_payload_type = msgspec.json.Decoder(PayloadType).decode
_decode_type = msgspec.json.Decoder(RecordType).decode
_decode_content = msgspec.json.Decoder(str | Piece | list[Piece | str] | None).decode


def decode_record(line: bytes) -> Record:
    """Decode one line. A record of a kind that is not read may have any shape and comes back empty."""
    try:
        return _decode_record(line)
    except msgspec.ValidationError:
        kind = _decode_type(line)
        if kind.type in READ_TYPES and _decode_payload_type(kind.payload).type in READ_PAYLOADS:
            raise
        return Record()


def read_pieces(raw: Raw) -> list[str]:
    """Return the texts of a message's pieces; "" for a piece without text, such as an image."""
    return _list_texts(_read_content(raw))


def read_text(raw: Raw) -> str:
    """Return the text of a JSON string, piece or list of pieces; "" for any other shape."""
    content = _read_content(raw)
    return content if isinstance(content, str) else join_pieces(_list_texts(content))


def _list_texts(content: str | Piece | list[Piece | str]) -> list[str]:
    pieces = content if isinstance(content, list) else [content]
    return [piece if isinstance(piece, str) else piece.text or "" for piece in pieces]


def _read_content(raw: Raw) -> str | Piece | list[Piece | str]:
    try:
        return _decode_content(raw) or ""
    except msgspec.ValidationError:
        return ""


def join_pieces(pieces: Sequence[str]) -> str:
    """Return the pieces as one text, a blank line between them."""
    return "\n\n".join(piece for piece in pieces if piece)


SHELL_TOOLS = frozenset({"container.exec", "exec_command", "local_shell", "shell", "shell_command", "unified_exec"})
"""The names that Codex's shell tool has had."""

_WRAPPERS = re.compile(r"(?:.*/)?(?:ba|da|z|fi)?sh(?:\.exe)?|(?:.*[/\\])?(?:powershell|pwsh)(?:\.exe)?")
_SHELL_FLAGS = re.compile(r"-\w*[cC](?:ommand)?")
_STATUS = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,9})\s*?$", re.MULTILINE)
_STILL_RUNS = re.compile(r"^Process running with session ID (\d{1,9})", re.MULTILINE)
_OUTPUT = "\nOutput:"
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_SCRIPTED = re.compile(r"\bcmd\s*:\s*(\"(?:[^\"\\]|\\.)*\")")


class ShellCall(Struct):
    """The arguments of a shell call; versions name the command differently."""

    cmd: str | list[str] | None = None
    command: str | list[str] | None = None
    session_id: int | str | None = None


class ResultMetadata(Struct):
    """The part of an older result that holds the exit code."""

    exit_code: int | None = None


class OldResult(Struct):
    """The result of a command as older versions wrote it."""

    metadata: ResultMetadata | None = None


class CommandResult(Struct, frozen=True, kw_only=True):
    """How a command ended, or the process in which it still runs."""

    status: int | None = None
    process: str = ""


_decode_shell_call = msgspec.json.Decoder(ShellCall).decode
_decode_old_result = msgspec.json.Decoder(OldResult).decode


def read_shell_call(arguments: Raw) -> ShellCall:
    """Return the arguments of a tool call, which Codex writes as JSON in a string; empty when they cannot be read."""
    try:
        return _decode_shell_call(read_text(arguments) or arguments)
    except (msgspec.DecodeError, RecursionError):
        return ShellCall()


def read_command_line(*candidates: str | list[str] | None) -> str:
    """Return the first command given, without the shell around it: ``bash -lc 'make test'`` is ``make test``."""
    command = next(filter(None, candidates), "")
    if isinstance(command, str):
        return command
    if len(command) == 3 and _WRAPPERS.fullmatch(command[0]) and _SHELL_FLAGS.fullmatch(command[1]):  # noqa: PLR2004  shell, flag, command
        return command[2]
    return " ".join(command)


def read_stdin_process(arguments: Raw) -> str:
    """Return the process that a ``write_stdin`` call writes to; "" when it names none."""
    process = read_shell_call(arguments).session_id
    return "" if process is None else str(process)


def find_commands_in_script(script: str) -> list[str]:
    """Return the commands that the JavaScript of an ``exec`` call spells out as string literals."""
    found = []
    for literal in _SCRIPTED.findall(script):
        try:
            found.append(str(msgspec.json.decode(literal)))
        except msgspec.DecodeError:
            continue  # a JavaScript string that is not a JSON string
    return found


def read_command_result(output: Raw) -> CommandResult:
    """Return how a command ended, from the head of the result that the agent was given.

    What was printed is not searched.
    """
    text = read_text(output)
    if text.startswith("{"):
        try:
            metadata = _decode_old_result(text).metadata
        except (msgspec.DecodeError, RecursionError):
            metadata = None
        return CommandResult(status=metadata.exit_code if metadata else None)
    printed = text.find(_OUTPUT)
    end = len(text) if printed < 0 else printed
    if match := _STATUS.search(text, 0, end):
        return CommandResult(status=int(match[1]))
    running = _STILL_RUNS.search(text, 0, end)
    return CommandResult(process=running[1] if running else "")


def find_patched_files(patch: str) -> list[str]:
    """Return the paths that a patch adds, updates, deletes or moves to."""
    return [path.strip() for path in _PATCHED.findall(patch)] if "*** Begin Patch" in patch else []
