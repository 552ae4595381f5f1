"""What Claude Code prints of its work, read: how it ended, and what of the candidate was in front of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.claude_output import ClaudeResult, find_result, result_of
from skillopt_sleep.backends.process import Ended
from skillopt_sleep.backends.workspace import Layout, Workspace
from skillopt_sleep.errors import EmptyReply, TooLong
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Usage
from skillopt_sleep.model.document import Document, DocumentKind, region
from skillopt_sleep.model.rollout import Assignment, Ending, Shown, Trajectory, skill_name

LAYOUT = Layout(
    skills=".claude/skills",
    memory="CLAUDE.md",
    settings=(".claude", ".claude-plugin", ".mcp.json"),
    texts=("skills", "rules", "commands", "claude.md", "CLAUDE.md"),
)
STARTED, INSTRUCTIONS = "UserPromptSubmit", "InstructionsLoaded"
"""The hooks of ours: that the first was called shows that hooks run at all, the second names a file of memory."""
TELLS_MEMORY = (2, 1, 197)
"""The first version seen to call the second."""
FOR_PEOPLE_ALONE = re.compile(rb"(?m)^disable-model-invocation:\s*[\"']?true")
"""In the frontmatter of a skill: the CLI lists it, and the model is not told of it."""
NOT_CONFINED = "Sandbox is required but failed to initialize"
"""How the answer to a command begins that was not run, because there was no sandbox for it."""


def at_work(printed: str) -> bool:
    """Whether a tool of its own runs."""
    return printed.count('"type":"tool_use"') > printed.count('"type":"tool_result"')


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
) -> Trajectory:
    """What the agent did, from what the CLI printed; pure. Raises what ``result_of`` raises for lost transport."""
    events = tuple(_events(ended.stdout))
    said = [event for event in events if event.type == "assistant"]
    ending, result = _ending(ended, said, deadline)
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


def _ending(ended: Ended, said: Sequence[_Event], deadline: float) -> tuple[Ending, ClaudeResult | None]:
    """How it ended where that was the agent's own doing; raises where it was not."""
    result = find_result(ended.stdout)
    worked = bool(said)
    if ended.timed_out and worked and not ended.silent:
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


def was_refused_a_sandbox(stdout: str) -> bool:
    """Whether a command of the agent's was not run because there was no sandbox for it."""
    return any(event.refused_command for event in _events(stdout))


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
