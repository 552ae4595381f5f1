"""Codex as a model: one ``codex exec``, its tools off, and nothing of the user's in it but the login.

Codex decides by events: a turn is completed or has failed. An ``error`` event is no failure, it may be a warning or a
retry.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.codex_home import CodexHome, users_codex_home
from skillopt_sleep.backends.outcome import Agent, error_for, raise_if_ended_early, reply_for, telling_line, unwrapped
from skillopt_sleep.backends.process import Children, Ended, find_command, throwaway
from skillopt_sleep.domain.call import Health, Prompt, Reply, Usage
from skillopt_sleep.errors import (
    BackendError,
    DiskError,
    ModelRefused,
    NotLoggedIn,
    QuotaExhausted,
    SettingsError,
    TooOld,
)

__all__ = ["PLUGIN", "CodexBackend", "read_reply"]

CODEX = Agent(
    name="codex",
    cannot={
        NotLoggedIn: "run `codex login`; for a provider, key or keyring that config.toml names, set"
        " `use_user_config = true` in [backends.codex]",
        ModelRefused: "name another one, with --target-model or --optimizer-model",
        TooOld: "run `npm install -g @openai/codex@latest`, or upgrade it the way it was installed",
        QuotaExhausted: "wait for the reset that /status shows, or add credit",
    },
)
INSTALL = "npm install -g @openai/codex, or name the program by `command` in [backends.codex]"
PROBE_SECONDS = 10.0
"""For each of two commands that take a fifth of a second on an idle machine."""

EXEC = ("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only")
QUIET = (
    "features.plugins=false",
    "features.remote_plugin=false",
    "features.apps=false",
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    "features.unbounded_connection_retries=false",
)
"""Without these it connects to four hosts besides the model's, and never gives up on a dead network."""
TOOLLESS = (
    "features.shell_tool=false",
    "features.view_image=false",
    "features.goals=false",
    "features.sleep_tool=false",
    "agents.enabled=false",
    "tools.experimental_request_user_input.enabled=false",
    'web_search="disabled"',
)
"""What remains is ``apply_patch``, which a read-only sandbox refuses."""
NOTHING_OF_THE_USER = (
    "features.hooks=false",
    "notify=[]",
    'developer_instructions=""',
    "project_doc_max_bytes=0",
    "skills.include_instructions=false",
    "include_permissions_instructions=false",
    "include_environment_context=false",
)
SWITCHES = {"mcp_servers": "enabled=false", "model_providers": "request_max_retries=0,stream_max_retries=0"}
"""What is set for every MCP server and provider of the user's: trying again is our business.

The built-in provider takes no such setting, and tries up to thirty times within the deadline.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexBackend:
    """The ``codex`` command line.

    ``command``: the program, a name on PATH or a path. ``model``: "" = the CLI's default. ``timeout``: seconds one
    call may take. ``env``: the environment the CLI sees. ``config``: settings as its ``-c`` takes them, such as
    ``model_reasoning_effort=low``. ``use_user_config``: run in the user's own home with their ``config.toml``, for a
    provider, key or keyring it names; then the user's ``AGENTS.md`` and skills reach the model too. Hooks, MCP servers
    and plugins never run.
    """

    command: str = "codex"
    model: str = ""
    timeout: float = 180.0
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    config: tuple[str, ...] = ()
    use_user_config: bool = False
    _children: Children = field(default_factory=Children, init=False, repr=False, compare=False)
    _home: CodexHome = field(default_factory=CodexHome, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The registry name."""
        return "codex"

    @property
    def sees(self) -> str:
        """Who is sent the prompts."""
        return "OpenAI (or the provider codex is set up for), through the codex CLI and the account it is logged in to"

    def probe(self) -> Health:
        """Installed and logged in; asked of the CLI, offline.

        A provider of the user's own has its own keys: whether they are good shows at the first call.
        """
        version = ""
        try:
            found = re.search(r"\d+\.\d+\.\d+\S*", self._run("--version", seconds=PROBE_SECONDS).stdout)
            version = found[0] if found else ""
            status = self._run("login", "status", seconds=PROBE_SECONDS)
        except (BackendError, DiskError, SettingsError) as error:
            return Health(ready=False, version=version, detail=str(error))
        if status.status == 0 or self.env.get("CODEX_API_KEY"):
            return Health(ready=True, version=version, logged_in=True)
        if self.use_user_config:
            return Health(ready=True, version=version)
        detail = f"codex is not logged in: {CODEX.cannot[NotLoggedIn]}"
        return Health(ready=False, version=version, logged_in=False, detail=detail)

    def complete(self, prompt: Prompt) -> Reply:
        """One answer; see ``Backend.complete``. Raises ``DiskError``, and ``SettingsError`` for a bad config.toml."""
        with self._home.first_alone():
            ended = self._run(*EXEC, seconds=self.timeout, prompt=prompt)
        return read_reply(ended, prompt, model=self.model, deadline=self.timeout)

    def close(self) -> None:
        """End every child and remove what they lived in; see ``Backend.close``."""
        self._children.close()
        self._home.close()

    def _run(self, *arguments: str, seconds: float, prompt: Prompt | None = None) -> Ended:
        command = find_command(self.command, self.env, install=INSTALL)
        env = self.env if self.use_user_config else self._home.environment(self.env)
        with throwaway() as folder:
            workspace = folder / "workspace"
            workspace.mkdir()
            argv = [command, *arguments]
            if prompt is not None:
                argv += self._options(prompt, folder, workspace)
            stdin = "" if prompt is None else prompt.user
            return self._children.run(argv, env=env, cwd=workspace, seconds=seconds, stdin=stdin)

    def _options(self, prompt: Prompt, folder: Path, workspace: Path) -> Iterator[str]:
        yield from ("-C", str(workspace))
        if self.model:
            yield from ("--model", self.model)
        settings = [*self.config, *QUIET, *TOOLLESS, *NOTHING_OF_THE_USER]
        if self.use_user_config:
            settings += _tamed(users_codex_home(self.env) / "config.toml")
        else:
            yield "--ignore-user-config"
        system = folder / "system.md"
        system.write_text(prompt.system, encoding="utf-8", errors="replace")
        settings.append(f"model_instructions_file={json.dumps(str(system), ensure_ascii=False)}")
        for setting in settings:
            yield from ("-c", setting)
        if prompt.schema is not None:
            schema = folder / "schema.json"
            schema.write_bytes(msgspec.json.encode(prompt.schema))
            yield from ("--output-schema", str(schema))
        yield "-"


