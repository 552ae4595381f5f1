"""``doctor``: what a night would do and cost, and whether it could."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_sleep import __version__
from skillopt_sleep.cli.options import HOMES, as_json, night_options, open_workspace, place_options
from skillopt_sleep.errors import BackendError
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from skillopt_sleep.model.ports import Source
    from skillopt_sleep.night.report import BackendHealth
    from skillopt_sleep.reports.doctor import DoctorReport, SourceFound, TargetFile
    from skillopt_sleep.scheduling.due import Outlook
    from skillopt_sleep.storage.repair import Salvaged
    from skillopt_sleep.usecases.workspace import Workspace


@click.command("doctor")
@click.option("--repair", is_flag=True, help="Save what can be saved of a damaged database; nothing else is done.")
@night_options
@place_options
@as_json
def command(repair: bool, as_json: bool, **flags: Json | Path) -> None:
    """Say whether a night could run here, what it would do and cost, and what would leave the machine and to whom.

    Nothing is spent and nothing is written. Ends with 4 when the backend cannot be used. The last block is what
    `insights` prints.
    """
    workspace = open_workspace(flags)
    if repair:
        _repair(workspace)
        return
    report = examine(workspace.as_dry_run())
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(report).decode())
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
        click.echo(f"the database in {workspace.data_dir} is whole: nothing to repair")
        return
    if not found.damaged:
        _print_mended(found)
        return
    click.echo(f"{found.path} was damaged. A new one holds what could be read of it:")
    for table, rows in found.rows.items():
        broken = "  (not all of it could be read)" if table in found.incomplete else ""
        click.echo(f"  {table:<16} {rows:>8,}{broken}")
    if found.from_copy:
        click.echo(f"  and {found.from_copy:,} more from the copy that the last night made")
    click.echo(f"The damaged file is kept: {found.damaged}")
    _print_aside(found)
    if not found.rows.get("adoptions") and not found.from_copy:
        click.echo("What was adopted before cannot be reverted by this program any more: no record of it is left.")


def _print_mended(found: Salvaged) -> None:
    if found.remade:
        click.echo(f"{found.path} lacked tables, which are made again: {', '.join(found.remade)}")
    if found.mended:
        click.echo(f"{found.path} held {found.mended} damaged entries; the rest is whole")
    if found.from_copy:
        click.echo(f"{found.from_copy:,} entries came from the copy that the last night made")
    _print_aside(found)


def _print_aside(found: Salvaged) -> None:
    if found.aside:
        click.echo(f"Entries that are whole nowhere were taken out; what is left of them is kept: {found.aside}")


def examine(workspace: Workspace) -> DoctorReport:
    """Look at everything a night needs."""
    from skillopt_sleep.reports.doctor import DoctorReport
    from skillopt_sleep.storage.space import disk_problems
    from skillopt_sleep.usecases.adapters import build_sources, night_caps, probe_backends
    from skillopt_sleep.usecases.run import forecast_night
    from skillopt_sleep.usecases.sessions import collect_insights

    rehearsal = forecast_night(workspace, None)
    outlook = _outlook(workspace)
    backends = probe_backends(workspace)
    sources = tuple(_found(source) for source in build_sources(workspace))
    return DoctorReport(
        version=__version__,
        python=platform.python_version(),
        data_dir=str(workspace.data_dir),
        project=str(workspace.project),
        scope=workspace.settings.scope,
        sources=sources,
        targets=tuple(_targets(workspace)),
        backends=backends,
        caps=night_caps(workspace),
        rehearsal=rehearsal,
        insights=collect_insights(workspace),
        schedule=outlook,
        problems=(
            *_problems(backends, sources, disk_problems(workspace.data_dir, workspace.project)),
            *_damage(workspace),
            *_strangers(workspace),
            *_schedule_problems(outlook),
        ),
    )


def _outlook(workspace: Workspace) -> Outlook | None:
    """How the nights are scheduled, and whether what was installed for them is still there."""
    from msgspec.structs import replace

    from skillopt_sleep.usecases.installing import check
    from skillopt_sleep.usecases.schedule import outlook_of

    found = outlook_of(workspace, workspace.journal.reports(str(workspace.project)))
    return found and replace(found, problem=found.problem or check(workspace))


def _schedule_problems(outlook: Outlook | None) -> Iterator[str]:
    if outlook is not None and outlook.scheduled and outlook.problem:
        yield outlook.problem
    if outlook is not None and outlook.missed:
        yield f"scheduled nights were missed: {', '.join(outlook.missed)}"


def _damage(workspace: Workspace) -> Iterator[str]:
    """What a night would refuse to begin on."""
    from skillopt_sleep.storage.repair import what_is_wrong

    if wrong := what_is_wrong(workspace.database):
        yield f"the database in {workspace.data_dir} is damaged ({wrong}); try: skillopt-sleep doctor --repair"


def _strangers(workspace: Workspace) -> Iterator[str]:
    """Who would be sent sessions that have not gone there before; and what this system is not tried on."""
    from skillopt_sleep.model.call import Role
    from skillopt_sleep.usecases.adapters import build_backend
    from skillopt_sleep.usecases.permissions import find_new_receivers

    for stranger in find_new_receivers(workspace, [build_backend(workspace, role) for role in Role]):
        yield f"{stranger.question}; `run` asks you once, --share-with {stranger.provider} agrees"
    if sys.platform == "win32":
        yield "native Windows is experimental: it is not tested; WSL is"


def _problems(
    backends: tuple[BackendHealth, ...], sources: tuple[SourceFound, ...], disk: tuple[str, ...]
) -> Iterator[str]:
    yield from disk
    yield from dict.fromkeys(
        health.detail or f"{health.backend} is not ready" for health in backends if not health.ready
    )
    if not sources:
        options = " or ".join(f"--{name}-home" for name in HOMES.values())
        yield f"no agent sessions were found; name their folder with {options}"


def _found(source: Source) -> SourceFound:
    from skillopt_sleep.reports.doctor import SourceFound

    files = list(source.files(lambda _: None))
    oldest = min((file.mtime_ns for file in files), default=None)
    return SourceFound(
        source=source.name,
        files=len(files),
        size=sum(file.size for file in files),
        oldest="" if oldest is None else f"{datetime.fromtimestamp(oldest / 1e9, tz=UTC):%Y-%m-%d}",
    )


def _targets(workspace: Workspace) -> Iterator[TargetFile]:
    from skillopt_sleep.reports.doctor import TargetFile
    from skillopt_sleep.storage.git import is_tracked
    from skillopt_sleep.usecases.documents import read_live_documents

    for document in read_live_documents(workspace)[0].documents:
        yield TargetFile(
            kind=document.kind,
            path=document.path,
            exists=document.content is not None,
            tracked=is_tracked(Path(document.path)),
        )
