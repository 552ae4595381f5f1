"""``doctor`` checks whether a night could run, and what it would do and cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_sleep.cli.options import as_json, night_options, open_workspace, place_options, print_json
from skillopt_sleep.errors import BackendError
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from skillopt_sleep.storage.repair import RepairReport
    from skillopt_sleep.usecases.workspace import Workspace


@click.command("doctor")
@click.option("--repair", is_flag=True, help="Only repair a damaged database, as far as possible.")
@night_options
@place_options
@as_json
def doctor_command(repair: bool, as_json: bool, **flags: Json | Path) -> None:
    """Check whether a night could run here, what it would do and cost, and what would leave this machine, and to whom.

    Nothing is spent and nothing is written. Ends with 4 when the backend cannot be used. The last part is what
    `insights` prints.
    """
    workspace = open_workspace(flags)
    if repair:
        _repair(workspace)
        return
    from skillopt_sleep.usecases.doctor import examine_setup

    report = examine_setup(workspace.make_dry_run())
    if as_json:
        print_json(report)
    else:
        from skillopt_sleep.reports.doctor import render_doctor

        click.echo(render_doctor(report))
    if any(health.ready is False for health in report.backends):
        sys.exit(BackendError.exit_code)


def _repair(workspace: Workspace) -> None:
    from skillopt_sleep.usecases.upkeep import repair

    found, given_up = repair(workspace)
    for line in given_up:
        click.echo(line)
    if found is None:
        click.echo(f"the database in {workspace.data_dir} is sound: nothing to repair")
        return
    for line in _describe_repair(found):
        click.echo(line)


def _describe_repair(found: RepairReport) -> Iterator[str]:
    if found.damaged:
        yield f"{found.path} was damaged. A new database holds what could be read of it:"
        for table, rows in found.rows.items():
            incomplete = "  (not all of it could be read)" if table in found.incomplete else ""
            yield f"  {table:<16} {rows:>8,}{incomplete}"
        yield f"The damaged file is kept: {found.damaged}"
        if not found.rows.get("adoptions") and not found.from_copy:
            yield "No record of earlier adoptions is left, so this program can no longer revert them."
    if found.remade:
        yield f"{found.path} lacked tables, which were created again: {', '.join(found.remade)}"
    if found.mended:
        yield f"{found.path} held {found.mended} damaged entries; the rest is sound"
    if found.from_copy:
        yield f"{found.from_copy:,} entries came from the copy that the last night made"
    if found.aside:
        yield f"Entries that could not be repaired were removed; what is left of them is kept: {found.aside}"
