"""Decodes the records of a Claude Code session file and finds what a person typed in them.

A record is one JSON object on one line; fields that are not needed are skipped without being built. A message of the
model is spread over several records, one block each. Claude Code also writes in the user's name: it wraps commands in
tags, adds reminders around a prompt, and sends notices. These are recognised by their form, never by their content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

NOTHING = Raw(b"null")

READ_TYPES = frozenset({"assistant", "attachment", "queue-operation", "user"})
"""The types of record that are decoded; records of other types are ignored."""

SHELLS = frozenset({"Bash", "PowerShell"})
SKILL = "Skill"
SYNTHETIC_MODEL = "<synthetic>"
"""The model name in records that Claude Code wrote in place of the model, such as API errors."""
AUTOMATIC_DENIALS = frozenset({"automode-blocked", "permission-rule"})
"""The kinds of refused tool calls that a program refused, not a person."""


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
    """Who caused a record: ``human``, ``task-notification``, ``peer``, ``coordinator`` and others."""

    kind: str | None = None


class Attachment(Struct, rename="camel", gc=False):
    """A record's addition to the conversation; type ``queued_command`` is what was typed while the agent worked."""

    type: str = ""
    prompt: Raw = NOTHING
    command_mode: str | None = None
    origin: Origin | None = None
    is_meta: bool | None = None


class Record(Struct, rename="camel", gc=False):
    """One line of a session file. Only queue operations use ``content``, ``operation`` and ``reason``."""

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


RecordT = TypeVar("RecordT", bound=Record)


class RecordType(Struct, gc=False):
    """The type of a record alone, for lines whose other fields cannot be decoded."""

    type: str = ""


class ToolInput(Struct, gc=False):
    """The call arguments of the tools listed in ``claude.TOOLS_WITH_READ_INPUT``."""

    command: str | None = None
    file_path: str | None = None
    notebook_path: str | None = None
    skill: str | None = None


class ShellResult(Struct, rename="camel", gc=False):
    """Details of the result of a shell command that did not fail, such as whether it was interrupted."""

    interrupted: bool | None = None
    background_task_id: str | None = None
    return_code_interpretation: str | None = None


class Answers(Struct, gc=False):
    """The options that a person chose in a question dialogue, by the text of the question."""

    answers: dict[str, str | list[str]] | None = None


_decode_record = msgspec.json.Decoder(Record).decode
_decode_type = msgspec.json.Decoder(RecordType).decode
decode_tool_input = msgspec.json.Decoder(ToolInput).decode
_decode_shell_result = msgspec.json.Decoder(ShellResult).decode
_decode_answers = msgspec.json.Decoder(Answers).decode
_decode_content = msgspec.json.Decoder(str | list[Block] | None).decode


def decode_record(line: bytes) -> Record:
    """Decode one line; return an empty record for a type outside ``READ_TYPES`` whose fields do not fit."""
    return decode_record_as(_decode_record, line) or Record()


def decode_record_as(decode: Callable[[bytes], RecordT], line: bytes) -> RecordT | None:
    """Decode one line with ``decode``; return None for a type outside ``READ_TYPES`` whose fields do not fit."""
    try:
        return decode(line)
    except msgspec.ValidationError:
        if _decode_type(line).type in READ_TYPES:
            raise
        return None


def read_blocks(content: str | list[Block] | None) -> list[Block]:
    """Return the blocks of a message; a bare string counts as one text block."""
    if isinstance(content, str):
        return [Block(type="text", text=content)]
    return content or []


def read_text(raw: Raw) -> str:
    """Return the text of a JSON string or of a list of blocks, or "" for JSON of any other shape."""
    try:
        content = _decode_content(raw)
    except msgspec.ValidationError:
        return ""
    return "\n\n".join(block.text for block in read_blocks(content) if block.type == "text" and block.text)


def read_shell_result(raw: Raw) -> ShellResult:
    """Return the details of a shell command's result; they are empty for the result of a third-party tool."""
    try:
        return _decode_shell_result(raw)
    except msgspec.ValidationError:
        return ShellResult()


def read_answers(raw: Raw) -> list[str]:
    """Return the options that a person chose in a question dialogue, one string per question."""
    try:
        answers = _decode_answers(raw).answers or {}
    except msgspec.ValidationError:
        return []
    return [answer if isinstance(answer, str) else ", ".join(answer) for answer in answers.values()]


NOTICES = (
    "<bash-input>",
    "<bash-stderr>",
    "<bash-stdout>",
    "<cross-session-message",
    "<fork-boilerplate>",
    "<local-command-",
    "<mcp-polling-update",
    "<mcp-resource-update",
    "<task-notification",
    "<teammate-message",
    "<tick>",
    "<user-memory-input>",
    "Base directory for this skill:",
    "Caveat: The messages below were generated by the user while running local commands.",
    "This session is being continued from a previous conversation",
    "[Image: ",
    "[SYSTEM NOTIFICATION",
)
"""Beginnings of texts that a program wrote, not a person, and of shell commands (``<bash-input>``)."""

