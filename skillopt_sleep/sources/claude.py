"""Claude Code sessions: ``projects/<folder>/<session>.jsonl`` below each of its homes.

One Claude Code session file, record by record, made into a session.

Only what a person typed begins a turn. It stands in ordinary user records, and hides in four more places: words typed
while the agent worked, as an attachment; text beside a tool's result; what was said while refusing a tool call; and
words that only the queue remembers.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from skillopt_sleep.model.session import PromptKind, Session, SessionFile, Skip, is_own_run
from skillopt_sleep.sources.claude_records import (
    Attachment,
    Block,
    Message,
    Queue,
    Record,
    Words,
    answers_of,
    blocks_of,
    decode_input,
    decode_record,
    is_interruption,
    rejection_words,
    shell_result,
    text_of,
    typed_words,
)
from skillopt_sleep.sources.files import feed, session_files
from skillopt_sleep.sources.turns import Draft, TurnLog

WITHOUT_PERSON = frozenset({"memory", "subagents", "tool-results"})
"""Folders below ``projects`` in which no person's words lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeSource:
    """Sessions of Claude Code.

    ``homes`` are its configuration folders (``~/.claude``, each of ``CLAUDE_CONFIG_DIR``). Records written through an
    entrypoint of ``headless`` are a program's: ``sdk-cli`` is ``claude -p``. Editors and other programs of a person
    speak through the SDK as well (``sdk-ts``, ``sdk-py``), so these count unless they are named here.
    """

    homes: tuple[str, ...] = ()
    headless: tuple[str, ...] = ("sdk-cli",)

    @property
    def name(self) -> str:
        """The registry name."""
        return "claude"

    def files(self, skipped: Callable[[Skip], None]) -> Iterator[SessionFile]:
        """Every session file of every home, each home once however it is spelled."""
        roots = [os.path.join(home, "projects") for home in self.homes]  # noqa: PTH118 - paths are plain strings here
        for root in {os.path.realpath(root): root for root in roots}.values():
            yield from session_files(root, skipped, without=WITHOUT_PERSON)

    def read(self, file: SessionFile, skipped: Callable[[Skip], None]) -> Session | None:
        """One session; None when no person typed in it."""
        session = ClaudeSession(file.path, frozenset(self.headless))
        feed(file.path, session.take, skipped)
        return session.session()


SHELLS = frozenset({"Bash", "PowerShell"})
EDITORS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
QUESTION = "AskUserQuestion"
SKILL = "Skill"
READ_INPUTS = SHELLS | EDITORS | {SKILL}
"""The tools whose arguments say something we read."""

SYNTHETIC = "<synthetic>"
"""The model named in texts that Claude Code wrote in the model's place, such as API errors."""

MACHINE_DENIALS = frozenset({"automode-blocked", "permission-rule"})
"""Kinds of refusal in which no person had a say."""

_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d{1,9})\b")
_NEVER_RAN = ("The user doesn't want to", "Permission for this", "Claude requested permissions", "<tool_use_error>")


