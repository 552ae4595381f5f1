"""``uninstall``: take everything out again that this program put anywhere, but the program itself."""

from __future__ import annotations

from collections.abc import Iterator

import click

from skillopt_sleep.cli.options import open_workspace


@click.command("uninstall")
@click.option("--rules", is_flag=True, help="Also revert everything adopted, in every project, byte for byte.")
@click.option("--data", is_flag=True, help="Also delete what nights have learnt: data folder, reports in projects.")
@click.option("--yes", is_flag=True, help="Do not ask before deleting data.")
@click.option("--data-dir", help="Where this program keeps its own data.")
@click.pass_context
def command(context: click.Context, rules: bool, data: bool, yes: bool, data_dir: str | None) -> None:
    """Take away the schedule and the plugins; rules and data stay unless you ask for more.

    What stays is listed at the end, each with the way to remove it. A file that was edited by hand meanwhile stays,
    and is named; so do files that are not this program's, wherever they lie. The program itself goes by the tool that
    installed it.
    """
    from skillopt_sleep.usecases.installing import remove
    from skillopt_sleep.usecases.uninstall import Removal

    workspace = open_workspace({"data_dir": data_dir} if data_dir else {})
    removal = Removal(workspace, remove, rules=rules, data=data)
    with removal.ready():
        if data and not yes and removal.has_data:
            click.confirm(f"Delete {workspace.data_dir} and the nights' reports in your projects for good?", abort=True)
        done = _print(removal.steps())
    if not done:
        click.echo("there was nothing to take away")
    click.echo("\nKept on purpose:")
    _print(removal.kept(), indent="  ")
    if removal.failed:
        context.exit(removal.failed[0].exit_code)


def _print(lines: Iterator[str], *, indent: str = "") -> int:
    """Print each line as it comes; how many there were."""
    from skillopt_sleep.reports.formatting import plain

    count = 0
    for line in lines:
        click.echo(f"{indent}{plain(line)}")
        count += 1
    return count
