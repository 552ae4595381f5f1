"""``watch``: whether what was adopted helps in daily work."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.cli.options import as_json, open_workspace, place_options
from skillopt_sleep.model import Json


@click.command("watch")
@place_options
@as_json
def command(as_json: bool, **flags: Json | Path) -> None:
    """For each adopted rule: how often you corrected the agent in its matter, before and since. No model call.

    New sessions are read into the inbox first. Where corrections did not fall, the command that takes the rule out
    is named; nothing is changed.
    """
    from skillopt_sleep.usecases.sessions import file_sessions
    from skillopt_sleep.usecases.status import watch_rules

    workspace = open_workspace(flags)
    file_sessions(workspace)
    found = watch_rules(workspace)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(found).decode())
        return
    from skillopt_sleep.reports.watch import render_watch

    click.echo(render_watch(found))
