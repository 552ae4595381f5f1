"""What is set up around the nights: ``plugin``, ``settings``, ``uninstall``."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from skillopt_sleep.agents import all_agents, find_agent
from skillopt_sleep.cli.options import (
    as_json,
    data_dir_option,
    night_options,
    open_workspace,
    place_options,
    print_json,
    print_lines,
)
from skillopt_sleep.model import Json

AGENT = click.Choice([agent.name for agent in all_agents() if agent.plugin])


@click.group("plugin")
def plugin_command() -> None:
    """Use this program inside your agent: /skillopt-sleep in Claude Code, $skillopt-sleep in Codex."""


@plugin_command.command("install")
@click.argument("agent", type=AGENT)
@place_options
@as_json
def install_plugin_command(agent: str, as_json: bool, **flags: Json | Path) -> None:
    """Install the plugin into AGENT with the agent's own commands, or update it to this version."""
    from skillopt_sleep.usecases.plugins import install_plugin

    done = print_lines(install_plugin(open_workspace(flags), find_agent(agent)), quiet=as_json)
    if as_json:
        print_json({"done": done})


@plugin_command.command("uninstall")
@click.argument("agent", type=AGENT)
@place_options
@as_json
def uninstall_plugin_command(agent: str, as_json: bool, **flags: Json | Path) -> None:
    """Remove the plugin from AGENT, with the files installed beside it."""
    from skillopt_sleep.usecases.plugins import uninstall_plugin

    done = print_lines(uninstall_plugin(open_workspace(flags), find_agent(agent)), quiet=as_json)
    if as_json:
        print_json({"done": done})
    elif not done:
        click.echo(f"the plugin is not installed in {agent}, so there is nothing to remove")


@click.command("settings")
@night_options
@place_options
@as_json
def settings_command(as_json: bool, **flags: Json | Path) -> None:
    """Print every setting, its value and where the value came from: default, file, variable or flag."""
    workspace = open_workspace(flags)
    values = msgspec.to_builtins(workspace.settings)
    if as_json:
        rows = {key: {"value": value, "from": workspace.origins[key]} for key, value in values.items()}
        click.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
        return
    from skillopt_sleep.settings import settings_path

    click.echo(f"# {settings_path(workspace.env)}, then SKILLOPT_SLEEP_<NAME>, then --<name>; the last one counts")
    for key, value in values.items():
        origin = "" if workspace.origins[key] == "default" else f"  # {workspace.origins[key]}"
        click.echo(f"{key} = {msgspec.json.encode(value).decode()}{origin}")


@click.command("uninstall")
@click.option("--rules", is_flag=True, help="Also revert everything adopted, in every project, byte for byte.")
@click.option("--data", is_flag=True, help="Also delete what nights have learnt: data folder, reports in projects.")
@click.option("--yes", is_flag=True, help="Do not ask before deleting data.")
@data_dir_option
@as_json
@click.pass_context
def uninstall_command(
    context: click.Context, /, *, rules: bool, data: bool, yes: bool, data_dir: str | None, as_json: bool
) -> None:
    """Remove the schedule and the plugins; rules and data stay unless you ask for more.

    What stays is listed at the end, each with the way to remove it. Files that you edited by hand, and files that are
    not this program's, stay and are named. Remove the program itself with the tool that installed it.
    """
    from skillopt_sleep.usecases.uninstall import Removal

    workspace = open_workspace({"data_dir": data_dir} if data_dir else {})
    removal = Removal(workspace, rules=rules, data=data)
    with removal.ready():
        if data and not yes and removal.has_data:
            what = f"{workspace.data_dir} and the nights' reports in your projects"
            click.confirm(f"Delete {what} for good?", abort=True, err=True)
        removed = print_lines(removal.steps(), quiet=as_json)
    if as_json:
        print_json({"removed": removed, "kept": list(removal.kept())})
    else:
        click.echo("\nKept on purpose:" if removed else "there was nothing to remove\n\nKept on purpose:")
        print_lines(removal.kept(), indent="  ")
    if removal.failed:
        context.exit(removal.failed[0].exit_code)
