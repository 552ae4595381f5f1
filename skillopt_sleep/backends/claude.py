"""Claude Code as a model: one headless call, without tools and without anything of the user's but the login.

``--safe-mode`` leaves out memory, skills, hooks, plugins and MCP servers and keeps every kind of login: OAuth, a key in
the environment, a key or helper in the settings. ``--bare`` would be faster, but never reads OAuth, and
``--setting-sources=`` loses keys that stand in the settings.

To whom Claude Code sends what it is asked: its environment and the user's own settings may name somebody else.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.claude_native import NativeClaude
from skillopt_sleep.backends.claude_output import CLAUDE, PRINTED, announced_wait, result_of
from skillopt_sleep.backends.outcomes import paid, reply_for
from skillopt_sleep.backends.process import Children, Ended, find_command
from skillopt_sleep.errors import BackendError, NotLoggedIn, TooOld
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Bounds, Health, Prompt, Reply
from skillopt_sleep.model.rollout import Assignment, ReplayMode, Trajectory
from skillopt_sleep.safety.receivers import provider_at

OWN = "anthropic"
ADDRESS = "ANTHROPIC_BASE_URL"
CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": ("amazon-bedrock", "ANTHROPIC_BEDROCK_BASE_URL"),
    "CLAUDE_CODE_USE_VERTEX": ("google-vertex", "ANTHROPIC_VERTEX_BASE_URL"),
    "CLAUDE_CODE_USE_FOUNDRY": ("microsoft-foundry", "ANTHROPIC_FOUNDRY_BASE_URL"),
}
"""The switches that send it to a cloud: that one's name, and the variable that names another address instead."""
OFF = frozenset({"", "0", "false", "no", "off"})


class _Settings(Struct, frozen=True, kw_only=True):
    """What the user's settings put into the environment."""

    env: dict[str, Json] = {}


def receiver(env: Mapping[str, str]) -> str:
    """The provider: anthropic at its own address, a cloud by its name, else the host; "" for this machine itself.

    Where the environment and the user's settings disagree, it is the one that is not Anthropic.
    """
    found = [_receiver(each) for each in (_from_settings(env), env)]
    return next((each for each in found if each != OWN), OWN)


def _receiver(env: Mapping[str, str]) -> str:
    for switch, (cloud, address) in CLOUDS.items():
        if env.get(switch, "").strip().lower() not in OFF:
            return provider_at(env[address]) if env.get(address, "").strip() else cloud
    return provider_at(env[ADDRESS]) if env.get(ADDRESS, "").strip() else OWN


def _from_settings(env: Mapping[str, str]) -> dict[str, str]:
    """The environment that the user's own settings ask for; nothing where they cannot be read, as the CLI does."""
    home = env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME") or env.get("USERPROFILE", "")) / ".claude"
    try:
        settings = msgspec.json.decode(Path(home, "settings.json").read_bytes(), type=_Settings)
    except (OSError, msgspec.DecodeError, ValueError):
        return {}
    return {name: str(value) for name, value in settings.env.items()}


INSTALL = "npm install -g @anthropic-ai/claude-code, or name the program by `command` in [backends.claude]"
OLDEST = (2, 1, 169)
"""The first version with ``--safe-mode`` (its release notes, June 2026)."""
FOOTPRINT = 320 * 2**20
"""Bytes; measured: 200 to 307 MB with the versions that are tested."""
LEAST_USD = 0.0001
"""The least that its option can be told."""
PROBE_SECONDS = 10.0
"""For each of two commands that take a third of a second on an idle machine."""