class ClaudeSession:
    """Takes the lines of one file in order; ``headless`` are the entrypoints behind which nobody types."""

    def __init__(self, path: str, headless: frozenset[str]) -> None:
        self._path = path
        self._headless = headless
        self._log = TurnLog()
        self._queue = Queue()
        self._from_queue: dict[str, Draft] = {}
        self._seen: set[str] = set()
        self._told: set[str] = set()
        self._questions: set[str] = set()
        self._first_words: str | None = None
        self._session_id = ""
        self._entrypoint = ""
        self._cwd = ""
        self._cwds: set[str] = set()
        self._branch = ""
        self._model = ""
        self._started_at = ""
        self._ended_at = ""

    def take(self, line: bytes) -> None:
        """Read one line. Raises one of ``jsonl.FAULTS`` when it is no record."""
        record = decode_record(line)
        match record.type:
            case "assistant" | "user":
                if isinstance(record.message, Message) and self._is_new(record):
                    self._place(record)
                    read = self._assistant if record.type == "assistant" else self._user
                    read(record, record.message)
            case "attachment":
                if record.attachment is not None and self._is_new(record):
                    self._place(record)
                    self._attachment(record, record.attachment)
            case "queue-operation":
                self._queue_operation(record)

    def session(self) -> Session | None:
        """What the lines made up; None when no person typed in it, or when it was one of our own runs."""
        if any(is_own_run(cwd, self._first_words or "") for cwd in self._cwds or {""}):
            return None
        turns = self._log.turns()
        if not turns:
            return None
        return Session(
            source="claude",
            path=self._path,
            session_id=self._session_id or os.path.basename(self._path).removesuffix(".jsonl"),  # noqa: PTH119 - a name
            cwd=self._cwd,
            branch=self._branch,
            model=self._model,
            started_at=self._started_at,
            ended_at=self._ended_at,
            turns=turns,
        )

    def _is_new(self, record: Record) -> bool:
        """Whether a record belongs to the conversation and comes for the first time: resume and fork repeat them."""
        if record.is_sidechain or record.uuid in self._seen:
            return False
        if record.uuid:
            self._seen.add(record.uuid)
        return True

    def _place(self, record: Record) -> None:
        """Where and when the session was."""
        if record.cwd and record.cwd not in self._cwds:
            self._cwd = self._cwd or record.cwd
            self._cwds.add(record.cwd)
        stamp = record.timestamp
        if stamp and stamp > self._ended_at:
            self._started_at = self._started_at or stamp
            self._ended_at = stamp
        self._entrypoint = record.entrypoint or self._entrypoint
        self._branch = record.git_branch or self._branch
        if not self._session_id:
            self._session_id = record.session_id or ""

    def _assistant(self, record: Record, message: Message) -> None:
        invented = record.is_api_error_message or message.model == SYNTHETIC
        if message.model and not invented:
            self._model = message.model
        for block in blocks_of(message.content):
            if block.type == "text":
                if not invented and block.text and block.text.strip():
                    self._log.current.final = block.text
            elif block.type == "tool_use" and block.name:
                self._call(block, block.name)

    def _call(self, block: Block, name: str) -> None:
        turn = self._log.current
        turn.tools[name] = None
        if name == QUESTION:
            self._questions.add(block.id or "")
        if name not in READ_INPUTS:
            return
        given = decode_input(block.input)
        if name in SHELLS and given.command:
            self._log.run(block.id or "", given.command)
        elif name in EDITORS and (path := given.file_path or given.notebook_path):
            turn.files[path] = None
        elif name == SKILL and (skill := given.skill or given.command):
            turn.skills[skill.removeprefix("/")] = None

    def _user(self, record: Record, message: Message) -> None:
        texts: list[str] = []
        beside_result = False
        for block in blocks_of(message.content):
            if block.type == "tool_result":
                beside_result = True
                self._result(record, block)
            elif block.type == "text" and block.text:
                texts.append(block.text)
        if not texts:
            return
        if self._first_words is None:
            self._first_words = "\n".join(texts)
        if any(map(is_interruption, texts)):
            self._log.interrupt()
        if _is_the_persons(record):
            words = Words(starts_work=True) if record.plan_content else typed_words(texts)
            self._typed(record, words, PromptKind.QUEUED if beside_result else PromptKind.TYPED)

    def _typed(self, record: Record, words: Words, kind: PromptKind) -> None:
        """What came in a person's name: words begin a turn, and anything else that sets the agent to work ends one."""
        if not words.starts_work:
            return
        if not words.text or self._entrypoint in self._headless:
            self._log.cut()
        elif words.text in self._from_queue:
            self._from_queue.pop(words.text).id = self._id(record, words.text)
        else:
            if kind is PromptKind.TYPED:
                self._from_queue.clear()
            self._say(record, words.text, kind)
        if words.command:
            self._log.current.skills[words.command] = None

    def _result(self, record: Record, block: Block) -> None:
        call = block.tool_use_id or ""
        if block.is_error:
            self._failed(record, block, call)
            return
        if call in self._questions:
            if chosen := "\n".join(answers_of(record.tool_use_result)):
                self._log.aside(chosen, id=self._id(record, chosen), kind=PromptKind.ANSWER, at=record.timestamp or "")
        elif self._log.is_running(call):
            done = shell_result(record.tool_use_result)
            unknown = done.interrupted or done.background_task_id or done.return_code_interpretation
            self._log.ended(call, None if unknown else 0)

    def _failed(self, record: Record, block: Block, call: str) -> None:
        content = text_of(block.content)
        if content.startswith(_NEVER_RAN):
            self._log.never_ran(call)
        elif match := _EXIT_CODE.match(content):
            self._log.ended(call, int(match[1]))
        if record.tool_denial_kind not in MACHINE_DENIALS and (words := rejection_words(content)):
            self._say(record, words, PromptKind.REJECTION)

    def _attachment(self, record: Record, attachment: Attachment) -> None:
        if attachment.type != "queued_command":
            return
        text = text_of(attachment.prompt)
        self._queue.attached(text)
        human = attachment.origin is None or attachment.origin.kind in {None, "human"}
        if attachment.command_mode == "prompt" and human and not attachment.is_meta:
            self._typed(record, typed_words([text]), PromptKind.QUEUED)

    def _queue_operation(self, record: Record) -> None:
        text = self._queue.move(record.operation or "", text_of(record.content), record.reason or "")
        words = typed_words([text]).text
        if words and self._entrypoint not in self._headless:
            self._from_queue[words] = self._say(record, words, PromptKind.QUEUED)

    def _say(self, record: Record, text: str, kind: PromptKind) -> Draft:
        return self._log.begin(text, id=self._id(record, text), kind=kind, at=record.timestamp or "")

    def _id(self, record: Record, text: str) -> str:
        """The record's own id; where it has none, or has had its turn, a digest of what makes the words unique."""
        if record.uuid and record.uuid not in self._told:
            self._told.add(record.uuid)
            return record.uuid
        known = f"{record.uuid or record.session_id}\0{record.timestamp}\0{text}"
        return hashlib.sha256(known.encode()).hexdigest()[:32]


def _is_the_persons(record: Record) -> bool:
    """Whether the text of a user record may be a person's: expansions, summaries and notices say that it is not."""
    if record.is_meta or record.is_compact_summary or record.turn_companion or record.source_tool_use_id:
        return False
    if record.origin is not None and record.origin.kind is not None:
        return record.origin.kind == "human"
    return record.prompt_source != "system"


PLUGIN = ClaudeSource
