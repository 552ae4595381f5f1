"""``audit``: try a change that changes nothing, which must not be accepted."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.cli.options import as_json, make_app, night_options, place_options
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

    app = make_app(flags)
    given = None
    if task_file is not None:
        from skillopt_sleep.cli.run import read_tasks

        given = read_tasks(task_file)
    with watched(app):
        found = null_trial(app, given)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(found).decode())
        return
    from skillopt_sleep.reports import trust

    click.echo("\n".join(trust.null_trial(found)))
