"""Claude Code at work: the CLI itself loads the candidate's skill and memory, in a throwaway workspace.

The user's login stays in place; their memory, skills, hooks, plugins and MCP servers take no part, because of all
settings only those of the workspace are read (``--setting-sources=project``), and there the project's own were taken
away. What was loaded is told by the CLI's own records: its list of skills, a hook of ours on loaded instructions, and
the text of a skill as it is handed to the model.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.claude_events import PRINTED, ClaudeResult, announced_wait, find_result, result_of
from skillopt_sleep.backends.process import Children, Ended, folder_prefix
from skillopt_sleep.backends.register import Note
from skillopt_sleep.backends.sandbox import bubblewrap, command_environment, proven, run_commands
from skillopt_sleep.backends.workspace import Layout, Workspace, workspace
from skillopt_sleep.domain import Json
from skillopt_sleep.domain.assignment import Assignment, Ending, ReplayMode, Shown, Trajectory, skill_name
from skillopt_sleep.domain.call import Usage
from skillopt_sleep.domain.document import Document, DocumentKind, region
from skillopt_sleep.errors import EmptyReply, Overloaded, TooLong

__all__ = ["LAYOUT", "NativeClaude", "read_trajectory"]

LAYOUT = Layout(
    skills=".claude/skills",
    memory="CLAUDE.md",
    settings=(".claude", ".claude-plugin", ".mcp.json"),
    texts=("skills", "rules", "commands", "claude.md", "CLAUDE.md"),
)
ISOLATION = ("--setting-sources=project", "--strict-mcp-config", "--no-session-persistence")
TOOLS: Mapping[ReplayMode, str] = {
    ReplayMode.NATIVE: "Skill,Read,Edit,Write",
    ReplayMode.WORKTREE: "Skill,Read,Edit,Write,Glob,Grep,Bash",
}
"""Those without a shell keep within the workspace by themselves; a shell is for the sandbox alone."""
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_MAX_RETRIES": "1",
    # its own notes would be written into the user's home, and be read by later replays
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
}
LOGIN_SETTINGS = (
    "apiKeyHelper",
    "awsAuthRefresh",
    "awsCredentialExport",
    "env",
    "forceLoginMethod",
    "forceLoginOrgUUID",
)
"""Of the user's settings, what a login may rest on; the rest of them takes no part."""
SANDBOX: dict[str, Json] = {
    "enabled": True,
    "failIfUnavailable": True,
    "autoAllowBashIfSandboxed": True,
    "allowUnsandboxedCommands": False,
    "network": {"allowedDomains": [], "allowLocalBinding": False},
}
NEEDED = ("bwrap", "socat")
LOADED = "loaded.jsonl"
STARTED, INSTRUCTIONS = "UserPromptSubmit", "InstructionsLoaded"
"""The hooks of ours: that the first was called shows that hooks run at all, the second names a file of memory."""
TELLS_MEMORY = (2, 1, 197)
"""The first version seen to call the second."""
FOR_PEOPLE_ALONE = re.compile(rb"(?m)^disable-model-invocation:\s*[\"']?true")
"""In the frontmatter of a skill: the CLI lists it, and the model is not told of it."""
STARTING, SLACK = 15.0, 2.0
"""Seconds that it may take to start on a busy machine, and to say by itself that a call has timed out."""
MENTION = re.compile(r"(?<![A-Za-z0-9])@(?![ \n])")
"""What could be ``@path``, which in a prompt would put that file into the request, without any tool.

Every version reads it so where a word, or what follows 。、？！, begins with it; an address of mail is none.
"""
NOT_CONFINED = "Sandbox is required but failed to initialize"
"""How the answer to a command begins that was not run, because there was no sandbox for it."""
LONGEST_SCRATCH = 70
"""Bytes of a folder in which it can still make its sockets: a path of one has 107, of which it takes 35."""
SHORT_TEMP = "/tmp"  # noqa: S108  a folder nobody can foresee is made in it


