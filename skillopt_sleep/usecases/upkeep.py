"""Upkeep after nights and adoptions: copies of the database, pruning, and repair.

The night or adoption itself is done by then, so a failure here is reported and ends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from skillopt_sleep.errors import SleepError
from skillopt_sleep.storage import staging
from skillopt_sleep.storage.atomic_replace import give_up_unfinished, lock_changes
from skillopt_sleep.storage.database import Database
from skillopt_sleep.storage.files import drop_temporaries
from skillopt_sleep.storage.lock import lock_night
from skillopt_sleep.storage.repair import RepairReport, back_up_database, repair_database
from skillopt_sleep.storage.space import prune
from skillopt_sleep.usecases.announce import announce
from skillopt_sleep.usecases.status import write_pages
from skillopt_sleep.usecases.workspace import DATABASE

if TYPE_CHECKING:
    from skillopt_sleep.usecases.workspace import Workspace


def settle(workspace: Workspace) -> None:
    """After live files have changed: tell the plugins what waits, bring the pages up to date, copy the database."""
    announce(workspace)
    _attempt(workspace, lambda: write_pages(workspace))
    _attempt(workspace, lambda: back_up_database(workspace.database))


def tidy(workspace: Workspace) -> None:
    """After a night: settle, and delete old nights."""
    settle(workspace)
    _attempt(workspace, lambda: _prune_nights(workspace))


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


def _attempt(workspace: Workspace, work: Callable[[], object]) -> None:
    try:
        work()
    except SleepError as error:
        workspace.notify(str(error))


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
