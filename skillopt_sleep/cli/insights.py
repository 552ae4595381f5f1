"""``insights``: what the sessions already tell."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from skillopt_sleep.cli.options import as_json, make_app, place_options
from skillopt_sleep.model import Json


@click.command("insights")
@place_options
@as_json
def command(as_json: bool, **flags: Json | Path) -> None:
    """Say what your sessions already tell: what you asked and corrected again and again, in your own words.

    No model is called and nothing is written.
    """
    found = make_app(flags).insights()
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    from skillopt_sleep.reports import insights as page

    click.echo(page.render(found))