class NativeClaude(Struct, frozen=True, kw_only=True):
    """What a run needs of the backend: the program, its environment and limits. ``seconds`` is for the whole loop."""

    command: str
    model: str
    env: Mapping[str, str]
    children: Children
    seconds: float
    call_seconds: float
    max_turns: int
    max_usd: float = 0.0

    def refuses(self, mode: ReplayMode) -> str:
        """Why this machine cannot replay so; see ``ports.Agent.refuses``."""
        if mode is not ReplayMode.WORKTREE:
            return ""
        if sys.platform != "linux":
            return "claude's sandbox is proven on Linux and WSL alone: use --replay native, or --backend codex"
        missing = [name for name in (*NEEDED, "git") if self._find(name) is None]
        if missing:
            names = {"bwrap": "bubblewrap"}
            install = " ".join(names.get(name, name) for name in missing)
            return f"no sandbox for claude, {' and '.join(missing)} missing: install them (apt-get install {install})"
        problem = proven(self.children, bubblewrap(self._find("bwrap") or ""), self.env)
        return f"the sandbox for claude does not work here: {problem}" if problem else ""

    def run(self, assignment: Assignment) -> Trajectory:
        """Let it work; see ``ports.Agent.run``. Raises ``DiskError`` too."""
        with workspace(self.children, assignment, LAYOUT, self.env) as place:
            session = str(uuid.uuid4())
            try:
                with self._scratch(place) as scratch:
                    ended = self._work(assignment, place, scratch, session)
            finally:
                self._tidy(session)
            if any(event.refused_command for event in _events(ended.stdout)):
                raise Overloaded(f"claude's sandbox did not start, so no command of the agent was run: {NOT_CONFINED}")
            done = read_trajectory(
                ended, assignment, place.root, model=self.model, deadline=self.seconds, call_seconds=self.call_seconds
            )
            done = with_memory(done, assignment, place, _lines(place.folder / LOADED), version_of(ended.stdout))
            changes = place.changes()
            if changes is None:
                return msgspec.structs.replace(done, ending=Ending.BROKE_WORKSPACE, note=place.broken)
            runs = run_commands(
                assignment.commands,
                place,
                bubblewrap(self._find("bwrap") or "bwrap"),
                self.children,
                command_environment(self.env, place.scratch),
            )
            return msgspec.structs.replace(done, changes=changes, runs=runs)

    def _tidy(self, session: str) -> None:
        """Take away the empty folder that a session with a shell leaves in the user's home, once for each."""
        with contextlib.suppress(OSError):  # it is not there, or holds what is not ours
            (_config_folder(self.env) / "session-env" / session).rmdir()

    @contextlib.contextmanager
    def _scratch(self, place: Workspace) -> Iterator[Path]:
        """Where it may put what is temporary; a shorter path than the workspace's where its sockets need one."""
        if len(os.fsencode(place.scratch)) <= LONGEST_SCRATCH or not os.access(SHORT_TEMP, os.W_OK):
            yield place.scratch
            return
        self.children.register.note(Note(kind="temp", paths=(SHORT_TEMP,)))
        prefix = folder_prefix(self.children.register.mark)
        with tempfile.TemporaryDirectory(prefix=prefix, dir=SHORT_TEMP, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def _find(self, name: str) -> str | None:
        return shutil.which(name, path=self.env.get("PATH", ""))

    def _work(self, assignment: Assignment, place: Workspace, scratch: Path, session: str) -> Ended:
        settings, system = place.folder / "settings.json", place.folder / "system.md"
        settings.touch(mode=0o600)
        settings.write_bytes(msgspec.json.encode(self._settings(assignment.mode, place)))
        system.write_text(assignment.system, encoding="utf-8", errors="replace")
        argv = [self.command, "-p", *ISOLATION, *PRINTED, f"--max-turns={self.max_turns}"]
        argv += [f"--tools={TOOLS[assignment.mode]}", "--permission-mode=acceptEdits"]
        argv += [f"--session-id={session}", f"--settings={settings}", f"--append-system-prompt-file={system}"]
        argv += [f"--model={self.model}"] if self.model else []
        argv += [f"--max-budget-usd={self.max_usd:.4f}"] if self.max_usd else []
        env = {**self.env, **QUIET, "TMPDIR": str(scratch), "API_TIMEOUT_MS": str(int(self.call_seconds * 1000))}
        words = MENTION.sub("@ ", assignment.user)
        # a first line that begins with a slash would be run as a command of the CLI
        words = f"\n{words}" if words.startswith("/") else words
        return self.children.run(
            argv,
            env=env,
            cwd=place.cwd,
            seconds=self.seconds,
            stdin=words,
            waits=announced_wait,
            patience=functools.partial(may_be_quiet, call_seconds=self.call_seconds),
        )

    def _settings(self, mode: ReplayMode, place: Workspace) -> dict[str, Json]:
        """The login's settings of the user, a hook that notes what memory is loaded, and the sandbox of a shell."""
        settings: dict[str, Json] = {name: value for name, value in _users(self.env).items() if name in LOGIN_SETTINGS}
        if sys.platform != "win32":
            noted = shlex.quote(str(place.folder / LOADED))
            told: Json = [{"hooks": [{"type": "command", "command": f"cat >> {noted}; echo >> {noted}"}]}]
            settings["hooks"] = dict.fromkeys((STARTED, INSTRUCTIONS), told)
        if mode is ReplayMode.WORKTREE:
            settings |= {"sandbox": SANDBOX, "permissions": {"allow": ["Bash"]}}
        return settings


def _config_folder(env: Mapping[str, str]) -> Path:
    """Where the user's Claude Code lives."""
    named = env.get("CLAUDE_CONFIG_DIR", "").partition(",")[0]
    return Path(named) if named else Path(env.get("HOME") or env.get("USERPROFILE", "")) / ".claude"


def may_be_quiet(printed: str, *, call_seconds: float) -> float:
    """The seconds that it may go on without a word: as long as it likes while a tool runs, else as long as a call."""
    if not printed:
        return call_seconds + STARTING
    running = printed.count('"type":"tool_use"') > printed.count('"type":"tool_result"')
    return math.inf if running else call_seconds + SLACK


def _users(env: Mapping[str, str]) -> dict[str, Json]:
    """The user's own settings file; an unreadable one is none, as the CLI itself would say."""
    try:
        return msgspec.json.decode((_config_folder(env) / "settings.json").read_bytes(), type=dict[str, Json])
    except (OSError, ValueError):  # the latter is also for what is no text at all
        return {}


class _Block(Struct, frozen=True, kw_only=True):
    type: str = ""
    text: str = ""
    name: str = ""
    input: Json = None
    is_error: bool | None = None
    content: Json = None


class _Message(Struct, frozen=True, kw_only=True):
    id: str = ""
    content: tuple[_Block, ...] | str = ()
    usage: Json = None


class _Event(Struct, frozen=True, kw_only=True):
    """One line, as far as it tells what the agent was given and what it did."""

    type: str = ""
    subtype: str = ""
    skills: tuple[str, ...] | None = None
    version: str = msgspec.field(name="claude_code_version", default="")
    session_id: str = ""
    message: _Message | None = None
    synthetic: bool = msgspec.field(name="isSynthetic", default=False)

    @property
    def blocks(self) -> tuple[_Block, ...]:
        content = self.message.content if self.message else ()
        return content if isinstance(content, tuple) else (_Block(type="text", text=content),)

    @property
    def refused_command(self) -> bool:
        """Whether a command was not run for want of a sandbox; what a command itself prints is never put so."""
        return any(
            block.type == "tool_result" and block.is_error is True and str(block.content).startswith(NOT_CONFINED)
            for block in self.blocks
        )


def read_trajectory(
    ended: Ended,
    assignment: Assignment,
    root: Path,
    *,
    model: str,
    deadline: float,
    call_seconds: float = math.inf,
) -> Trajectory:
    """What the agent did, from what the CLI printed; pure. Raises what ``result_of`` raises for lost transport."""
    events = tuple(_events(ended.stdout))
    said = [event for event in events if event.type == "assistant"]
    ending, result = _ending(ended, said, deadline, call_seconds)
    called = [block for event in said for block in event.blocks if block.type == "tool_use"]
    text = (result.result or "") if result and ending in {Ending.DONE, Ending.REFUSED} else _last_words(said)
    if ending is Ending.DONE and not text.strip() and not called:
        raise EmptyReply("claude ended well and said nothing")
    return Trajectory(
        text=text,
        model=next(iter(result.model_usage), model) if result else model,
        usage=(result.spent if result else None) or _counted(said),
        cost_usd=result.total_cost_usd if result else None,
        latency=ended.seconds,
        tools_called=tuple(dict.fromkeys(block.name for block in called)),
        ending=ending,
        turns=result.num_turns if result else len({event.message.id for event in said if event.message}),
        shown=tuple(_skill_shown(events, document, root) for document in _skills(assignment)),
        skills_called=tuple(dict.fromkeys(_skill_called(block) for block in called if block.name == "Skill")),
    )


def _ending(
    ended: Ended, said: Sequence[_Event], deadline: float, call_seconds: float
) -> tuple[Ending, ClaudeResult | None]:
    """How it ended where that was the agent's own doing; raises where it was not."""
    result = find_result(ended.stdout)
    worked = bool(said)
    if ended.timed_out and worked and ended.quiet < may_be_quiet(ended.stdout, call_seconds=call_seconds):
        return Ending.OUT_OF_TIME, result
    if ended.flooded and worked:
        return Ending.OUT_OF_ROOM, result
    if result is not None and not ended.timed_out:
        if result.subtype == "error_max_turns":
            return Ending.OUT_OF_TURNS, result
        if result.stop_reason == "refusal":
            return Ending.REFUSED, result
    try:
        return Ending.DONE, result_of(ended, deadline=deadline)
    except TooLong:
        if len(said) > 1:
            return Ending.OUT_OF_ROOM, result
        raise


def with_memory(
    done: Trajectory, assignment: Assignment, place: Workspace, told: Sequence[Json], version: tuple[int, ...]
) -> Trajectory:
    """The trajectory with what our hooks were told of loaded memory, by a claude of this version."""
    document = next((each for each in assignment.documents if each.kind is DocumentKind.MEMORY), None)
    if document is None or document.content is None:
        return done
    calls = [each for each in told if isinstance(each, dict)]
    files = [str(each.get("file_path")) for each in calls if each.get("hook_event_name") == INSTRUCTIONS]
    wanted = (place.root / LAYOUT.memory).resolve()
    offered: bool | None = any(Path(name).resolve() == wanted for name in files)
    how = "its hook named the file"
    if not offered and (files or (calls and version >= TELLS_MEMORY)):
        how = f"it loaded {', '.join(files)[:200] or 'no memory file at all'}"
    elif not offered:
        offered, how = None, "this claude does not tell which memory it loads"
    shown = Shown(kind=DocumentKind.MEMORY, offered=offered, read=offered, how=how)
    return msgspec.structs.replace(done, shown=(*done.shown, shown))


def version_of(stdout: str) -> tuple[int, ...]:
    """The version that a CLI says it is of, () when it does not."""
    found = next((event.version for event in _events(stdout) if event.version), "")
    return tuple(int(part) for part in re.findall(r"\d+", found)[:3])


def _skills(assignment: Assignment) -> list[Document]:
    return [each for each in assignment.documents if each.kind is DocumentKind.SKILL and each.content is not None]


def _skill_shown(events: Sequence[_Event], document: Document, root: Path) -> Shown:
    """Whether the skill was on the CLI's list, and whether its text, from our folder, went to the model."""
    name = skill_name(document)
    listed = next((event.skills for event in events if event.subtype == "init" and event.skills is not None), None)
    handed = [
        block.text for event in events if event.synthetic for block in event.blocks if "Base directory" in block.text
    ]
    ours = str((root / LAYOUT.skills / name).resolve())
    mine = [text for text in handed if ours in text or str(root / LAYOUT.skills / name) in text]
    other = [text for text in handed if text not in mine and Path(text.partition("\n")[0]).name == name]
    if other:
        return Shown(kind=document.kind, offered=False, read=False, how=f"another skill {name} took its place")
    read = any(_stands_in(region(document), text) for text in mine) or _read_as_file(events, root, name)
    if listed is None:
        return Shown(kind=document.kind, offered=None, read=read, how="this claude does not list its skills")
    if FOR_PEOPLE_ALONE.search((document.content or b"").partition(b"\n---")[0]):
        return Shown(kind=document.kind, offered=False, read=read, how="its frontmatter keeps it from the model")
    offered = name in listed
    how = "its text was handed to the model" if read else "it was on the list" if offered else "it was not on the list"
    return Shown(kind=document.kind, offered=offered, read=read, how=how)


def _stands_in(body: str, text: str) -> bool:
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return all(line in text for line in lines)


def _read_as_file(events: Sequence[_Event], root: Path, name: str) -> bool:
    """Whether the agent opened the file itself, which some do."""
    wanted = f"{LAYOUT.skills}/{name}/SKILL.md"
    paths = [
        str(block.input.get("file_path", ""))
        for event in events
        for block in event.blocks
        if block.type == "tool_use" and block.name == "Read" and isinstance(block.input, dict)
    ]
    return any(path in {wanted, str(root / wanted), str(root.resolve() / wanted)} for path in paths)


def _skill_called(block: _Block) -> str:
    given = block.input if isinstance(block.input, dict) else {}
    return str(given.get("skill") or given.get("command") or "").removeprefix("/")


def _last_words(said: Sequence[_Event]) -> str:
    texts = [block.text for event in said for block in event.blocks if block.type == "text" and block.text.strip()]
    return texts[-1] if texts else ""


def _counted(said: Sequence[_Event]) -> Usage:
    """The tokens of a run that was cut short: every message once, as far as it had come."""
    counted = {event.message.id: event.message.usage for event in said if event.message}
    tables = [each for each in counted.values() if isinstance(each, dict)]

    def total(*names: str) -> int:
        return sum(value for table in tables for name in names if isinstance(value := table.get(name), int))

    given = total("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Usage(input_tokens=given, output_tokens=total("output_tokens"), estimated=True)


def _events(stdout: str) -> Iterator[_Event]:
    for line in stdout.split("\n"):
        try:
            yield msgspec.json.decode(line, type=_Event)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue


def _lines(path: Path) -> list[Json]:
    found: list[Json] = []
    if path.exists():
        for line in path.read_bytes().splitlines():
            try:
                found.append(msgspec.json.decode(line))
            except msgspec.DecodeError:
                continue
    return found
