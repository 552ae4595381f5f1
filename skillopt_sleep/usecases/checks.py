"""The commands that may score replays: those the user's sessions ran again and again, and those the user approved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from skillopt_sleep.errors import UsageError
from skillopt_sleep.mining.commands import (
    RecurringCommand,
    collapse_spaces,
    command_id,
    find_command_problem,
    find_recurring_commands,
)
from skillopt_sleep.model.rollout import CheckCommand
from skillopt_sleep.usecases.sessions import file_sessions, load_archived

if TYPE_CHECKING:
    from skillopt_sleep.usecases.workspace import Workspace

MOST_SHOWN = 20
"""Commands that are offered at most."""
LONGEST_LIMIT = 3600.0


class Checks(Struct, frozen=True, kw_only=True):
    """What may be run for a project, and what could be. ``records`` tells of approved ones that sessions ran."""

    project: str
    approved: tuple[CheckCommand, ...] = ()
    records: tuple[RecurringCommand, ...] = ()
    offered: tuple[RecurringCommand, ...] = ()


def checks(workspace: Workspace) -> Checks:
    """The approved commands of the project, and those its sessions offer, on a copy in memory."""
    workspace = workspace.as_dry_run()
    file_sessions(workspace)
    return _checks(workspace)


def _checks(workspace: Workspace) -> Checks:
    project = str(workspace.project)
    approved = workspace.approvals.of(project)
    lines = {each.line for each in approved}
    found = find_recurring_commands(load_archived(workspace), project)
    return Checks(
        project=project,
        approved=approved,
        records=tuple(each for each in found if each.line in lines),
        offered=tuple(each for each in found if each.line not in lines)[:MOST_SHOWN],
    )


def approve(workspace: Workspace, named: str, *, seconds: float) -> CheckCommand:
    """Let a command be run over what replays leave behind: one that is offered, by its id, or one written out.

    Raises ``UsageError`` for an id that none has, a line that cannot be looked at as a whole, or a limit out of range.
    """
    if not 0 < seconds <= LONGEST_LIMIT:
        raise UsageError(f"--seconds {seconds:g}: a limit between 0 and {LONGEST_LIMIT:g} seconds is wanted")
    line = _named(named, [each.line for each in _offered(workspace)])
    command = CheckCommand(line=line, seconds=seconds)
    workspace.approvals.approve(str(workspace.project), command, workspace.clock.now())
    return command


def remove(workspace: Workspace, named: str) -> str:
    """Let it be run no more. Raises ``UsageError`` when it is not approved."""
    approved = [each.line for each in workspace.approvals.of(str(workspace.project))]
    line = next(
        (each for each in approved if each in {named, collapse_spaces(named)} or command_id(each) == named), None
    )
    if line is None:
        known = ", ".join(command_id(each) for each in approved) or "none"
        raise UsageError(f"{named!r} is not approved for {workspace.project}; approved are: {known}")
    workspace.approvals.remove(str(workspace.project), line)
    return line


def _offered(workspace: Workspace) -> tuple[RecurringCommand, ...]:
    file_sessions(workspace)
    return find_recurring_commands(load_archived(workspace), str(workspace.project))


def _named(named: str, lines: list[str]) -> str:
    """The command of that id, or the command itself, written out."""
    found = next((line for line in lines if command_id(line) == named), None)
    if found is not None:
        return found
    if len(named) == len(command_id("")) and all(letter in "0123456789abcdef" for letter in named):
        raise UsageError(f"no command has the id {named}; `skillopt-sleep checks` lists them")
    if not named.strip():
        raise UsageError("an empty command tells nothing: name one by its id, or write it out")
    if why := find_command_problem(named):
        raise UsageError(f"{named!r}: {why}")
    return collapse_spaces(named)
