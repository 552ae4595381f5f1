"""``adopt``: put a night's proposal live."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_sleep.cli.options import as_json, open_workspace, place_options
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillopt_sleep.storage.adoption import LiveChange


@click.command("adopt")
@click.argument("night", required=False)
@click.option("--edit", "edits", multiple=True, metavar="ID", help="Only this edit; may be repeated.")
@click.option("--undecided", is_flag=True, help="Also what the gate has not decided; recorded as adopted by hand.")
@place_options
@as_json
def command(night: str | None, edits: tuple[str, ...], undecided: bool, as_json: bool, **flags: Json | Path) -> None:
    """Make the proposal of NIGHT (the latest that waits) live, all of it or single edits.

    An edit that the guard holds back goes live only when it is named with --edit; one that is undecided needs
    --undecided. All files change together or none does. Refused (exit 8), with nothing changed, when a live file is
    not what it was when the night measured it.
    """
    from skillopt_sleep.usecases.adopt import adopt_night
    from skillopt_sleep.usecases.upkeep import settle

    workspace = open_workspace(flags)
    night, changes = adopt_night(workspace, night, edits=edits, undecided=undecided)
    settle(workspace)
    print_changes(changes, as_json=as_json)
    if not as_json:
        click.echo(f"\nTo undo it, byte for byte: skillopt-sleep revert {night}")


def print_changes(changes: Sequence[LiveChange], *, as_json: bool) -> None:
    """Print what happened to each live file."""
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(changes).decode())
        return
    from skillopt_sleep.reports.formatting import plain

    for change in changes:
        done = "changed" if change.existed and change.exists else "made" if change.exists else "removed"
        click.echo(f"{done} {plain(change.path)}")
        for edit in change.edits:
            click.echo(f"  {edit.id}  {edit.op.value}: {plain(edit.text or edit.anchor)}")
