"""The records of a Claude Code session file, as far as they are read; the rest of each is skipped without being built.

One record is one JSON object on a line. A message of the model is spread over several records, one block in each.

Which of the text in a Claude Code user record a person typed.

Claude Code speaks to the model in the user's name: it wraps commands in tags, puts reminders before and after what
was typed, and sends notices that nobody typed at all. Told apart by the forms it writes, never by their content.

What a person typed while the agent worked, as the queue records of Claude Code tell it.

Nearly all such words are written a second time: as the next prompt (``dequeue``) or as an attachment of the running
turn. In sessions of early 2026 some were not: they survive only as an ``enqueue`` and the ``remove`` that handed them
to the agent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

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
"""A text that begins so is the machine's from beginning to end (or, ``<bash-input>``, a command for the shell)."""

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


class Words(Struct, frozen=True, kw_only=True):
    """What a person typed.

    ``command`` is the name of the slash command it was given to. ``starts_work`` says that the agent was set to work,
    by the text, by the command alone or by a plan handed over; a local command (``/model``) starts none.
    """

    text: str = ""
    command: str = ""
    starts_work: bool = False


def typed_words(texts: Sequence[str]) -> Words:
    """What a person typed of the text blocks of one record."""
    parts = [words for text in texts if (words := _typed(text)).starts_work]
    return Words(
        text="\n\n".join(words.text for words in parts if words.text),
        command=next((words.command for words in parts if words.command), ""),
        starts_work=bool(parts),
    )


def is_interruption(text: str) -> bool:
    """Whether a text says that the person stopped the agent."""
    return text.lstrip().startswith(_INTERRUPTION)


def rejection_words(result: str) -> str:
    """What a person said while refusing a tool call, from the result the agent was given; "" when nothing."""
    match = _REJECTED.match(result)
    if match is None or match["words"].startswith(_CLARIFY):
        return ""
    return _without_added(match["words"].partition(_NOTE_AFTER)[0])


def _typed(text: str) -> Words:
    text = _without_added(text)
    if not text or text.startswith((_INTERRUPTION, *NOTICES)) or text == _TOOL_LOADED:
        return Words()
    if text.startswith("<command-"):
        return _commanded(text)
    if text.startswith(_HAND_OFF):
        return Words(starts_work=True)
    if _IMAGES_ONLY.fullmatch(text) or _COMMAND_ALONE.fullmatch(text):
        return Words(starts_work=True)
    return Words(text=text, starts_work=True)


def _commanded(text: str) -> Words:
    """A slash command: the message comes first when it is a prompt for the agent, the name when it is local."""
    match = _COMMAND.match(text)
    if match is None or text.startswith("<command-name>"):
        return Words()
    return Words(text=(match["args"] or "").strip(), command=match["name"].strip(), starts_work=True)


def _without_added(text: str) -> str:
    """The text without the blocks that Claude Code or the editor put before and after it."""
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
"""The reason later versions give to a ``remove`` that hands words to the running turn; earlier ones give none."""

NOTIFICATION = "<task-notification"


class Queue:
    """The texts waiting in the queue, first in first out."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._gone_before = 0

    def move(self, operation: str, text: str, reason: str) -> str:
        """Follow one queue operation; the text that went to the agent by it and may stand nowhere else, or ""."""
        match operation:
            case "enqueue":
                self._waiting.append(text)
            case "dequeue" if self._waiting:
                self._waiting.pop(0)
            case "popAll":  # taken back into the input box, which notices are not
                self._waiting = [waiting for waiting in self._waiting if waiting.startswith(NOTIFICATION)]
            case "remove":
                removed = self._remove(text)
                return removed if reason in {"", ABSORBED} else ""
        return ""

    def attached(self, text: str) -> None:
        """The text went into the running turn as an attachment; its ``remove`` may be yet to come."""
        if text in self._waiting:
            self._waiting.remove(text)
            self._gone_before += 1

    def _remove(self, text: str) -> str:
        """Take out the named text, or the first one where the record names none."""
        if text:
            if text not in self._waiting:
                return ""
            self._waiting.remove(text)
            return text
        if self._gone_before:
            self._gone_before -= 1
            return ""
        return self._waiting.pop(0) if self._waiting else ""
