"""Codex at work: the CLI itself loads the candidate's skill and memory, in a throwaway workspace and a throwaway home.

The login is linked into that home and nothing else of the user's is there. Its commands run in Codex's own sandbox,
which reaches the workspace and no network. What was loaded stands in the record that Codex keeps of the session, in
that home: every word that went to the model. It is read, and thrown away with the home.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.child_registry import MARK
from skillopt_sleep.backends.codex_cli import LOGS, announced_wait, events_in, turn_of
from skillopt_sleep.backends.process import Children, Ended, Patience
from skillopt_sleep.backends.sandbox import KEPT, agent_environment, command_environment, proven, run_commands
from skillopt_sleep.backends.workspace import Layout, Workspace, workspace
from skillopt_sleep.errors import BackendError, DiskError, EmptyReply, TooLong
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Usage
from skillopt_sleep.model.document import Document, DocumentKind, region
from skillopt_sleep.model.rollout import Assignment, Ending, ReplayMode, Shown, Trajectory, skill_name

LAYOUT = Layout(skills=".agents/skills", memory="AGENTS.md", settings=(".codex", ".agents"), texts=("skills",))
EXEC = ("exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write", "--ignore-user-config")
CONFINED = (
    'sandbox_mode="workspace-write"',
    "sandbox_workspace_write.exclude_slash_tmp=true",  # other workspaces lie there
    "sandbox_workspace_write.network_access=false",
)
AT_WORK = (
    *CONFINED,
    "features.hooks=false",
    "features.memories=false",
    "features.goals=false",
    "features.sleep_tool=false",
    "agents.enabled=false",
    "tools.experimental_request_user_input.enabled=false",
    'web_search="disabled"',
    "notify=[]",
    # no key or token for its commands, but the mark by which they are found when they are left running
    "shell_environment_policy.ignore_default_excludes=false",
    f"shell_environment_policy.include_only={json.dumps(sorted({*KEPT, 'LC_*', 'TMPDIR', MARK}))}",
)
OWN = ("CODEX_", "OPENAI_")
"""How the names of variables begin that a login of its own may rest on; a provider's key is named in its settings."""
BEDROCK = "amazon-bedrock"
CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})


class NativeCodex(Struct, frozen=True, kw_only=True):
    """What a run needs of the backend. ``options`` are arguments that every call has; ``seconds`` is for the loop."""

    command: str
    model: str
    env: Mapping[str, str]
    home: Path
    children: Children
    options: tuple[str, ...]
    seconds: float
    call_seconds: float
    max_turns: int

    def refuses(self, mode: ReplayMode) -> str:
        """Why this machine cannot replay so; see ``ports.Agent.refuses``."""
        if mode is ReplayMode.WORKTREE and shutil.which("git", path=self.env.get("PATH", "")) is None:
            return "git is missing: install it (apt-get install git)"
        try:
            problem = proven(self.children, self._confine, self.env)
        except (BackendError, DiskError) as error:
            problem = str(error)
        if not problem:
            return ""
        return f"codex's sandbox does not work here ({problem}): install bubblewrap, and allow user namespaces"

    def run(self, assignment: Assignment) -> Trajectory:
        """Let it work; see ``ports.Agent.run``. Raises ``DiskError`` too."""
        with workspace(self.children, assignment, LAYOUT, self.env) as place:
            turns = _TurnLimit(self.max_turns)
            ended = self._work(assignment, place, turns)
            record = self._record(ended)
            deadline = self.call_seconds if ended.silent else self.seconds
            done = read_trajectory(
                ended, assignment, record, model=self.model, deadline=deadline, out_of_turns=turns.reached
            )
            changes = place.changes()
            if changes is None:
                return msgspec.structs.replace(done, ending=Ending.BROKE_WORKSPACE, note=place.broken)
            runs = run_commands(
                assignment.commands,
                place,
                self._confine,
                self.children,
                command_environment(self.env, place.scratch) | {"CODEX_HOME": str(self.home)},
            )
            return msgspec.structs.replace(done, changes=changes, runs=runs)

    def _work(self, assignment: Assignment, place: Workspace, turns: _TurnLimit) -> Ended:
        argv = [self.command, *EXEC, "-C", str(place.cwd), *self.options]
        argv += ["--model", self.model] if self.model else []
        told = json.dumps(assignment.system, ensure_ascii=False)
        for setting in (*AT_WORK, f"developer_instructions={told}"):
            argv += ["-c", setting]
        # in a folder below the usual one for temporary files it would not set up its sandbox
        said = " ".join(self.options)
        own = (*OWN, "AWS_") if BEDROCK in said else OWN
        env = {**LOGS, **agent_environment(self.env, own=own, said=said), "TMPDIR": str(place.scratch)}
        return self.children.run(
            [*argv, "-"],
            env=env,
            cwd=place.cwd,
            seconds=self.seconds,
            stdin=assignment.user,
            waits=turns,
            patience=Patience(self.call_seconds, at_work=at_work, tries_again=tries_again),
        )

    def _confine(self, argv: Sequence[str], workspace: Path, scratch: Path, _: Path) -> Sequence[str]:
        """A command in Codex's own sandbox; it may write where it stands, and in ``TMPDIR``."""
        settings = [part for setting in CONFINED for part in ("-c", setting)]
        roots = json.dumps([str(workspace), str(scratch)], ensure_ascii=False)
        settings += ["-c", f"sandbox_workspace_write.writable_roots={roots}"]
        return (self.command, "sandbox", *settings, "--", *argv)

    def _record(self, ended: Ended) -> Record | None:
        """What Codex noted of the session, taken out of the home: no other replay is to find it."""
        thread = next((event.thread for event in _threads(ended.stdout) if event.thread), "")
        if not thread or not thread.replace("-", "").isalnum():
            return None
        for path in (self.home / "sessions").rglob(f"rollout-*{thread}.jsonl"):
            record = read_record(path.read_bytes())
            path.unlink(missing_ok=True)
            return record
        return None