_ADDED_TAGS = (
    "ide_diagnostics",
    "ide_opened_file",
    "ide_selection",
    "new-diagnostics",
    "system-instruction",
    "system-reminder",
    "system_instruction",
    "user-prompt-submit-hook",
)
_ADDED_BEFORE = re.compile(rf"\s*<(?P<tag>{'|'.join(_ADDED_TAGS)})\b[^>]*>.*?</(?P=tag)>\s*", re.DOTALL)
_INTERRUPTION = "[Request interrupted by user"
_HAND_OFF = "Implement the following plan:"
_TOOL_LOADED = "Tool loaded."
_IMAGES_ONLY = re.compile(r"(?:\[Image #\d+\]\s*)+")
_COMMAND_ALONE = re.compile(r"/[a-zA-Z][\w:.-]*")
_COMMAND = re.compile(
    r"\s*(?:<command-message>[^<]*</command-message>\s*)?<command-name>/?(?P<name>[^<]+)</command-name>"
    r"\s*(?:<command-message>[^<]*</command-message>\s*)?(?:<command-args>(?P<args>.*?)</command-args>)?",
    re.DOTALL,
)
_REJECTED = re.compile(
    r"\s*(?:The user doesn't want to |Permission for this tool use was denied)[^\n]*[Tt]he user said:\s*(?P<words>.*)",
    re.DOTALL,
)
_NOTE_AFTER = "\n\nNote: The user's next message may contain a correction or preference."
_CLARIFY = "The user wants to clarify these questions."


class TypedText(Struct, frozen=True, kw_only=True):
    """What a person typed in one record."""

    text: str = ""
    command: str = ""
    """The name of the slash command that the person called, or ""."""
    starts_work: bool = False
    """Whether the typed words make the agent work, as a prompt, command or accepted plan does, unlike ``/model``."""


def find_typed_text(texts: Sequence[str]) -> TypedText:
    """Return what a person typed in one record, whose text blocks are given."""
    parts = [typed for text in texts if (typed := _read_block(text)).starts_work]
    return TypedText(
        text="\n\n".join(typed.text for typed in parts if typed.text),
        command=next((typed.command for typed in parts if typed.command), ""),
        starts_work=bool(parts),
    )


def is_interruption(text: str) -> bool:
    """Tell whether a text block says that the person stopped the agent."""
    return text.lstrip().startswith(_INTERRUPTION)


def read_rejection(result: str) -> str:
    """Return what a person wrote while refusing a tool call, or "" for nothing.

    ``result`` is the text that the agent received as the result of the call.
    """
    match = _REJECTED.match(result)
    if match is None or match["words"].startswith(_CLARIFY):
        return ""
    return _strip_added(match["words"].partition(_NOTE_AFTER)[0])


def _read_block(text: str) -> TypedText:
    text = _strip_added(text)
    if not text or text.startswith((_INTERRUPTION, *NOTICES)) or text == _TOOL_LOADED:
        return TypedText()
    if text.startswith("<command-"):
        return _read_slash_command(text)
    if text.startswith(_HAND_OFF) or _IMAGES_ONLY.fullmatch(text) or _COMMAND_ALONE.fullmatch(text):
        return TypedText(starts_work=True)
    return TypedText(text=text, starts_work=True)


def _read_slash_command(text: str) -> TypedText:
    """Return a command typed for the agent; a local one, which begins with ``<command-name>``, comes back empty."""
    match = _COMMAND.match(text)
    if match is None or text.startswith("<command-name>"):
        return TypedText()
    return TypedText(text=(match["args"] or "").strip(), command=match["name"].strip(), starts_work=True)


def _strip_added(text: str) -> str:
    """Remove the blocks that Claude Code or the editor put before and after the text."""
    start = 0
    while match := _ADDED_BEFORE.match(text, start):
        start = match.end()
    text = text[start:].strip()
    end = len(text)
    while text.endswith(">", 0, end) and (
        tag := next((tag for tag in _ADDED_TAGS if text.endswith(f"</{tag}>", 0, end)), "")
    ):
        opening = text.rfind(f"<{tag}", 0, end)
        if opening < 0:
            break
        end = opening
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


ABSORBED = "absorbed_mid_turn"
"""The reason of a ``remove`` that hands waiting words to the running turn; earlier versions record no reason."""

NOTIFICATION = "<task-notification"


class InputQueue:
    """The texts that wait in Claude Code's input queue while the agent works, first in, first out.

    Nearly every text is recorded a second time, as the next prompt (``dequeue``) or as an attachment. In sessions of
    early 2026, some exist only as an ``enqueue`` and the ``remove`` that handed them to the agent.
    """

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._removed_early = 0

    def apply(self, operation: str, text: str, reason: str) -> str:
        """Apply one operation; return the text that it took out for the agent and that may have no other record."""
        match operation:
            case "enqueue":
                self._waiting.append(text)
            case "dequeue" if self._waiting:
                self._waiting.pop(0)
            case "popAll":  # back into the input box; notices stay in the queue
                self._waiting = [waiting for waiting in self._waiting if waiting.startswith(NOTIFICATION)]
            case "remove":
                removed = self._remove(text)
                return removed if reason in {"", ABSORBED} else ""
        return ""

    def note_attached(self, text: str) -> None:
        """Remove a text that an attachment gave to the agent; the text's ``remove`` record may follow later."""
        if text in self._waiting:
            self._waiting.remove(text)
            self._removed_early += 1

    def _remove(self, text: str) -> str:
        """Remove and return the named text, or the first one when no text is named; return "" when there is none."""
        if text:
            if text not in self._waiting:
                return ""
            self._waiting.remove(text)
            return text
        if self._removed_early:
            self._removed_early -= 1
            return ""
        return self._waiting.pop(0) if self._waiting else ""
