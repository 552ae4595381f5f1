"""``run``: one night, now.

What ``run --dry-run`` prints: tonight's tasks and what they would cost.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from skillopt_sleep.cli.options import (
    as_json,
    night_options,
    open_workspace,
    place_of,
    place_options,
    program_name,
    typed,
)
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from skillopt_sleep.model.task import TaskRecord
    from skillopt_sleep.night.report import NightReport
    from skillopt_sleep.usecases.workspace import Workspace


@click.command("run")
@click.option("--dry-run", is_flag=True, help="Harvest, mine by rules, split and price in memory: no call, no write.")
@click.option(
    "--tasks", "task_file", type=click.Path(path_type=Path), help="Run these reviewed tasks; harvest nothing."
)
@click.option(
    "--wait", type=click.FloatRange(0, 1440), default=0.0, help="Minutes to wait for a night that is running."
)
@night_options
@place_options
@as_json
def command(task_file: Path | None, dry_run: bool, wait: float, as_json: bool, **flags: Json | Path) -> None:
    """Run one night, or go on with the one that was cut short.

    A night is a proposal: it changes no live file. Its folder holds report.md, diagnostics.json and evidence.jsonl.

    \b
    Exit codes: 0 a verdict, or nothing new · 2 usage · 4 the backend cannot be used · 5 too little could be
    measured · 6 another night is running · 7 disk · 130 / 143 interrupted: run again to go on.
    """  # noqa: D301  \b is click's mark of lines that are to stay as they are
    from skillopt_sleep.usecases.plan import plan_night
    from skillopt_sleep.usecases.run import run_night

    workspace = open_workspace(flags)
    tasks = read_tasks(task_file) if task_file else None
    if dry_run:
        print_rehearsal(workspace, tasks, as_json=as_json)
        return
    from skillopt_sleep.cli.progress import watched
    from skillopt_sleep.storage.lock import is_locked

    if tasks is None and sys.stdin.isatty() and sys.stderr.isatty():
        from skillopt_sleep.usecases.permissions import ask_first

        ask_first(workspace, lambda question: click.confirm(f"{question}. Agreed, from now on?", err=True))
    if sys.stderr.isatty():
        say_price(open_workspace(flags), tasks)
    with watched() as progress:
        plan = plan_night(workspace, tasks)
        if wait and is_locked(workspace.data_dir):
            click.echo(f"skillopt-sleep: another night is running; waiting up to {wait:g} minutes for it", err=True)
        report = run_night(workspace, plan, wait=wait * 60, progress=progress)
    print_report(report, as_json=as_json, place=place_of(flags), again=typed())
    sys.exit(report.exit_code or 0)


def read_tasks(path: Path) -> tuple[TaskRecord, ...]:
    """The tasks of a task file. Raises ``UsageError`` when it cannot be read, or holds none."""
    from skillopt_sleep.errors import UsageError
    from skillopt_sleep.mining.task_file import decode_tasks

    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the task file {path}: {error.strerror}") from error
    tasks = decode_tasks(data, str(path))
    if not tasks:
        raise UsageError(f"the task file {path} holds no tasks; `skillopt-sleep harvest --tasks-out FILE` writes some")
    return tasks


def print_report(report: NightReport, *, as_json: bool, place: str = "", again: tuple[str, ...] = ()) -> None:
    """Print what a night came to: the report on stdout, why it stopped on stderr.

    ``place`` as ``place_of`` has it, ``again`` the options of this run, as ``typed`` has them.
    """
    from skillopt_sleep.reports.diagnostics import render_diagnostics
    from skillopt_sleep.reports.formatting import plain
    from skillopt_sleep.reports.terminal import render_summary
    from skillopt_sleep.storage.journal import night_folder

    if as_json:
        click.echo(render_diagnostics(report).decode(), nl=False)
    else:
        click.echo(render_summary(report, width=_width(), program=program_name(), place=place, again=again))
        click.echo(f"\ndiagnostics: {night_folder(report.project, report.night) / 'diagnostics.json'}")
    if report.exit_code:
        click.echo(f"skillopt-sleep: {plain(report.why)}", err=True)


def _width() -> int:
    """Columns of the terminal, at most 110 for the eye; 100 where there is none."""
    import shutil

    return min(110, shutil.get_terminal_size(fallback=(100, 24)).columns)


def print_rehearsal(workspace: Workspace, tasks: tuple[TaskRecord, ...] | None, *, as_json: bool) -> None:
    """Rehearse a night in memory and print it."""
    from skillopt_sleep.usecases.run import forecast_night

    rehearsal = forecast_night(workspace, tasks)
    if as_json:
        click.echo(msgspec.json.encode(rehearsal).decode())
        return
    from skillopt_sleep.reports.doctor import render_dry_run

    click.echo(render_dry_run(rehearsal))


def say_price(workspace: Workspace, tasks: tuple[TaskRecord, ...] | None) -> None:
    """Say on stderr, before a night, what it is expected to take and may take at most; rehearsed in memory."""
    from skillopt_sleep.usecases.adapters import night_caps
    from skillopt_sleep.usecases.run import forecast_night

    rehearsal = forecast_night(workspace, tasks)
    caps = night_caps(workspace)
    click.echo(
        f"skillopt-sleep: about {rehearsal.usual_calls:,} calls expected; never more than {caps.calls:,} calls,"
        f" {caps.tokens:,} tokens, {caps.usd:g} USD or {caps.minutes:g} minutes",
        err=True,
    )
