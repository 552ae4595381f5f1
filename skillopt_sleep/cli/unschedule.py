"""``unschedule``: take the nightly run away, or some projects out of it."""

from __future__ import annotations

from pathlib import Path

import click

from skillopt_sleep.cli.options import open_workspace


@click.command("unschedule")
@click.option(
    "--project",
    "projects",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Take only this one out; may be repeated.  [default: all]",
)
@click.option("--data-dir", help="Where this program keeps its own data.")
def command(projects: tuple[Path, ...], data_dir: str | None) -> None:
    """Take away what `skillopt-sleep schedule` installed; the crontab is then byte for byte as it was without it.

    What nights have learnt, and their reports, stay. Ends with 8 when the present crontab cannot be read.
    """
    from msgspec.structs import replace

    from skillopt_sleep.errors import UsageError
    from skillopt_sleep.scheduling.store import load_schedule, save_schedule
    from skillopt_sleep.usecases.installing import remove

    workspace = open_workspace({"data_dir": data_dir} if data_dir else {})
    if projects:
        schedule = load_schedule(workspace.data_dir)
        entries = schedule.projects if schedule else ()
        for project in map(str, (each.resolve() for each in projects)):  # the folder may have gone
            if project not in {each.project for each in entries}:
                known = ", ".join(each.project for each in entries) or "none"
                raise UsageError(f"--project {project} is not scheduled; those that are: {known}")
            entries = tuple(each for each in entries if each.project != project)
        if schedule is not None and entries:
            save_schedule(workspace.data_dir, replace(schedule, projects=entries))
            click.echo("\n".join(["Still scheduled:", *(f"  {each.project}" for each in entries)]))
            return
    found, unseen = remove(workspace)
    for note in unseen:
        click.echo(f"skillopt-sleep: {note}", err=True)
    click.echo("The schedule was taken away." if found else "Nothing was scheduled.")
