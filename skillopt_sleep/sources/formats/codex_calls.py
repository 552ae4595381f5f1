"""What the tool calls of a Codex rollout did: the commands and their exit statuses, the files of a patch."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from skillopt_sleep.sources.formats.codex_records import text_of

__all__ = [
    "Ended",
    "Shell",
    "command_line",
    "commands_in_script",
    "outcome",
    "patched_files",
    "shell_call",
    "stdin_of",
]

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
