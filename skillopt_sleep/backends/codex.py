"""Codex as a model: one ``codex exec``, its tools off, and nothing of the user's in it but the login.

To whom Codex sends what it is asked: its settings may name another provider, or another address of the same.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from skillopt_sleep.backends.codex_cli import CODEX, LOGS, CodexHome, announced_wait, turn_of, users_codex_home
from skillopt_sleep.backends.codex_native import NativeCodex
from skillopt_sleep.backends.outcomes import paid, reply_for
from skillopt_sleep.backends.process import Children, Ended, find_command
from skillopt_sleep.errors import BackendError, DiskError, NotLoggedIn, SettingsError, TimedOut
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Bounds, Health, Prompt, Reply
from skillopt_sleep.model.rollout import Assignment, ReplayMode, Trajectory
from skillopt_sleep.safety.receivers import provider_at

OWN = "openai"
HERE = frozenset({"oss", "ollama", "ollama-chat", "lmstudio"})
"""Providers it knows by itself that run on this machine, unless the environment says otherwise."""
ADDRESS_OF_THOSE = "CODEX_OSS_BASE_URL"


def receiver(config: Mapping[str, Json], env: Mapping[str, str]) -> str:
    """The provider: openai at its own address, else the host; "" for this machine itself.

    ``config``: its settings, a dotted name being one key. A provider without an address that can be found is a
    stranger by its own name.
    """
    profile = config.get("profile")
    chosen = _in_table(config, "profiles", str(profile), "model_provider") if profile else None
    name = str(chosen or config.get("model_provider") or OWN)
    address = _in_table(config, "model_providers", name, "base_url")
    if address is None and name == OWN:
        set_to = (config.get("openai_base_url"), config.get("chatgpt_base_url"), env.get("OPENAI_BASE_URL"))
        found = [provider_at(str(each)) for each in set_to if each]
        return next((each for each in found if each != OWN), OWN)
    if address is None and name in HERE:
        return provider_at(env[ADDRESS_OF_THOSE]) if env.get(ADDRESS_OF_THOSE) else ""
    return name if address is None else provider_at(str(address))


def _in_table(config: Mapping[str, Json], section: str, name: str, field: str) -> Json:
    """A field of a named table, spelled as tables within each other or with dots; None where it is not set."""
    for path in _paths(section, name, field):
        value: Json = dict(config)
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def _paths(section: str, name: str, field: str) -> tuple[tuple[str, ...], ...]:
    """Every way of writing it; a more exact one stands over a less exact one."""
    quoted = f'"{name}"'
    return (
        (f"{section}.{name}.{field}",),
        (f"{section}.{quoted}.{field}",),
        (f"{section}.{name}", field),
        (f"{section}.{quoted}", field),
        (section, name, field),
    )


INSTALL = "npm install -g @openai/codex, or name the program by `command` in [backends.codex]"
FOOTPRINT = 160 * 2**20
"""Bytes; measured: 140 MB with the versions that are tested."""
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
    "skills.bundled.enabled=false",  # a `$name` in a prompt would unfold one of these
    "include_permissions_instructions=false",
    "include_environment_context=false",
)
RETRIES = "request_max_retries=0,stream_max_retries=1"
"""One, not none: only one who tries again says how long the service wants to be left alone."""
SWITCHES = {"mcp_servers": "enabled=false", "model_providers": RETRIES}
"""What is set for every MCP server and provider of the user's: trying again is our business."""
NO_SYSTEM = "Answer the user."
"""Codex refuses a file of instructions that is empty."""
PROVIDER = "skillopt-sleep"
"""The built-in provider takes no such setting and would try thirty times, so it is asked under a name of our own.

Without an address it is OpenAI's, that of the API or that of ChatGPT, as the login has it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexBackend:
    """The ``codex`` command line.

    ``command``: the program, a name on PATH or a path. ``model``: "" = the CLI's default. ``timeout``: seconds one
    call may take. ``env``: the environment the CLI sees. ``config``: settings as its ``-c`` takes them, such as
    ``model_reasoning_effort=low``. ``use_user_config``: run in the user's own home with their ``config.toml``, for a
    provider, key or keyring it names; then the user's ``AGENTS.md`` and skills reach the model too. Hooks, MCP servers
    and plugins never run. ``loop_timeout`` and ``max_turns``: seconds and steps that it may take where it is let to
    work. ``record``: see ``Children``.
    """

    command: str = "codex"
    model: str = ""
    timeout: float = 180.0
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    config: tuple[str, ...] = ()
    use_user_config: bool = False
    loop_timeout: float = 900.0
    max_turns: int = 60
    record: str = field(default="", repr=False)
    _children: Children = field(default_factory=Children, init=False, repr=False, compare=False)
    _home: CodexHome = field(default_factory=CodexHome, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_children", Children(self.record))
        object.__setattr__(self, "_home", CodexHome(self._children.register))

    @property
    def name(self) -> str:
        """The registry name."""
        return "codex"

    @property
    def sees(self) -> str:
        """Who is sent the prompts."""
        try:
            provider = self.provider
        except SettingsError:  # `probe` tells
            provider = "whom its config.toml names"
        whom = "OpenAI" if provider == "openai" else provider or "this machine"
        return f"{whom}, through the codex CLI and the account it is logged in to"

    def _set_up(self) -> dict[str, Json]:
        """The settings it goes by, ours over the user's; a dotted name is one key here."""
        users = _read(users_codex_home(self.env) / "config.toml") if self.use_user_config else {}
        return users | _read_settings(self.config)

    @property
    def footprint(self) -> int:
        """Bytes of memory that one call takes."""
        return FOOTPRINT

    @property
    def provider(self) -> str:
        """OpenAI, or the host that this Codex is set up for; see ``receiver``. Raises ``SettingsError``."""
        return receiver(self._set_up(), self.env)

    @property
    def priced(self) -> bool:
        """It names no price."""
        return False

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
        with self._home.first_alone() as waited:
            seconds = _left(prompt.within, waited).clip(self.timeout)
            ended = self._run(*EXEC, seconds=seconds, prompt=prompt)
        return read_reply(ended, prompt, model=self.model, deadline=seconds)

    def refuses(self, mode: ReplayMode) -> str:
        """Why this machine cannot replay so; see ``Agent.refuses``."""
        if self.use_user_config:
            return "with use_user_config the user's own AGENTS.md and skills would take part: take it out, or use text"
        if shutil.which(self.command, path=self.env.get("PATH", "")) is None:
            return ""  # `probe` tells
        try:
            return self._native(Bounds()).refuses(mode)
        except (BackendError, DiskError) as error:
            return str(error)

    def run(self, assignment: Assignment) -> Trajectory:
        """Let it work in a workspace; see ``Agent.run``. Raises ``DiskError``, and ``SettingsError`` as above."""
        with self._home.first_alone() as waited:
            done = self._native(_left(assignment.within, waited)).run(assignment)
        return msgspec.structs.replace(done, latency=done.latency + waited)

    def _native(self, within: Bounds) -> NativeCodex:
        env = self._home.environment(self.env)
        settings = [*self.config, *QUIET, *_provider(_read_settings(self.config), seconds=self.timeout)]
        return NativeCodex(
            command=find_command(self.command, self.env, install=INSTALL),
            model=self.model,
            env=env,
            home=Path(env["CODEX_HOME"]),
            children=self._children,
            options=tuple(part for setting in settings for part in ("-c", setting)),
            seconds=within.clip(self.loop_timeout),
            call_seconds=self.timeout,
            max_turns=self.max_turns,
        )

    def close(self) -> None:
        """End every child and remove what they lived in; see ``Backend.close``."""
        self._children.close()
        self._home.close()

    def _run(self, *arguments: str, seconds: float, prompt: Prompt | None = None) -> Ended:
        command = find_command(self.command, self.env, install=INSTALL)
        env = self.env if self.use_user_config else self._home.environment(self.env)
        with self._children.folder() as folder:
            workspace = folder / "workspace"
            workspace.mkdir()
            argv = [command, *arguments]
            if prompt is not None:
                argv += self._options(prompt, folder, workspace)
            stdin = "" if prompt is None else prompt.user
            return self._children.run(
                argv, env={**LOGS, **env}, cwd=workspace, seconds=seconds, stdin=stdin, waits=announced_wait
            )

    def _options(self, prompt: Prompt, folder: Path, workspace: Path) -> Iterator[str]:
        yield from ("-C", str(workspace))
        if self.model:
            yield from ("--model", self.model)
        settings = [*self.config, *QUIET, *TOOLLESS, *NOTHING_OF_THE_USER]
        users: dict[str, Json] = {}
        if self.use_user_config:
            users = _read(users_codex_home(self.env) / "config.toml")
            settings += _tamed(users)
        else:
            yield "--ignore-user-config"
        settings += _provider(users | _read_settings(self.config), seconds=self.timeout)
        system = folder / "system.md"
        system.write_text(prompt.system if prompt.system.strip() else NO_SYSTEM, encoding="utf-8", errors="replace")
        settings.append(f"model_instructions_file={json.dumps(str(system), ensure_ascii=False)}")
        for setting in settings:
            yield from ("-c", setting)
        if prompt.schema is not None:
            schema = folder / "schema.json"
            schema.write_bytes(msgspec.json.encode(prompt.schema))
            yield from ("--output-schema", str(schema))
        yield "-"


