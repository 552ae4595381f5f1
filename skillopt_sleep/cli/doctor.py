"""``doctor`` checks whether a night could run, and what it would do and cost."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_sleep import __version__
from skillopt_sleep.cli.options import HOMES, as_json, night_options, open_workspace, place_options, print_json
from skillopt_sleep.errors import BackendError
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from skillopt_sleep.model.ports import Source
    from skillopt_sleep.night.report import BackendHealth
    from skillopt_sleep.reports.doctor import DoctorReport, SourceFound, TargetFile
    from skillopt_sleep.scheduling.due import Outlook
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
    report = examine(workspace.as_dry_run())
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


def examine(workspace: Workspace) -> DoctorReport:
    """Check everything a night needs."""
    from skillopt_sleep.reports.doctor import DoctorReport
    from skillopt_sleep.storage.space import list_disk_problems
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
            *_problems(backends, sources, list_disk_problems(workspace.data_dir, workspace.project)),
            *_damage(workspace),
            *_new_receivers(workspace),
            *_schedule_problems(outlook),
        ),
    )


def _outlook(workspace: Workspace) -> Outlook | None:
    """How the nights are scheduled, and whether what was installed for them still exists."""
    from msgspec.structs import replace

    from skillopt_sleep.scheduling.installing import Installation
    from skillopt_sleep.usecases.schedule import read_outlook

    found = read_outlook(workspace, workspace.journal.reports(str(workspace.project)))
    return found and replace(found, problem=found.problem or Installation(workspace.data_dir, workspace.env).check())


def _schedule_problems(outlook: Outlook | None) -> Iterator[str]:
    if outlook is not None and outlook.scheduled and outlook.problem:
        yield outlook.problem
    if outlook is not None and outlook.missed:
        yield f"scheduled nights were missed: {', '.join(outlook.missed)}"


def _damage(workspace: Workspace) -> Iterator[str]:
    """A damaged database, on which a night refuses to start."""
    from skillopt_sleep.storage.repair import find_damage

    if wrong := find_damage(workspace.database):
        yield f"the database in {workspace.data_dir} is damaged ({wrong}); try: skillopt-sleep doctor --repair"


def _new_receivers(workspace: Workspace) -> Iterator[str]:
    """Providers that would see sessions for the first time, and systems this program is not tested on."""
    from skillopt_sleep.model.call import Role
    from skillopt_sleep.usecases.adapters import build_backend
    from skillopt_sleep.usecases.permissions import find_new_receivers

    for stranger in find_new_receivers(workspace, [build_backend(workspace, role) for role in Role]):
        yield f"{stranger.question}; `run` asks you once; --share-with {stranger.provider} agrees"
    if sys.platform == "win32":
        yield "native Windows is experimental and not tested; WSL is"


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
