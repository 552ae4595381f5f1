"""The plugins of the agent CLIs, put in and taken out by the CLIs' own commands."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from skillopt_sleep.backends.process import Children
from skillopt_sleep.errors import BackendError, NotInstalled, SleepError, UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.storage.files import read_regular
from skillopt_sleep.usecases.market import MARKET, check_skill, lay_market, lay_skill, remove_market, remove_skill

if TYPE_CHECKING:
    from skillopt_sleep.usecases.workspace import Workspace

AGENTS = ("claude", "codex")
PLUGIN = f"{MARKET}@{MARKET}"
PATIENCE = 120
"""Seconds for one command of an agent CLI; the first one in a cold home takes some."""

INSTALL = {"claude": ["install", PLUGIN], "codex": ["add", PLUGIN]}
UNINSTALL = {"claude": ["uninstall", PLUGIN], "codex": ["remove", PLUGIN]}
ADD = ["marketplace", "add"]
FORGET = ["marketplace", "remove", MARKET]
NOTES = {
    "claude": ("settings.json", "plugins/installed_plugins.json", "plugins/known_marketplaces.json"),
    "codex": ("config.toml",),
}
"""Where a CLI notes, in its own folder, which plugins and marketplaces it has; only read."""


class Held(Struct, frozen=True, kw_only=True):
    """What an agent has of ours: the plugin, the marketplace, and the folder that one was added from, "" if unknown."""

    plugin: bool = False
    market: bool = False
    source: str = ""

    def __bool__(self) -> bool:
        return self.plugin or self.market


def install_plugin(workspace: Workspace, agent: str) -> Iterator[str]:
    """Install, or bring up to this version; what was done, a line each.

    Raises ``NotInstalled`` for an agent that is not there, ``Refused`` and ``DiskError`` as ``lay_market`` and
    ``lay_skill`` do, and ``UsageError`` with the words of a CLI that would not.
    """
    if _program(workspace, agent) is None:
        raise NotInstalled(f"there is no `{agent}` on PATH; install it, then run this again")
    if agent == "codex":
        check_skill(workspace.data_dir, _home(workspace))
    market = lay_market(workspace.data_dir)
    _take_out(workspace, agent, _held(workspace, agent))
    _ask(workspace, agent, [*ADD, str(market)])
    _ask(workspace, agent, INSTALL[agent])
    yield f"installed the plugin {PLUGIN} into {agent}, from {market}"
    if agent == "codex":
        yield f"installed the skill {lay_skill(workspace.data_dir, _home(workspace))}"
        yield "in Codex, say: $skillopt-sleep status"
    else:
        yield "in a new session of Claude Code, type: /skillopt-sleep status"


def uninstall_plugin(workspace: Workspace, agent: str) -> Iterator[str]:
    """Take the plugin and all that came with it out again; what was done, a line each; nothing when it was not there.

    Raises as ``install_plugin`` does; ``NotInstalled`` only where the agent's notes say that it has the plugin.
    """
    if agent == "codex":
        yield from remove_skill(workspace.data_dir, _home(workspace))
    held, noted = _held(workspace, agent), _noted(workspace, agent)
    _take_out(workspace, agent, held)
    cache = agent_home(workspace, agent) / "plugins" / "cache" / MARKET
    kept = cache.is_dir() and not cache.is_symlink()
    shutil.rmtree(cache, ignore_errors=True)  # a copy of ours that the CLI sweeps later, if we cannot now
    if held or noted:
        yield f"took the plugin {PLUGIN} out of {agent}"
    elif kept:
        yield f"deleted {cache}, which {agent} had kept of the plugin"
    if _noted(workspace, agent):
        notes = " or ".join(NOTES[agent])
        yield f"{agent} itself knows of no such plugin, but {notes} in {cache.parents[2]} names it: delete that by hand"
    market = workspace.data_dir / "market"
    if held.source and Path(held.source).exists() and Path(held.source) != market:
        yield f"{agent} had it from {held.source}, which stays"
    if not any(_needs_market(workspace, each) for each in AGENTS):
        remove_market(workspace.data_dir)
        with contextlib.suppress(OSError):  # it was made for this, unless something else is in it
            workspace.data_dir.rmdir()


def agent_home(workspace: Workspace, agent: str) -> Path:
    """The agent's own folder."""
    named = workspace.env.get("CLAUDE_CONFIG_DIR" if agent == "claude" else "CODEX_HOME", "")
    return Path(named) if named else _home(workspace) / f".{agent}"


