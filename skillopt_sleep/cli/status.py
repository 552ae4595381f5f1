"""``status``: the last nights, and what waits for the user."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.cli.options import as_json, open_workspace, place_options
from skillopt_sleep.model import Json

MOST_NIGHTS = 10


@click.command("status")
@place_options
@as_json
def command(as_json: bool, **flags: Json | Path) -> None:
    """Show the last nights of this project and what waits for you: proposals, sessions, a night cut short."""
    from skillopt_sleep.usecases.status import read_status

    workspace = open_workspace(flags)
    status = read_status(workspace)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(status).decode())
        return
    from skillopt_sleep.reports.status import render_status

    click.echo(render_status(status, most=MOST_NIGHTS))
