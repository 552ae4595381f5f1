"""``why``: where a rule came from."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.cli.options import as_json, make_app, place_options
from skillopt_sleep.domain import Json

__all__ = ["command"]


@click.command("why")
@click.argument("rule", nargs=-1, required=True)
@place_options
@as_json
def command(rule: tuple[str, ...], as_json: bool, **flags: Json | Path) -> None:
    """Say where a RULE came from: its nights, the tasks and your own words it stands on, and how it was tested.

    RULE is its text, a part of it, or the id of the edit; adopted or not.
    """
    stories = make_app(flags).why(" ".join(rule))
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(stories).decode())
        return
    from skillopt_sleep.reports import why as page

    click.echo(page.render(stories))