def _needs_market(workspace: Workspace, agent: str) -> bool:
    """Whether an agent has, or may have, the marketplace in use."""
    try:
        held = _held(workspace, agent)
    except SleepError:
        return True
    return bool(held)


def _take_out(workspace: Workspace, agent: str, held: Held) -> None:
    """Each of the two by itself: one may be gone already, by hand or because an install was cut short.

    What the agent does not own to, but has in its notes, it may take out all the same.
    """
    noted = _noted(workspace, agent)
    steps = ((held.plugin, noted.plugin, UNINSTALL[agent]), (held.market, noted.market, FORGET))
    for there, named, words in steps:
        if there:
            _ask(workspace, agent, words)
        elif named:
            with contextlib.suppress(UsageError):
                _ask(workspace, agent, words)


def _held(workspace: Workspace, agent: str) -> Held:
    """What the agent says it has; where it cannot be asked, what its notes say.

    Codex answers nothing when the folder of a marketplace is gone, and old versions know no plugins. Raises
    ``NotInstalled`` when by these notes there is something, and no CLI to take it out with.
    """
    noted = _noted(workspace, agent)
    if _program(workspace, agent) is None:
        if noted:
            raise NotInstalled(
                f"there is no `{agent}` on PATH, and its folder {agent_home(workspace, agent)} names the plugin;"
                " put it on PATH, then run this again"
            )
        return noted
    try:
        plugins = _ask(workspace, agent, ["list", "--json"])
        markets = _decoded(_ask(workspace, agent, ["marketplace", "list", "--json"]))
    except UsageError:
        return noted
    if isinstance(markets, dict):
        markets = markets.get("marketplaces")
    listed = [each for each in markets or [] if isinstance(each, dict)] if isinstance(markets, list) else []
    ours = next((each for each in listed if each.get("name") == MARKET), None)
    source = (ours.get("path") or ours.get("root") or "") if ours else ""
    return Held(plugin=f'"{PLUGIN}"' in plugins, market=ours is not None, source=str(source))


def _noted(workspace: Workspace, agent: str) -> Held:
    """What stands in the agent's notes; what cannot be read says nothing."""
    text = b""
    for name in NOTES[agent]:
        with contextlib.suppress(SleepError):
            text += read_regular(agent_home(workspace, agent) / name) or b""
    market = f'"{MARKET}"' if agent == "claude" else f"[marketplaces.{MARKET}]"
    return Held(plugin=PLUGIN.encode() in text, market=market.encode() in text)


def _decoded(text: str) -> Json:
    try:
        found: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return found


def _program(workspace: Workspace, agent: str) -> str | None:
    return shutil.which(agent, path=workspace.env.get("PATH"))


def _ask(workspace: Workspace, agent: str, words: list[str]) -> str:
    """Have the CLI do it; what it prints. Raises ``UsageError`` with its words."""
    command = f"{agent} plugin {' '.join(words)}"
    children = Children()  # which ends all that a CLI has started, when it takes too long
    try:
        done = children.run(
            [_program(workspace, agent) or agent, "plugin", *words], env=workspace.env, cwd=Path.cwd(), seconds=PATIENCE
        )
    except (OSError, BackendError) as error:
        raise UsageError(f"`{command}` did not work: {error}") from error
    if done.timed_out:
        raise UsageError(f"`{command}` did not work: it did not end within {PATIENCE} s, and was ended")
    if done.status:
        said = [line.strip() for line in f"{done.stderr}\n{done.stdout}".splitlines() if line.strip()]
        reasons = [line for line in said if not line.lower().startswith("warning")]
        raise UsageError(f"`{command}` refused: {next(iter([*reasons, *said]), f'exit code {done.status}')}")
    return done.stdout


def _home(workspace: Workspace) -> Path:
    return Path(workspace.env.get("HOME") or Path.home())
