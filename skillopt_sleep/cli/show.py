"""``show``: the whole report of a night."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.cli.options import as_json, open_workspace, place_options
from skillopt_sleep.model import Json
from skillopt_sleep.reports.diagnostics import render_diagnostics
from skillopt_sleep.reports.markdown import render_report


@click.command("show")
@click.argument("night", required=False)
@place_options
@as_json
def command(night: str | None, as_json: bool, **flags: Json | Path) -> None:
    """Print the report of NIGHT, or of the last one: what was learnt, the proof, the cost, what was left out."""
    from skillopt_sleep.usecases.status import read_report

    report = read_report(open_workspace(flags), night)
    click.echo(render_diagnostics(report).decode() if as_json else render_report(report), nl=False)
