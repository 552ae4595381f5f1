"""``plugin``: install the thin plugin of an agent, or take it out."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.agents import all_agents, find_agent
from skillopt_sleep.cli.options import open_workspace, place_options
from skillopt_sleep.model import Json

AGENT = click.Choice([agent.name for agent in all_agents() if agent.plugin])


@click.group("plugin")
def command() -> None:
    """Reach this program from within the agent: /skillopt-sleep in Claude Code, $skillopt-sleep in Codex."""


@command.command("install")
@click.argument("agent", type=AGENT)
@place_options
def install(agent: str, **flags: Json | Path) -> None:
    """Install the plugin into AGENT by its own commands, or bring it up to this version."""
    from skillopt_sleep.usecases.plugins import install_plugin

    for line in install_plugin(open_workspace(flags), find_agent(agent)):
        click.echo(line)


@command.command("uninstall")
@click.argument("agent", type=AGENT)
@place_options
def uninstall(agent: str, **flags: Json | Path) -> None:
    """Take the plugin out of AGENT, and what was laid beside it."""
    from skillopt_sleep.usecases.plugins import uninstall_plugin

    done = False
    for line in uninstall_plugin(open_workspace(flags), find_agent(agent)):
        click.echo(line)
        done = True
    if not done:
        click.echo(f"the plugin is not installed in {agent}, so there is nothing to take out")
