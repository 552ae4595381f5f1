"""``doctor``: what a night would do and cost, and whether it could."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from skillopt_sleep.cli.options import as_json, make_app, night_options, place_options
from skillopt_sleep.domain import Json
from skillopt_sleep.errors import BackendError

__all__ = ["command"]


@click.command("doctor")
@night_options
@place_options
@as_json
def command(as_json: bool, **flags: Json | Path) -> None:
    """Say whether a night could run here, what it would do and cost, and what would leave the machine and to whom.

    Nothing is spent and nothing is written. Ends with 4 when the backend cannot be used. The last block is what
    `insights` prints.
    """
    report = make_app(flags).examine()
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(report).decode())
    else:
        from skillopt_sleep.reports import doctor as page

        click.echo(page.render(report))
    if any(health.ready is False for health in report.backends):
        sys.exit(BackendError.exit_code)
