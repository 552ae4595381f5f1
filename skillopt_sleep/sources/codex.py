"""Codex rollouts: live ones by day in ``sessions/``, old ones in ``archived_sessions/``.

Which of the text that Codex sends in the user's name a person typed.

Codex puts context between a person's messages as further messages of the user, and its desktop and editor front-ends
wrap what was typed. Told apart by the forms it writes, never by their content.

One Codex rollout, record by record, made into a session.

Every prompt is written twice: as an event that says so, and as a message of the user among others that nobody typed.
The event counts. Only a rollout without any such event, from an early version, is read by its messages.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec import Raw

from skillopt_sleep.model.session import PromptKind, Session, SessionFile, Skip, is_own_run
from skillopt_sleep.sources.codex_records import (
    SHELL_TOOLS,
    Payload,
    SessionMeta,
    command_line,
    commands_in_script,
    decode_beginning,
    decode_item,
    decode_payload,
    decode_record,
    joined,
    outcome,
    patched_files,
    pieces_of,
    shell_call,
    stdin_of,
    text_of,
)
from skillopt_sleep.sources.files import feed, session_files
from skillopt_sleep.sources.turns import TurnLog


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexSource:
    """Sessions of Codex. ``home`` is its folder (``~/.codex``, or ``CODEX_HOME``); "" means that there is none."""

    home: str = ""

    @property
    def name(self) -> str:
        """The registry name."""
        return "codex"

    def files(self, skipped: Callable[[Skip], None]) -> Iterator[SessionFile]:
        """Every rollout; of one that lies in both folders under the same name, the live one."""
        if not self.home:
            return
        live = os.path.join(self.home, "sessions")  # noqa: PTH118 - paths are plain strings here
        names: set[str] = set()
        for file in session_files(live, skipped):
            names.add(file.path.removeprefix(live))
            yield file
        archive = os.path.join(self.home, "archived_sessions")  # noqa: PTH118 - as above
        if os.path.isdir(archive):  # noqa: PTH112 - as above
            for file in session_files(archive, skipped):
                if file.path.removeprefix(archive) not in names:
                    yield file

    def read(self, file: SessionFile, skipped: Callable[[Skip], None]) -> Session | None:
        """One session; None for a sub-agent, and when no person typed in it."""
        session = CodexSession(file.path)
        feed(file.path, session.take, skipped)
        return session.session()


CONTEXT_TAGS = (
    "additional_context",
    "app-context",
    "apps_instructions",
    "codex_internal_context",
    "collaboration_mode",
    "environment_context",
    "environments_instructions",
    "external_",
    "goal_context",
    "heartbeat",
    "hook_prompt",
    "image",
    "/image",
    "internal_model_context",
    "multi_agent_mode",
    "permissions",
    "personality_spec",
    "plugins_instructions",
    "recommended_plugins",
    "skill",
    "skills_instructions",
    "subagent_notification",
    "turn_aborted",
    "user_action",
    "user_instructions",
    "user_shell_command",
)
"""A message that begins with one of these tags is context (``user_shell_command``: a command for the shell)."""

_CONTEXT = re.compile(
    rf"<(?:{'|'.join(map(re.escape, CONTEXT_TAGS))})[^<>]*>"
    r"|# AGENTS\.md instructions"
    r"|Warning: (?:apply_patch was requested via|The maximum number of unified exec processes)"
)
_REQUEST = re.compile(r"^## My request for Codex:[ \t]*", re.MULTILINE)
_SKILL = re.compile(r"<skill>\s*<name>(?P<name>[^<]+)</name>")


def typed_words(text: str) -> str:
    """What a person typed of one message; "" when it is context, or only an image."""
    text = text.strip()
    if _CONTEXT.match(text):
        return ""
    wrapped = _REQUEST.search(text)
    return text[wrapped.end() :].strip() if wrapped else text


def skill_named(text: str) -> str:
    """The name of the skill whose text a message hands to the agent, "" when it hands over none."""
    match = _SKILL.match(text.lstrip())
    return match["name"].strip() if match else ""


UNATTENDED = frozenset({"exec", "mcp"})
"""Sources of a session in which the prompt may come from a person's shell or from a program."""

INTERNAL = frozenset({"memory_consolidation", "subagent"})
"""Threads that Codex starts by itself."""

PERSONS_TEXT = "user.text"

