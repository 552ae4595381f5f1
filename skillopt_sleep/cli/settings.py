"""``settings``: every setting, its value, and where the value came from."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from skillopt_sleep.cli.options import as_json, night_options, open_workspace, place_options
from skillopt_sleep.model import Json


@click.command("settings")
@night_options
@place_options
@as_json
def command(as_json: bool, **flags: Json | Path) -> None:
    """Print every setting with its value and where it came from: default, file, variable or flag."""
    workspace = open_workspace(flags)
    values = msgspec.to_builtins(workspace.settings)
    if as_json:
        rows = {key: {"value": value, "from": workspace.origins[key]} for key, value in values.items()}
        click.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
        return
    from skillopt_sleep.settings import settings_path

    click.echo(f"# {settings_path(workspace.env)}, SKILLOPT_SLEEP_<NAME>, or --<name>; the later one wins")
    for key, value in values.items():
        shown = msgspec.json.encode(value).decode()
        origin = "" if workspace.origins[key] == "default" else f"  # {workspace.origins[key]}"
        click.echo(f"{key} = {shown}{origin}")