def at_work(printed: str) -> bool:
    """Whether a command of its own runs."""
    return '"type":"item.started"' in _last_event(printed)


def tries_again(printed: str) -> bool:
    """Whether the last it said is that it does."""
    return _last_event(printed).startswith('{"type":"error","message":"Reconnecting')


def _last_event(printed: str) -> str:
    return next((line for line in reversed(printed.split("\n")) if line.startswith("{")), "")


class _TurnLimit:
    """``process.Waits``: ends a child that has done more than it may, since codex has no limit of its own."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.reached = False

    def __call__(self, printed: str) -> float:
        """The wait it announces, or one without end for one that is to be ended."""
        self.reached = printed.count('"type":"item.completed"') > self._most
        return float("inf") if self.reached else announced_wait(printed)


class _Thread(Struct, frozen=True, kw_only=True):
    thread: str = msgspec.field(name="thread_id", default="")


class _Part(Struct, frozen=True, kw_only=True):
    text: str = ""


class _Payload(Struct, frozen=True, kw_only=True):
    type: str = ""
    role: str = ""
    content: tuple[_Part, ...] | None = None
    name: str = ""
    output: Json = None
    usage: Json = None


class _Line(Struct, frozen=True, kw_only=True):
    type: str = ""
    payload: _Payload | None = None


class Record(Struct, frozen=True, kw_only=True):
    """What went to the model beside its own words: ``told`` by the CLI or the user, ``results`` of tools; the tools it
    ``called``; ``requests`` to the model, and what they took.
    """  # noqa: D205

    told: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    requests: int = 0
    usage: Usage = Usage()


def read_record(content: bytes) -> Record:
    """The record of one session; lines and kinds that are unknown do not matter here. Pure."""
    payloads = [line.payload for line in _lines(content) if line.type == "response_item" and line.payload]
    usages = [line.payload.usage for line in _lines(content) if line.type == "token_usage_record" and line.payload]
    tables = [each for each in usages if isinstance(each, dict)]

    def total(name: str) -> int:
        return sum(value for table in tables if isinstance(value := table.get(name), int))

    return Record(
        told=tuple(
            part.text
            for payload in payloads
            if payload.type == "message" and payload.role in {"developer", "user"}
            for part in payload.content or ()
        ),
        results=tuple(
            payload.output if isinstance(payload.output, str) else json.dumps(payload.output, ensure_ascii=False)
            for payload in payloads
            if payload.type.endswith("_output")
        ),
        called=tuple(
            dict.fromkeys(
                each.name for each in payloads if each.type.endswith("tool_call") or each.type == "function_call"
            )
        ),
        requests=len(tables),
        usage=Usage(
            input_tokens=total("input_tokens"),
            output_tokens=total("output_tokens"),
            cached_tokens=total("cached_input_tokens"),
        ),
    )


def read_trajectory(
    ended: Ended,
    assignment: Assignment,
    record: Record | None,
    *,
    model: str,
    deadline: float,
    out_of_turns: bool = False,
) -> Trajectory:
    """What the agent did, from what the CLI printed and noted; pure.

    Raises what ``turn_of`` raises for lost transport.
    """
    events = tuple(events_in(ended.stdout))
    done = [event.item for event in events if event.type == "item.completed" and event.item]
    answers = [item.text for item in done if item.type == "agent_message" and item.text]
    known = record or Record()
    worked = bool(answers or known.called or any(item.type != "error" for item in done))
    ending, usage = _ending(ended, deadline, worked=worked, out_of_turns=out_of_turns)
    if ending is Ending.DONE and not answers and not known.called:
        raise EmptyReply("codex ended well and said nothing")
    return Trajectory(
        text=answers[-1] if answers else "",
        model=model,
        usage=usage or known.usage,
        latency=ended.seconds,
        tools_called=known.called or tuple(dict.fromkeys(item.type for item in done if item.type != "agent_message")),
        ending=ending,
        turns=known.requests,
        shown=tuple(_shown(document, record) for document in assignment.documents if document.content is not None),
        skills_called=tuple(
            skill_name(each)
            for each in assignment.documents
            if each.kind is DocumentKind.SKILL and each.content is not None and record and _opened(each, record)
        ),
    )


def _ending(ended: Ended, deadline: float, *, worked: bool, out_of_turns: bool) -> tuple[Ending, Usage | None]:
    """How it ended where that was the agent's own doing; raises where it was not."""
    if out_of_turns:
        return Ending.OUT_OF_TURNS, None
    if ended.timed_out and worked and not ended.silent:
        return Ending.OUT_OF_TIME, None
    if ended.flooded and worked:
        return Ending.OUT_OF_ROOM, None
    try:
        return Ending.DONE, turn_of(ended, deadline=deadline).usage
    except TooLong:
        if worked:
            return Ending.OUT_OF_ROOM, None
        raise


