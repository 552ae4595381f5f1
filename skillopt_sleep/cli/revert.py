"""``revert``: undo an adopted night, or one edit of it."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.cli.adopt import print_changes
from skillopt_sleep.cli.options import as_json, make_app, place_options
from skillopt_sleep.domain import Json
from skillopt_sleep.errors import Refused

__all__ = ["command"]


@click.command("revert")
@click.argument("night", required=False)
@click.option("--edit", metavar="ID", help="Only this edit.")
@place_options
@as_json
def command(night: str | None, edit: str | None, as_json: bool, **flags: Json | Path) -> None:
    """Take out what NIGHT (the latest adopted one) made live, or one edit; the rest of every file stays as it is.

    Refused (exit 8), with nothing changed, when the block was edited by hand or later edits stand on what would go.
    """
    from skillopt_sleep.stores.adoption import revert

    app = make_app(flags)
    if night is None and edit is None:
        adopted = app.status().adopted
        if not adopted:
            raise Refused("no night of this project is adopted, so there is nothing to revert")
        night = adopted[0]
    print_changes(revert(app.staging, night=night, edit=edit), as_json=as_json)
