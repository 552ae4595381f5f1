"""Claude Code at work: the CLI itself loads the candidate's skill and memory, in a throwaway workspace.

The user's login stays in place; their memory, skills, hooks, plugins and MCP servers take no part, because of all
settings only those of the workspace are read (``--setting-sources=project``), and there the project's own were taken
away. What was loaded is told by the CLI's own records: its list of skills, a hook of ours on loaded instructions, and
the text of a skill as it is handed to the model.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.child_registry import MARK, Note
from skillopt_sleep.backends.claude_output import PRINTED, announced_wait, tries_again
from skillopt_sleep.backends.claude_trajectory import (
    INSTRUCTIONS,
    LAYOUT,
    STARTED,
    at_work,
    read_trajectory,
    version_of,
    was_refused_a_sandbox,
    with_memory,
)
from skillopt_sleep.backends.process import Children, Ended, Patience, folder_prefix
from skillopt_sleep.backends.sandbox import agent_environment, bubblewrap, command_environment, proven, run_commands
from skillopt_sleep.backends.workspace import Workspace, workspace
from skillopt_sleep.errors import Overloaded
from skillopt_sleep.model import Json
from skillopt_sleep.model.rollout import Assignment, Ending, ReplayMode, Trajectory

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
OWN = ("ANTHROPIC_", "CLAUDE_")
CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "GCLOUD_", "CLOUDSDK_", "CLOUD_ML_", "VERTEX_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
}
"""How the names of variables begin that a login may rest on: its own, and those of each cloud that is switched on."""
SANDBOX: dict[str, Json] = {
    "enabled": True,
    "failIfUnavailable": True,
    "autoAllowBashIfSandboxed": True,
    "allowUnsandboxedCommands": False,
    "network": {"allowedDomains": [], "allowLocalBinding": False},
}
NEEDED = ("bwrap", "socat")
LOADED = "loaded.jsonl"
MENTION = re.compile(r"(?<![A-Za-z0-9])@(?![ \n])")
"""What could be ``@path``, which in a prompt would put that file into the request, without any tool.

Every version reads it so where a word begins with it, or what follows a Chinese full stop; an address of mail is none.
"""
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
            if was_refused_a_sandbox(ended.stdout):
                raise Overloaded("claude's sandbox did not start, so commands of the agent were not run")
            deadline = self.call_seconds if ended.silent else self.seconds
            done = read_trajectory(ended, assignment, place.root, model=self.model, deadline=deadline)
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
        env = {
            **_environment(self.env),
            **QUIET,
            "TMPDIR": str(scratch),
            "API_TIMEOUT_MS": str(int(self.call_seconds * 1000)),
        }
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
            patience=Patience(self.call_seconds, at_work=at_work, tries_again=tries_again),
        )

    def _settings(self, mode: ReplayMode, place: Workspace) -> dict[str, Json]:
        """The login's settings of the user, a hook that notes what memory is loaded, and the sandbox of a shell."""
        settings: dict[str, Json] = {name: value for name, value in _users(self.env).items() if name in LOGIN_SETTINGS}
        if sys.platform != "win32":
            noted = shlex.quote(str(place.folder / LOADED))
            told: Json = [{"hooks": [{"type": "command", "command": f"cat >> {noted}; echo >> {noted}"}]}]
            settings["hooks"] = dict.fromkeys((STARTED, INSTRUCTIONS), told)
        if mode is ReplayMode.WORKTREE:
            # its commands need no login
            withheld: list[Json] = [{"name": name, "mode": "deny"} for name in _logins(self.env)]
            sandbox = SANDBOX | {"credentials": {"envVars": withheld}}
            settings |= {"sandbox": sandbox, "permissions": {"allow": ["Bash"]}}
        return settings


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """What the CLI itself needs to log in: its own, and a cloud's where the cloud is used."""
    login = msgspec.json.encode({name: value for name, value in _users(env).items() if name in LOGIN_SETTINGS}).decode()
    clouds = tuple(name for switch, names in CLOUDS.items() if env.get(switch) or switch in login for name in names)
    return agent_environment(env, own=(*OWN, *clouds), said=login)


def _logins(env: Mapping[str, str]) -> list[str]:
    """The variables of that which say more than where things are."""
    bare = agent_environment(env, own=())
    return sorted(name for name in _environment(env) if name not in bare and name != MARK)


def _config_folder(env: Mapping[str, str]) -> Path:
    """Where the user's Claude Code lives."""
    named = env.get("CLAUDE_CONFIG_DIR", "").partition(",")[0]
    return Path(named) if named else Path(env.get("HOME") or env.get("USERPROFILE", "")) / ".claude"


def _users(env: Mapping[str, str]) -> dict[str, Json]:
    """The user's own settings file; an unreadable one is none, as the CLI itself would say."""
    try:
        return msgspec.json.decode((_config_folder(env) / "settings.json").read_bytes(), type=dict[str, Json])
    except (OSError, ValueError):  # the latter is also for what is no text at all
        return {}


def _lines(path: Path) -> list[Json]:
    found: list[Json] = []
    if path.exists():
        for line in path.read_bytes().splitlines():
            try:
                found.append(msgspec.json.decode(line))
            except msgspec.DecodeError:
                continue
    return found
