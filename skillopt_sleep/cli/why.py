"""``why``: where a rule came from."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.cli.options import as_json, open_workspace, place_options
from skillopt_sleep.errors import UsageError
from skillopt_sleep.model import Json


class _RuleCommand(click.Command):
    """A rule may be given as it stands in its file: its list mark is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the list marks off."""
        return super().parse_args(ctx, [each.removeprefix("- ") for each in args])


@click.command("why", cls=_RuleCommand)
@click.argument("rule", nargs=-1, required=True)
@place_options
@as_json
def command(rule: tuple[str, ...], as_json: bool, **flags: Json | Path) -> None:
    """Say where a RULE came from: its nights, the tasks and your own words it stands on, and how it was tested.

    RULE is its text, a part of it, or the id of the edit; adopted or not.
    """
    from skillopt_sleep.reports.why import find_nearest_rule, find_rules
    from skillopt_sleep.storage.adoption import altered, ever_live
    from skillopt_sleep.usecases.status import read_status

    workspace, wanted = open_workspace(flags), " ".join(rule)
    status = read_status(workspace)
    pending = {edit for each in status.pending for edit in each.edits}
    live, gone = ever_live(workspace.database, status.project), altered(workspace.database, status.project)
    stories = find_rules(wanted, status.nights, live=live, pending=pending, altered=gone)
    if not stories:
        near = find_nearest_rule(wanted, status.nights)
        raise UsageError(
            f"no rule of {status.project} has {wanted!r} in it" + (f"; the nearest: {near!r}" if near else "")
        )
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(stories).decode())
        return
    from skillopt_sleep.reports.why import render_why

    click.echo(render_why(stories))