def _left(within: Bounds, waited: float) -> Bounds:
    """What is left for a call that had to wait for another. Raises ``TimedOut`` where that is no time at all."""
    left = within.after(waited)
    if left.seconds is not None and left.seconds <= 0:
        raise TimedOut("codex was not asked: the time for this call was over before the first one had ended")
    return left


def _read(config: Path) -> dict[str, Json]:
    try:
        return tomllib.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"{config} cannot be read: {error}") from error


def _read_settings(settings: tuple[str, ...]) -> dict[str, Json]:
    """The top of what ``-c`` takes: a value is TOML, or else a plain string."""
    table: dict[str, Json] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        try:
            table[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except ValueError:
            table[key.strip()] = value.strip()
    return table


def _tamed(config: dict[str, Json]) -> list[str]:
    """Settings that keep the user's MCP servers from starting, and their providers from trying again by themselves.

    They are inline tables, which are merged: a dotted name would be cut at every dot within a server's own name.
    """
    return [
        f"{section}={{{','.join(f'{json.dumps(name, ensure_ascii=False)}={{{switch}}}' for name in table)}}}"
        for section, switch in SWITCHES.items()
        if isinstance(table := config.get(section), dict)
    ]


def _provider(config: dict[str, Json], *, seconds: float) -> list[str]:
    """Settings that put the built-in provider under our name; none where another one is to be asked."""
    if config.get("model_provider", "openai") != "openai":
        return []
    address = config.get("openai_base_url")
    table = [
        'name="OpenAI"',
        'wire_api="responses"',
        "requires_openai_auth=true",
        RETRIES,
        f"stream_idle_timeout_ms={int(seconds * 1000)}",
        *([f"base_url={json.dumps(address)}"] if address else []),
    ]
    return [f'model_provider="{PROVIDER}"', f"model_providers.{PROVIDER}={{{','.join(table)}}}"]


def read_reply(ended: Ended, prompt: Prompt, *, model: str, deadline: float) -> Reply:
    """The reply in what the CLI printed; pure. Raises the ``BackendError`` that anything else means."""
    turn = turn_of(ended, deadline=deadline)
    try:
        return reply_for(CODEX, prompt, turn.text, model=model, latency=ended.seconds, usage=turn.usage)
    except BackendError as error:
        raise paid(error, turn.usage) from None


PLUGIN = CodexBackend
