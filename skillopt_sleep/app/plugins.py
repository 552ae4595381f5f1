"""The plugins of the agent CLIs, put in and taken out by the CLIs' own commands."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_sleep.errors import NotInstalled, UsageError
from skillopt_sleep.stores.market import MARKET, lay_market, lay_skill, remove_market, remove_skill

if TYPE_CHECKING:
    from skillopt_sleep.app import App

__all__ = ["AGENTS", "install_plugin", "uninstall_plugin"]

AGENTS = ("claude", "codex")
PLUGIN = f"{MARKET}@{MARKET}"
PATIENCE = 120
"""Seconds for one command of an agent CLI; the first one in a cold home takes some."""

INSTALL = {"claude": ["install", PLUGIN], "codex": ["add", PLUGIN]}
UNINSTALL = {"claude": ["uninstall", PLUGIN], "codex": ["remove", PLUGIN]}
FORGET = {"claude": ["marketplace", "rm", MARKET], "codex": ["marketplace", "remove", MARKET]}
LIST = {"claude": ["list", "--json"], "codex": ["list", "--json"]}


def install_plugin(app: App, agent: str) -> Iterator[str]:
    """Install, or bring up to this version; what was done, a line each.

    Raises ``NotInstalled`` for an agent that is not there, ``Refused`` and ``DiskError`` as ``lay_skill`` does, and
    ``UsageError`` with the words of a CLI that would not.
    """
    _require(app, agent)
    market = lay_market(app.data_dir)
    if _has(app, agent):
        _ask(app, agent, UNINSTALL[agent])
        _ask(app, agent, FORGET[agent])
    _ask(app, agent, ["marketplace", "add", str(market)])
    _ask(app, agent, INSTALL[agent])
    yield f"installed the plugin {PLUGIN} into {agent}, from {market}"
    if agent == "codex":
        yield f"installed the skill {lay_skill(app.data_dir, _home(app))}"
        yield "in Codex, say: $skillopt-sleep status"
    else:
        yield "in a new session of Claude Code, type: /skillopt-sleep status"


def uninstall_plugin(app: App, agent: str) -> Iterator[str]:
    """Take the plugin and all that came with it out again; what was done, a line each; nothing when it was not there.

    Raises as ``install_plugin`` does.
    """
    if agent == "codex":
        yield from remove_skill(app.data_dir, _home(app))
    if shutil.which(agent, path=app.env.get("PATH")) is None or not _has(app, agent):
        return
    _ask(app, agent, UNINSTALL[agent])
    _ask(app, agent, FORGET[agent])
    cache = _agent_home(app, agent) / "plugins" / "cache" / MARKET
    shutil.rmtree(cache, ignore_errors=True)  # a copy of ours that the CLI sweeps later, if we cannot now
    yield f"took the plugin {PLUGIN} out of {agent}"
    if not any(_has(app, each) for each in AGENTS if shutil.which(each, path=app.env.get("PATH"))):
        remove_market(app.data_dir)


def _require(app: App, agent: str) -> None:
    if shutil.which(agent, path=app.env.get("PATH")) is None:
        raise NotInstalled(f"there is no `{agent}` on PATH; install it, then run this again")


def _has(app: App, agent: str) -> bool:
    """Whether the agent knows our plugin, or at least our marketplace."""
    listed = _ask(app, agent, LIST[agent]) + _ask(app, agent, ["marketplace", "list"])
    return MARKET in listed


def _ask(app: App, agent: str, words: list[str]) -> str:
    command = [agent, "plugin", *words]
    program = shutil.which(agent, path=app.env.get("PATH")) or agent
    try:
        done = subprocess.run(
            [program, *command[1:]],
            env=dict(app.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"`{' '.join(command)}` did not work: {error}") from error
    if done.returncode:
        said = [line.strip() for line in f"{done.stderr}\n{done.stdout}".splitlines() if line.strip()]
        raise UsageError(f"`{' '.join(command)}` refused: {next(iter(said), f'exit code {done.returncode}')}")
    return done.stdout


def _home(app: App) -> Path:
    return Path(app.env.get("HOME") or Path.home())


def _agent_home(app: App, agent: str) -> Path:
    named = app.env.get("CLAUDE_CONFIG_DIR" if agent == "claude" else "CODEX_HOME", "")
    return Path(named) if named else _home(app) / f".{agent}"
