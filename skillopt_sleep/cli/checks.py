"""``checks`` lists, approves and removes the commands that score replays in copies of the project."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_sleep.cli.options import as_json, get_program_name, list_place_arguments, open_workspace, place_options
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from skillopt_sleep.mining.commands import RecurringCommand
    from skillopt_sleep.usecases.permissions import Checks


@click.group("checks", invoke_without_command=True)
@place_options
@as_json
@click.pass_context
def checks_command(context: click.Context, /, as_json: bool, **flags: Json | Path) -> None:
    """List the commands that may score replays, and others that your sessions use often.

    With `--replay worktree` the agent works in a throwaway copy of the project, and its work is scored by the exit
    status of commands you approved here, such as your tests. They run in that copy, without network, and can write
    nowhere else. Approvals are kept with your own data, for this project alone; a project cannot approve anything
    itself.
    """
    context.obj = flags
    if context.invoked_subcommand is not None:
        return
    from skillopt_sleep.usecases.permissions import list_checks

    found = list_checks(open_workspace(flags))
    if as_json:
        from skillopt_sleep.reports.formatting import to_json

        click.echo(to_json(found).decode())
        return
    for line in _describe(found, f"{get_program_name()} checks{list_place_arguments(flags)}"):
        click.echo(line)


@checks_command.command("approve")
@click.argument("commands", nargs=-1, required=True, metavar="COMMAND...")
@click.option("--seconds", type=float, default=300.0, show_default=True, help="Time limit of each run.")
@place_options
@click.pass_obj
def approve(given: dict[str, Json | Path], /, commands: tuple[str, ...], seconds: float, **flags: Json | Path) -> None:
    """Approve COMMANDs: ids from the list, or quoted command lines."""
    from skillopt_sleep.reports.formatting import plain
    from skillopt_sleep.usecases import permissions

    workspace = open_workspace(_merge_flags(given, flags))
    for name in commands:
        approved = permissions.approve_check(workspace, name, seconds=seconds)
        click.echo(f"approved for {workspace.project}: {plain(approved.line)} (at most {approved.seconds:g} s)")


@checks_command.command("remove")
@click.argument("commands", nargs=-1, required=True, metavar="COMMAND...")
@place_options
@click.pass_obj
def remove(given: dict[str, Json | Path], /, commands: tuple[str, ...], **flags: Json | Path) -> None:
    """Remove approved COMMANDs: by their ids, or as they were approved."""
    from skillopt_sleep.reports.formatting import plain
    from skillopt_sleep.usecases import permissions

    workspace = open_workspace(_merge_flags(given, flags))
    for name in commands:
        click.echo(f"removed: {plain(permissions.remove_check(workspace, name))}")


def _merge_flags(before: dict[str, Json | Path], after: dict[str, Json | Path]) -> dict[str, Json | Path]:
    """Return the options given before and after the name of an action; the later ones count."""
    return {**before, **{name: value for name, value in after.items() if value}}


def _describe(found: Checks, program: str) -> Iterator[str]:
    from skillopt_sleep.mining.commands import command_id
    from skillopt_sleep.reports.formatting import plain

    records = {record.line: record for record in found.records}
    yield f"Commands that score replays of {plain(found.project)}:"
    for approved in found.approved:
        record = records.get(approved.line)
        yield f"  {command_id(approved.line)}  {plain(approved.line)}"
        yield f"          at most {approved.seconds:g} s{f'; {_describe_runs(record)}' if record else ''}"
    if not found.approved:
        yield "  none yet: no command is run"
    if not found.offered:
        yield "Your sessions repeat no other command that could tell good work from bad."
        return
    yield ""
    yield "Commands that your sessions ran again and again:"
    for offer in found.offered:
        yield f"  {offer.id}  {plain(offer.line)}"
        yield f"          {_describe_runs(offer)}"
    yield ""
    yield f"To approve one:  {program} approve {found.offered[0].id}"


def _describe_runs(command: RecurringCommand) -> str:
    from skillopt_sleep.reports.formatting import number

    counts = ((command.failed, "failed"), (command.passed, "passed"), (command.unknown, "with unknown result"))
    results = ", ".join(f"{count} {result}" for count, result in counts if count)
    last = f"; last on {command.last}" if command.last else ""
    return f"{number(command.runs, 'run')} in {number(command.sessions, 'session')}: {results}{last}"
