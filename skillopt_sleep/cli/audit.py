"""``audit``: try a change that changes nothing, which must not be accepted."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.cli.options import as_json, night_options, open_workspace, place_options
from skillopt_sleep.model import Json


@click.command("audit")
@click.option("--tasks", "task_file", type=click.Path(path_type=Path), help="Replay these reviewed tasks instead.")
@night_options
@place_options
@as_json
def command(task_file: Path | None, as_json: bool, **flags: Json | Path) -> None:
    """Try your files against themselves, through the trial of a night and within its caps.

    Both arms are byte for byte the same, so the verdict must not be "accept", and what differs is noise. Nothing is
    proposed, staged or counted as tried; it costs what testing one rule costs.
    """
    from skillopt_sleep.cli.progress import watched
    from skillopt_sleep.usecases.aa_test import null_trial

    workspace = open_workspace(flags)
    given = None
    if task_file is not None:
        from skillopt_sleep.cli.run import read_tasks

        given = read_tasks(task_file)
    with watched() as progress:
        found = null_trial(workspace, given, progress)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(found).decode())
        return
    from skillopt_sleep.reports.measurements import render_audit

    click.echo(render_audit(found))
