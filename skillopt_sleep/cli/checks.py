"""``checks`` lists, approves and removes the commands that score replays in copies of the project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_sleep.cli.options import (
    as_json,
    get_program_name,
    list_place_arguments,
    open_workspace,
    place_options,
    print_json,
    print_lines,
    print_page,
)
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from skillopt_sleep.mining.commands import RecurringCommand
    from skillopt_sleep.reports.blocks import Page
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
        print_json(found)
        return
    print_page(_describe(found, f"{get_program_name()} checks{list_place_arguments(flags)}"))


@checks_command.command("approve")
@click.argument("commands", nargs=-1, required=True, metavar="COMMAND...")
@click.option("--seconds", type=float, default=300.0, show_default=True, help="Time limit of each run.")
@place_options
@as_json
@click.pass_obj
def approve(
    given: dict[str, Json | Path], /, *, commands: tuple[str, ...], seconds: float, as_json: bool, **flags: Json | Path
) -> None:
    """Approve COMMANDs: ids from the list, or quoted command lines."""
    from skillopt_sleep.usecases import permissions

    workspace = open_workspace(_merge_flags(given, flags))
    approved = [permissions.approve_check(workspace, name, seconds=seconds) for name in commands]
    if as_json:
        print_json({"project": str(workspace.project), "approved": approved})
        return
    print_lines(f"approved for {workspace.project}: {one.line} (at most {one.seconds:g} s)" for one in approved)


@checks_command.command("remove")
@click.argument("commands", nargs=-1, required=True, metavar="COMMAND...")
@place_options
@as_json
@click.pass_obj
def remove(given: dict[str, Json | Path], /, *, commands: tuple[str, ...], as_json: bool, **flags: Json | Path) -> None:
    """Remove approved COMMANDs: by their ids, or as they were approved."""
    from skillopt_sleep.usecases import permissions

    workspace = open_workspace(_merge_flags(given, flags))
    removed = [permissions.remove_check(workspace, name) for name in commands]
    if as_json:
        print_json({"project": str(workspace.project), "removed": removed})
        return
    print_lines(f"removed: {line}" for line in removed)


def _merge_flags(before: dict[str, Json | Path], after: dict[str, Json | Path]) -> dict[str, Json | Path]:
    """Return the options given before and after the name of an action; the later ones count."""
    return {**before, **{name: value for name, value in after.items() if value}}


def _describe(found: Checks, program: str) -> Page:
    from skillopt_sleep.mining.commands import command_id
    from skillopt_sleep.reports.blocks import Items, Section
    from skillopt_sleep.reports.formatting import plain

    records = {record.line: record for record in found.records}
    approved = []
    for check in found.approved:
        runs = f"; {_describe_runs(records[check.line])}" if check.line in records else ""
        approved.append((f"{command_id(check.line)}  {plain(check.line)}", f"at most {check.seconds:g} s{runs}"))
    offered = [(f"{offer.id}  {plain(offer.line)}", _describe_runs(offer)) for offer in found.offered]
    title = "Commands that your sessions ran again and again"
    none = "Your sessions repeat no other command that could tell good work from bad."
    step = f"To approve one:  {program} approve {found.offered[0].id}" if offered else none
    return (
        Section(
            f"Commands that score replays of {plain(found.project)}",
            (Items(approved) if approved else "none yet: no command is run",),
        ),
        Section(title, (Items(offered),) if offered else ()),
        Section("", (step,)),
    )


def _describe_runs(command: RecurringCommand) -> str:
    from skillopt_sleep.reports.formatting import number

    counts = ((command.failed, "failed"), (command.passed, "passed"), (command.unknown, "with unknown result"))
    results = ", ".join(f"{count} {result}" for count, result in counts if count)
    last = f"; last on {command.last}" if command.last else ""
    return f"{number(command.runs, 'run')} in {number(command.sessions, 'session')}: {results}{last}"
