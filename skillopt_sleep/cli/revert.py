"""``revert``: undo an adopted night, or one edit of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_sleep.cli.adopt import print_changes
from skillopt_sleep.cli.options import as_json, open_workspace, place_options
from skillopt_sleep.errors import Refused
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from skillopt_sleep.usecases.workspace import Workspace


@click.command("revert")
@click.argument("night", required=False)
@click.option("--edit", metavar="ID", help="Only this edit.")
@click.option("--list", "listing", is_flag=True, help="List what is live and can be undone; change nothing.")
@place_options
@as_json
def command(night: str | None, edit: str | None, listing: bool, as_json: bool, **flags: Json | Path) -> None:
    """Take out what NIGHT (the latest adopted one) made live, or one edit; the rest of every file stays as it is.

    Refused (exit 8), with nothing changed, when the block was edited by hand or later edits stand on what would go.
    """
    from skillopt_sleep.storage.adoption import revert
    from skillopt_sleep.usecases.status import read_status
    from skillopt_sleep.usecases.upkeep import settle

    workspace = open_workspace(flags)
    if listing:
        _list(workspace, as_json=as_json)
        return
    if night is None and edit is None:
        adopted = read_status(workspace).adopted
        if not adopted:
            raise Refused("no night of this project is adopted, so there is nothing to revert")
        night = adopted[0]
    changes = revert(workspace.staging, night=night, edit=edit)
    settle(workspace)
    print_changes(changes, as_json=as_json)


def _list(workspace: Workspace, *, as_json: bool) -> None:
    """Print what is live, the latest first, with what would come back."""
    from skillopt_sleep.reports.formatting import plain
    from skillopt_sleep.usecases.adopt import live_adoptions

    live = live_adoptions(workspace)[::-1]
    if as_json:
        import msgspec

        rows = [
            {
                "night": each.night,
                "path": each.path,
                "adopted_at": each.adopted_at,
                "how": each.how,
                "edits": [edit.id for edit in each.edits],
                "bytes_before": None if each.before is None else len(each.before),
            }
            for each in live
        ]
        click.echo(msgspec.json.encode(rows).decode())
        return
    if not live:
        click.echo("nothing of this project is live, so there is nothing to revert")
    for each in live:
        kept = "no file" if each.before is None else f"{len(each.before)} bytes"
        click.echo(f"{each.night}  {each.adopted_at[:16].replace('T', ' ')}  {each.path}  (before it: {kept}, kept)")
        if each.how:
            click.echo(f"  {plain(each.how)}")
        for edit in each.edits:
            click.echo(f"  {edit.id}  {edit.op.value}: {plain(edit.text or edit.anchor)}")
