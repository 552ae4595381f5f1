"""Upkeep after nights and adoptions: copies of the database, pruning, repair, and the notice for the agents' plugins.

The work it follows is done, so what fails here is reported and ends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from skillopt_sleep.errors import SleepError
from skillopt_sleep.storage import staging
from skillopt_sleep.storage.atomic_replace import give_up_unfinished, lock_changes
from skillopt_sleep.storage.database import Database
from skillopt_sleep.storage.files import drop_temporaries, make_folders, remove, write_atomic
from skillopt_sleep.storage.lock import lock_night
from skillopt_sleep.storage.repair import RepairReport, back_up_database, repair_database
from skillopt_sleep.storage.space import prune
from skillopt_sleep.storage.staging import ProposalStatus
from skillopt_sleep.usecases.workspace import DATABASE

if TYPE_CHECKING:
    from skillopt_sleep.usecases.workspace import Workspace

WAITING = "waiting.txt"
"""The file in the data folder that the agents' plugins read when a session starts; a project's own files are not
trusted to speak to an agent."""


def settle(workspace: Workspace) -> None:
    """After live files have changed: tell the plugins which proposals wait, and copy the database."""
    announce(workspace)
    _attempt(workspace, lambda: back_up_database(workspace.database))


def tidy(workspace: Workspace) -> None:
    """After a night: settle, and delete old nights."""
    settle(workspace)
    _attempt(workspace, lambda: _prune_nights(workspace))


def announce(workspace: Workspace) -> None:
    """Write the projects whose proposals wait into ``waiting.txt``, one a line; delete it when there are none.

    A project with a line break in its name is left out.
    """
    path = workspace.data_dir / WAITING
    try:
        projects = sorted(_find_waiting_projects(workspace)) if workspace.settings.announce else []
        if projects:
            make_folders(path.parent, within=workspace.data_dir.parent, mode=0o700)
            write_atomic(path, "".join(f"{project}\n" for project in projects).encode())
        else:
            remove(path)
    except SleepError as error:
        workspace.notify(f"agents are not told which proposals wait: {error}")


def repair(workspace: Workspace) -> tuple[RepairReport | None, tuple[str, ...]]:
    """Save what can be saved of a damaged database, and give up changes of live files that were left half done.

    The report is None when the database is whole. Raises ``NightRunning`` while a night uses it, ``Refused`` while an
    adopt does, and ``DiskError``.
    """
    with lock_night(workspace.data_dir), lock_changes(workspace.data_dir):
        path = workspace.data_dir / DATABASE
        drop_temporaries(path)
        found = repair_database(path, extra_schema=staging.SCHEMA, now=workspace.clock.now())
        if not path.exists():
            return found, ()
        with closing(Database(path, extra_schema=staging.SCHEMA)) as database:
            return found, give_up_unfinished(database)


def _attempt(workspace: Workspace, work: Callable[[], None]) -> None:
    try:
        work()
    except SleepError as error:
        workspace.notify(str(error))


def _find_waiting_projects(workspace: Workspace) -> set[str]:
    rows = workspace.database.rows("SELECT DISTINCT project FROM proposals WHERE status = ?", (ProposalStatus.STAGED,))
    staged = {str(row["project"]) for row in rows}
    if not workspace.staging.waiting():
        staged.discard(str(workspace.project))
    return {project for project in staged if len(project.splitlines()) == 1 and "\n" not in project}


def _prune_nights(workspace: Workspace) -> None:
    pruned = prune(
        workspace.database,
        workspace.project,
        now=workspace.clock.now(),
        days=workspace.settings.keep_days,
        size=workspace.settings.keep_mb * 1_000_000,
        waiting=frozenset(proposal.manifest.night for proposal in workspace.staging.waiting()),
    )
    if pruned.nights:
        size = f"{pruned.size / 1e6:.1f} MB"
        workspace.notify(f"made room: {len(pruned.nights)} old nights, {size} (keep_days, keep_mb)")
    for notice in pruned.skipped:
        workspace.notify(notice)
