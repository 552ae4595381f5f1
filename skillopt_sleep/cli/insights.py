"""``insights``: what the sessions already tell."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from skillopt_sleep.cli.options import as_json, open_workspace, place_options
from skillopt_sleep.model import Json


@click.command("insights")
@place_options
@as_json
def command(as_json: bool, **flags: Json | Path) -> None:
    """Say what your sessions already tell: what you asked and corrected again and again, in your own words.

    No model is called and nothing is written.
    """
    from skillopt_sleep.usecases.sessions import collect_insights

    found = collect_insights(open_workspace(flags))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    from skillopt_sleep.reports.insights import render_insights

    click.echo(render_insights(found))