def _tamed(config: Path) -> list[str]:
    """Settings that keep the user's MCP servers from starting, and their providers from trying again by themselves.

    They are inline tables, which are merged: a dotted name would be cut at every dot within a server's own name.
    """
    try:
        table = tomllib.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"{config} cannot be read: {error}") from error
    return [
        f"{section}={{{','.join(f'{json.dumps(name, ensure_ascii=False)}={{{switch}}}' for name in table[section])}}}"
        for section, switch in SWITCHES.items()
        if section in table
    ]


class _Said(Struct, frozen=True, kw_only=True):
    message: str = ""


class _Item(Struct, frozen=True, kw_only=True):
    type: str = ""
    text: str = ""


class _Usage(Struct, frozen=True, kw_only=True):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0

    def total(self) -> Usage:
        return Usage(
            input_tokens=self.input_tokens, output_tokens=self.output_tokens, cached_tokens=self.cached_input_tokens
        )


class _Event(Struct, frozen=True, kw_only=True):
    """One line of ``--json``; ``message`` belongs to ``error``, ``error`` to ``turn.failed``."""

    type: str = ""
    message: str = ""
    error: _Said | None = None
    item: _Item | None = None
    usage: _Usage | None = None

    @property
    def complaint(self) -> str:
        return self.error.message if self.error else self.message

    @property
    def answer(self) -> str:
        return self.item.text if self.item and self.item.type == "agent_message" else ""


def read_reply(ended: Ended, prompt: Prompt, *, model: str, deadline: float) -> Reply:
    """The reply in what the CLI printed; pure. Raises the ``BackendError`` that anything else means."""
    events = tuple(_events(ended.stdout))
    complaints = [event.complaint for event in events if event.type in {"error", "turn.failed"}]
    complaint = unwrapped(complaints[-1]) if complaints else ""
    raise_if_ended_early(CODEX, ended, deadline=deadline, words=complaint)
    completed = next((event for event in reversed(events) if event.type == "turn.completed"), None)
    if completed is None or ended.status:
        raise error_for(CODEX, complaint or telling_line(ended.stderr) or f"it ended with status {ended.status}")
    answers = [event.answer for event in events if event.answer]
    return reply_for(
        CODEX,
        prompt,
        answers[-1] if answers else "",
        model=model,
        latency=ended.seconds,
        usage=completed.usage.total() if completed.usage else None,
    )


def _events(stdout: str) -> Iterator[_Event]:
    """Every line that is an event as we know it; other lines and kinds of items do not matter here."""
    for line in stdout.splitlines():
        try:
            yield msgspec.json.decode(line, type=_Event)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue


PLUGIN = CodexBackend