_ID_IN_NAME = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class CodexSession:
    """Takes the lines of one rollout in order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = TurnLog()
        self._meta: SessionMeta | None = None
        self._events = False
        self._told: dict[str, Counter[str]] = {"user_message": Counter(), "UserMessage": Counter()}
        self._ids: Counter[str] = Counter()
        self._processes: dict[str, str] = {}
        self._first_words = ""
        self._kind = PromptKind.TYPED
        self._nobodys = False
        self._model = ""
        self._at = ""
        self._started_at = ""

    def take(self, line: bytes) -> None:
        """Read one line. Raises one of ``jsonl.FAULTS`` when it is no record."""
        if self._nobodys:
            return
        record = decode_record(line)
        payload = record.payload
        self._at = record.timestamp or self._at
        self._started_at = self._started_at or self._at
        match record.type:
            case "session_meta":
                self._begin(decode_beginning(line).payload)
            case "response_item" if payload is not None:
                self._response(payload)
            case "event_msg" if payload is not None:
                self._event(payload)
            case "turn_context" if payload is not None:
                self._model = payload.model or self._model
            case "function_call" | "function_call_output" | "message" | "local_shell_call":
                self._response(decode_payload(line))

    def session(self) -> Session | None:
        """What the lines made up; None for a sub-agent, one of our own runs, and when no person typed in it."""
        meta = self._meta or SessionMeta()
        turns = self._log.turns()
        if self._nobodys or not turns or is_own_run(meta.cwd or "", self._first_words):
            return None
        return Session(
            source="codex",
            path=self._path,
            session_id=self._id(),
            cwd=meta.cwd or "",
            branch=(meta.git and meta.git.branch) or "",
            commit=(meta.git and meta.git.commit_hash) or "",
            model=self._model,
            started_at=self._started_at,
            ended_at=self._at,
            turns=turns,
        )

    def _begin(self, meta: SessionMeta) -> None:
        """The first ``session_meta`` decides: it comes again on resume, and a fork adds the one of its parent."""
        if self._meta is not None:
            return
        self._meta = meta
        self._nobodys = isinstance(meta.source, dict) or meta.thread_source in INTERNAL
        if isinstance(meta.source, str) and meta.source in UNATTENDED:
            self._kind = PromptKind.HEADLESS

    def _id(self) -> str:
        name = os.path.basename(self._path)  # noqa: PTH119 - a name, not a path
        in_name = _ID_IN_NAME.search(name)
        return (self._meta and self._meta.id) or (in_name[0] if in_name else name.removesuffix(".jsonl"))

    def _event(self, event: Payload) -> None:
        match event.type:
            case "user_message" if event.kind in {None, "plain"}:
                self._told_by(event.type, text_of(event.message))
            case "item_completed":
                self._item(event.item)
            case "turn_aborted" if event.reason in {None, "interrupted"}:
                self._log.interrupt()
            case "exec_command_end" if event.exit_code is not None:
                self._log.ended(event.call_id or "", event.exit_code)
            case "task_complete" if event.last_agent_message and not self._log.current.final:
                self._log.current.final = event.last_agent_message

    def _item(self, raw: Raw) -> None:
        item = decode_item(raw)
        match item.type:
            case "UserMessage":
                self._told_by(item.type, text_of(item.content))
            case "CommandExecution":
                self._log.ran(command_line(item.command), item.exit_code)
            case "FileChange":
                self._log.current.files.update(dict.fromkeys(item.changes or ()))

    def _told_by(self, channel: str, text: str) -> None:
        """A prompt told by an event; versions that tell it by both kinds of event mean one prompt."""
        told = self._told[channel]
        told[text] += 1
        if told[text] > max(other[text] for name, other in self._told.items() if name != channel):
            if not self._events:
                self._events = True
                self._log.forget_prompts()
            self._say(text)

    def _response(self, item: Payload) -> None:
        match item.type:
            case "message" if item.role == "user":
                self._message(item)
            case "message" if item.role == "assistant":
                if (text := text_of(item.content)).strip():
                    self._log.current.final = text
            case "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" | "tool_search_call":
                self._call(item, item.name or item.type)
            case "function_call_output" | "custom_tool_call_output":
                self._output(item)

    def _message(self, item: Payload) -> None:
        """A message of the user: a prompt only where no event tells of prompts, and then only what is no context."""
        pieces = pieces_of(item.content)
        for name in filter(None, map(skill_named, pieces)):
            self._log.current.skills[name] = None
        if self._events:
            return
        kinds = item.kinds.content_item_kinds if item.kinds else None
        if kinds and len(kinds) == len(pieces):
            pieces = [piece for piece, kind in zip(pieces, kinds, strict=True) if kind == PERSONS_TEXT]
        self._say(joined([words for piece in pieces if (words := typed_words(piece))]))

    def _say(self, text: str) -> None:
        self._first_words = self._first_words or text
        words = typed_words(text)
        if not words:
            return
        known = f"{self._id()}\0{self._at}\0{words}"
        self._ids[known] += 1  # two equal prompts of one moment are two
        digest = hashlib.sha256(f"{known}\0{self._ids[known]}".encode()).hexdigest()[:32]
        self._log.begin(words, id=digest, kind=self._kind, at=self._at)

    def _call(self, item: Payload, name: str) -> None:
        turn = self._log.current
        turn.tools[name] = None
        call = item.call_id or ""
        written = text_of(item.input) if item.type == "custom_tool_call" else ""
        if name in SHELL_TOOLS or item.type == "local_shell_call":
            given = {"local_shell_call": item.action, "custom_tool_call": item.input}.get(item.type, item.arguments)
            shell = shell_call(given)
            written = command_line(shell.cmd, shell.command)
            if written:
                self._log.run(call, written)
        elif name == "write_stdin" and (process := stdin_of(item.arguments)) in self._processes:
            self._processes[call] = self._processes[process]
        elif name == "exec":
            for number, line in enumerate(commands_in_script(written)):
                self._log.run(f"{call}#{number}", line)
        elif name == "apply_patch" and not written:
            written = text_of(item.arguments)
        turn.files.update(dict.fromkeys(patched_files(written)))

    def _output(self, item: Payload) -> None:
        call = item.call_id or ""
        call = self._processes.get(call, call)
        if not self._log.is_running(call):
            return
        ended = outcome(item.output)
        if ended.session:
            self._processes[ended.session] = call
        elif ended.status is not None:
            self._log.ended(call, ended.status)


PLUGIN = CodexSource