def _shown(document: Document, record: Record | None) -> Shown:
    """What the record says of a document: a skill is listed by name, and read where its text came back from a tool."""
    if record is None:
        return Shown(kind=document.kind, offered=None, read=None, how="codex left no record of the session")
    if document.kind is DocumentKind.MEMORY:
        text = (document.content or b"").decode("utf-8", "replace")
        offered = any(_stands_in(text, each) for each in record.told)
        how = "its text was sent" if offered else "its text was not sent"
        return Shown(kind=document.kind, offered=offered, read=offered, how=how)
    name = skill_name(document)
    offered = any(f"- {name}: " in each and f"{name}/SKILL.md)" in each for each in record.told)
    read = _opened(document, record)
    how = "its text was sent" if read else "it was on the list" if offered else "it was not on the list"
    return Shown(kind=document.kind, offered=offered, read=read, how=how)


def _opened(document: Document, record: Record) -> bool:
    body = region(document)
    return bool(body.strip()) and any(_stands_in(body, each) for each in (*record.results, *record.told))


def _stands_in(body: str, text: str) -> bool:
    """Whether every line of a document stands in a text that was sent."""
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return all(line in text or json.dumps(line, ensure_ascii=False)[1:-1] in text for line in lines)


def _threads(stdout: str) -> Iterator[_Thread]:
    for line in stdout.split("\n"):
        if "thread.started" in line:
            with contextlib.suppress(msgspec.DecodeError):  # a line cut short, or words of the agent's
                yield msgspec.json.decode(line, type=_Thread)


def _lines(content: bytes) -> Iterator[_Line]:
    for line in content.splitlines():
        try:
            yield msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
