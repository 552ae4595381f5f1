"""The commands that only show something: ``status``, ``show``, ``insights``, ``why``, ``watch``."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.cli.options import as_json, open_workspace, place_options, print_json
from skillopt_sleep.errors import UsageError
from skillopt_sleep.model import Json

NIGHTS = 10
"""Nights in the table of ``status``."""


@click.command("status")
@place_options
@as_json
def status_command(as_json: bool, **flags: Json | Path) -> None:
    """Show the last nights of this project and what waits for you: proposals, sessions, an interrupted night."""
    from skillopt_sleep.usecases.status import read_status

    status = read_status(open_workspace(flags))
    if as_json:
        print_json(status)
        return
    from skillopt_sleep.reports.status import render_status

    click.echo(render_status(status, most=NIGHTS))


@click.command("show")
@click.argument("night", required=False)
@place_options
@as_json
def show_command(night: str | None, as_json: bool, **flags: Json | Path) -> None:
    """Print the report of NIGHT (default: the last one): what was learnt, how it was tested, what it cost."""
    from skillopt_sleep.reports.diagnostics import render_diagnostics
    from skillopt_sleep.reports.markdown import render_report
    from skillopt_sleep.usecases.status import read_report

    report = read_report(open_workspace(flags), night)
    click.echo(render_diagnostics(report).decode() if as_json else render_report(report), nl=False)


@click.command("insights")
@place_options
@as_json
def insights_command(as_json: bool, **flags: Json | Path) -> None:
    """Show what you ask and correct again and again, in your own words.

    No model is called and nothing is written.
    """
    from skillopt_sleep.usecases.sessions import collect_insights

    found = collect_insights(open_workspace(flags))
    if as_json:
        print_json(found)
        return
    from skillopt_sleep.reports.insights import render_insights

    click.echo(render_insights(found))


class _RuleCommand(click.Command):
    """A command whose argument may be a rule pasted with its list mark, which must not be read as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the list marks."""
        return super().parse_args(ctx, [argument.removeprefix("- ") for argument in args])


@click.command("why", cls=_RuleCommand)
@click.argument("rule", nargs=-1, required=True)
@place_options
@as_json
def why_command(rule: tuple[str, ...], as_json: bool, **flags: Json | Path) -> None:
    """Show where a RULE came from: its nights, the tasks and your own words it rests on, and how it was tested.

    RULE is its text, a part of it, or the id of the edit; it need not be adopted.
    """
    from skillopt_sleep.reports.why import find_nearest_rule, find_rules, render_why
    from skillopt_sleep.storage.live_files import find_altered_edits, read_adopted_edits
    from skillopt_sleep.usecases.status import read_status

    workspace, wanted = open_workspace(flags), " ".join(rule)
    status = read_status(workspace)
    stories = status.nights and find_rules(  # without a night, the database would be created here
        wanted,
        status.nights,
        live=read_adopted_edits(workspace.database, status.project),
        pending={edit for change in status.pending for edit in change.edits},
        altered=find_altered_edits(workspace.database, status.project),
    )
    if not stories:
        nearest = find_nearest_rule(wanted, status.nights)
        hint = f"; the nearest: {nearest!r}" if nearest else ""
        raise UsageError(f"no rule of {status.project} contains {wanted!r}{hint}")
    if as_json:
        print_json(stories)
    else:
        click.echo(render_why(stories))


@click.command("watch")
@place_options
@as_json
def watch_command(as_json: bool, **flags: Json | Path) -> None:
    """For each adopted rule, show how often you made such corrections before and since. No model call.

    New sessions are read first. When corrections did not become fewer, the command that removes the rule is shown;
    nothing is changed.
    """
    from skillopt_sleep.usecases.sessions import file_sessions
    from skillopt_sleep.usecases.status import watch_rules

    workspace = open_workspace(flags)
    file_sessions(workspace)
    found = watch_rules(workspace)
    if as_json:
        print_json(found)
        return
    from skillopt_sleep.reports.watch import render_watch

    click.echo(render_watch(found))
