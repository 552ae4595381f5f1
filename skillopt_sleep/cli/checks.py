"""``checks``: the commands that score replays in copies of the project."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_sleep.cli.options import as_json, open_workspace, place_of, place_options, program_name
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from skillopt_sleep.mining.commands import RecurringCommand
    from skillopt_sleep.usecases.permissions import Checks


@click.group("checks", invoke_without_command=True)
@place_options
@as_json
@click.pass_context
def command(context: click.Context, /, as_json: bool, **flags: Json | Path) -> None:
    """List the commands that may score replays, and those your sessions could offer.

    With `--replay worktree` the agent works in a throwaway copy of the project, and its work is scored by commands you
    approved here, such as your tests: by their exit status. They run in that copy, without network, and can write
    nowhere else. What is approved is kept with your own data, for this project alone; a project cannot approve anything
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
    for line in _listed(found, f"{program_name()} checks{place_of(flags)}"):
        click.echo(line)


@command.command("approve")
@click.argument("commands", nargs=-1, required=True, metavar="COMMAND...")
@click.option("--seconds", type=float, default=300.0, show_default=True, help="Time limit of each run.")
@place_options
@click.pass_obj
def approve(given: dict[str, Json | Path], /, commands: tuple[str, ...], seconds: float, **flags: Json | Path) -> None:
    """Let COMMANDs be run: ids from the list, or command lines in quotes."""
    from skillopt_sleep.reports.formatting import plain
    from skillopt_sleep.usecases import permissions

    workspace = open_workspace(_both(given, flags))
    for named in commands:
        approved = permissions.approve_check(workspace, named, seconds=seconds)
        click.echo(f"approved for {workspace.project}: {plain(approved.line)} (at most {approved.seconds:g} s)")


@command.command("remove")
@click.argument("commands", nargs=-1, required=True, metavar="COMMAND...")
@place_options
@click.pass_obj
def remove(given: dict[str, Json | Path], /, commands: tuple[str, ...], **flags: Json | Path) -> None:
    """Let COMMANDs be run no more: by their ids, or as they were approved."""
    from skillopt_sleep.reports.formatting import plain
    from skillopt_sleep.usecases import permissions

    workspace = open_workspace(_both(given, flags))
    for named in commands:
        click.echo(f"no longer run: {plain(permissions.remove_check(workspace, named))}")


def _both(before: dict[str, Json | Path], after: dict[str, Json | Path]) -> dict[str, Json | Path]:
    """The options given before the name of an action and after it; what was said last holds."""
    return {**before, **{name: value for name, value in after.items() if value}}


def _listed(found: Checks, program: str) -> Iterator[str]:
    from skillopt_sleep.mining.commands import command_id
    from skillopt_sleep.reports.formatting import plain

    records = {each.line: each for each in found.records}
    yield f"Commands that score replays of {plain(found.project)}:"
    for each in found.approved:
        record = records.get(each.line)
        yield f"  {command_id(each.line)}  {plain(each.line)}"
        yield f"          at most {each.seconds:g} s{f'; {_record(record)}' if record else ''}"
    if not found.approved:
        yield "  none yet: nothing is run"
    if not found.offered:
        yield "No other command that could tell good work from bad recurs in your sessions."
        return
    yield ""
    yield "What your sessions ran again and again:"
    for offer in found.offered:
        yield f"  {offer.id}  {plain(offer.line)}"
        yield f"          {_record(offer)}"
    yield ""
    yield f"Look at a command, then:  {program} approve {found.offered[0].id}"


def _record(each: RecurringCommand) -> str:
    from skillopt_sleep.reports.formatting import number

    ended = [f"{each.failed} failed" * bool(each.failed), f"{each.passed} passed" * bool(each.passed)]
    ended.append(f"{each.unknown} not told" * bool(each.unknown))
    told = ", ".join(filter(None, ended))
    last = f"; last on {each.last}" if each.last else ""
    return f"{number(each.runs, 'run')} in {number(each.sessions, 'session')}: {told}{last}"