ISOLATION = ("--safe-mode", "--strict-mcp-config", "--tools=", "--no-session-persistence")
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    # an `@path` in a prompt would put that file of this machine into the request, without any tool
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    # one, not none: an OAuth token that another process has renewed meanwhile is read again by that retry, and only
    # one who tries again says how long the service wants to be left alone
    "CLAUDE_CODE_MAX_RETRIES": "1",
}
MAX_TURNS = "3"
"""A model without tools needs one, and one or two more where it has to be reminded of the shape of its answer."""
PARENT = frozenset({"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT"})
"""What a Claude Code that started this program left in the environment: the child is no part of its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeBackend:
    """The ``claude`` command line.

    ``command``: the program, a name on PATH or a path. ``model``: "" = the CLI's default. ``timeout``: seconds one
    call may take. ``max_usd``: what the CLI may spend on one call, 0 = as much as it likes. ``loop_timeout`` and
    ``max_turns``: seconds and requests to the model that it may take where it is let to work. ``env``: the environment
    the CLI sees. ``record``: see ``Children``.
    """

    command: str = "claude"
    model: str = ""
    timeout: float = 180.0
    max_usd: float = 0.0
    loop_timeout: float = 900.0
    max_turns: int = 40
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    record: str = field(default="", repr=False)
    _children: Children = field(default_factory=Children, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_children", Children(self.record))

    @property
    def name(self) -> str:
        """The registry name."""
        return "claude"

    @property
    def sees(self) -> str:
        """Who is sent the prompts."""
        whom = "Anthropic" if self.provider == "anthropic" else self.provider or "this machine"
        return f"{whom}, through the claude CLI and the account it is logged in to"

    @property
    def footprint(self) -> int:
        """Bytes of memory that one call takes."""
        return FOOTPRINT

    @property
    def provider(self) -> str:
        """Anthropic, or the host that this Claude Code is set up for; see ``receiver``."""
        return receiver(self.env)

    def probe(self) -> Health:
        """Installed, new enough, logged in; asked of the CLI, offline."""
        version = ""
        try:
            version = _version(self._run("--version", seconds=PROBE_SECONDS).stdout)
            if too_old := _too_old(version):
                return Health(ready=False, version=version, detail=too_old)
            status = self._run("auth", "status", seconds=PROBE_SECONDS)
        except BackendError as error:
            return Health(ready=False, version=version, detail=str(error))
        logged_in = _logged_in(status.stdout)
        detail = "" if logged_in is not False else f"claude is not logged in: {CLAUDE.cannot[NotLoggedIn]}"
        return Health(ready=logged_in is not False, version=version, logged_in=logged_in, detail=detail)

    def complete(self, prompt: Prompt) -> Reply:
        """One answer; see ``Backend.complete``. Raises ``DiskError`` too."""
        options = ["--model", self.model] if self.model else []
        seconds = prompt.within.clip(self.timeout)
        if most := self._most_usd(prompt.within):
            options += ["--max-budget-usd", f"{most:.4f}"]
        if prompt.schema is not None:
            options += ["--json-schema", msgspec.json.encode(prompt.schema).decode()]
        # a first line that begins with a slash would be run as a command of the CLI
        user = f"\n{prompt.user}" if prompt.user.startswith("/") else prompt.user
        ended = self._run(
            "-p",
            *ISOLATION,
            *PRINTED,
            "--max-turns",
            MAX_TURNS,
            *options,
            seconds=seconds,
            system=prompt.system,
            stdin=user,
        )
        return read_reply(ended, prompt, model=self.model, deadline=seconds)

    def refuses(self, mode: ReplayMode) -> str:
        """Why this machine cannot replay so; see ``Agent.refuses``."""
        return (
            ""
            if shutil.which(self.command, path=self.env.get("PATH", "")) is None
            else self._native(Bounds()).refuses(mode)
        )

    def run(self, assignment: Assignment) -> Trajectory:
        """Let it work in a workspace; see ``Agent.run``. Raises ``DiskError`` too."""
        return self._native(assignment.within).run(assignment)

    def _native(self, within: Bounds) -> NativeClaude:
        return NativeClaude(
            command=find_command(self.command, self.env, install=INSTALL),
            model=self.model,
            env={name: value for name, value in self.env.items() if name not in PARENT},
            children=self._children,
            seconds=within.clip(self.loop_timeout),
            call_seconds=self.timeout,
            max_turns=self.max_turns,
            max_usd=self._most_usd(within),
        )

    def _most_usd(self, within: Bounds) -> float:
        """What one call may cost: the setting, or what is left for it where that is less; 0 = as much as it likes."""
        if within.usd is None:
            return self.max_usd
        return max(LEAST_USD, min(within.usd, self.max_usd or within.usd))

    def close(self) -> None:
        """End every child; see ``Backend.close``."""
        self._children.close()

    def _run(self, *arguments: str, seconds: float, system: str | None = None, stdin: str = "") -> Ended:
        command = find_command(self.command, self.env, install=INSTALL)
        env = {name: value for name, value in self.env.items() if name not in PARENT} | QUIET
        env["API_TIMEOUT_MS"] = str(int(seconds * 1000))
        with self._children.folder() as folder:
            workspace = folder / "workspace"
            workspace.mkdir()
            options = [] if system is None else ["--system-prompt-file", str(_write(folder / "system.md", system))]
            return self._children.run(
                [command, *arguments, *options],
                env=env,
                cwd=workspace,
                seconds=seconds,
                stdin=stdin,
                waits=announced_wait,
            )


def read_reply(ended: Ended, prompt: Prompt, *, model: str, deadline: float) -> Reply:
    """The reply in what the CLI printed; pure.

    Raises what ``result_of`` raises, ``EmptyReply``, and ``BadReply`` for an answer without the JSON it was to be.
    """
    result = result_of(ended, deadline=deadline)
    said = result.said
    if result.structured_output is not None:
        said = msgspec.json.encode(result.structured_output).decode()
    try:
        return reply_for(
            CLAUDE,
            prompt,
            said,
            model=next(iter(result.model_usage), model),
            latency=ended.seconds,
            usage=result.spent,
            cost_usd=result.total_cost_usd,
        )
    except BackendError as error:
        raise paid(error, result.spent, result.total_cost_usd) from None


def _version(stdout: str) -> str:
    found = re.search(r"\d+\.\d+\.\d+", stdout)
    return found[0] if found else ""


def _too_old(version: str) -> str:
    """What to do about a version without the flags we need, "" when it has them or does not say."""
    if not version or tuple(int(part) for part in version.split(".")) >= OLDEST:
        return ""
    oldest = ".".join(str(part) for part in OLDEST)
    return f"claude {version} is too old, {oldest} is needed: {CLAUDE.cannot[TooOld]}"


def _logged_in(stdout: str) -> bool | None:
    """What ``claude auth status`` says; None when it says nothing that can be read."""
    try:
        status = msgspec.json.decode(stdout, type=dict[str, Json])
    except msgspec.DecodeError:
        return None
    logged_in = status.get("loggedIn")
    return logged_in if isinstance(logged_in, bool) else None


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", errors="replace")
    return path


PLUGIN = ClaudeBackend
