"""What keeps a year of nights in order: copies of the database, old nights pruned, a damaged database mended.

What the agents' plugins look at when a session starts: one small file that says which projects have a proposal.
"""

from __future__ import annotations

from collections.abc import Callable
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

if TYPE_CHECKING:
    from skillopt_sleep.usecases.workspace import Workspace

WAITING = "waiting.txt"
"""In the user's own data: a project's own files say nothing that an agent is told."""


def announce(workspace: Workspace) -> None:
    """Write the projects whose proposals wait into that file, one a line, or take it away when there is none.

    It is made anew from the database each time. What cannot be written is said, and ends nothing: whatever it is
    about has happened already. A project with a line break in its name is left out.
    """
    path = workspace.data_dir / WAITING
    try:
        projects = sorted(_waiting(workspace)) if workspace.settings.announce else []
        if projects:
            make_folders(path.parent, within=workspace.data_dir.parent, mode=0o700)
            write_atomic(path, "".join(f"{each}\n" for each in projects).encode())
        else:
            remove(path)
    except SleepError as error:
        workspace.notify(f"agents are not told which proposals wait: {error}")


def _waiting(workspace: Workspace) -> set[str]:
    rows = workspace.database.rows("SELECT DISTINCT project FROM proposals WHERE status = ?", (ProposalStatus.STAGED,))
    staged = {str(row["project"]) for row in rows}
    if not workspace.staging.waiting():
        staged.discard(str(workspace.project))
    return {each for each in staged if len(each.splitlines()) == 1 and "\n" not in each}


def settle(workspace: Workspace) -> None:
    """After live files were changed: say whether a proposal waits, and copy what only the database knows.

    The change is done: what cannot be settled is said, and ends nothing.
    """
    for work in (lambda: announce(workspace), lambda: back_up_database(workspace.database)):
        _try(workspace, work)


def tidy(workspace: Workspace) -> None:
    """After a night: the same, and old nights make room.

    The night is over and its report is kept: what cannot be tidied is said, and ends nothing.
    """
    settle(workspace)
    _try(workspace, lambda: _prune(workspace))


def _try(workspace: Workspace, work: Callable[[], None]) -> None:
    try:
        work()
    except SleepError as error:
        workspace.notify(str(error))


def _prune(workspace: Workspace) -> None:
    days, size = workspace.settings.keep_days, workspace.settings.keep_mb * 1_000_000
    waiting = frozenset(each.manifest.night for each in workspace.staging.waiting())
    gone = prune(
        workspace.database, workspace.project, now=workspace.clock.now(), days=days, size=size, waiting=waiting
    )
    if gone.nights:
        workspace.notify(f"made room: {len(gone.nights)} old nights, {gone.size / 1e6:.1f} MB (keep_days, keep_mb)")
    for notice in gone.skipped:
        workspace.notify(notice)


def repair(workspace: Workspace) -> tuple[RepairReport | None, tuple[str, ...]]:
    """Save what can be saved of a damaged database, None when it is whole; and give up changes left half done.

    Raises ``NightRunning`` while a night uses it, ``Refused`` while an adopt does, and ``DiskError``.
    """
    with lock_night(workspace.data_dir), lock_changes(workspace.data_dir):
        path = workspace.data_dir / "sleep.db"
        drop_temporaries(path)
        found = repair_database(path, extra_schema=staging.SCHEMA, now=workspace.clock.now())
        if not path.exists():
            return found, ()
        database = Database(path, extra_schema=staging.SCHEMA)
        try:
            return found, give_up_unfinished(database)
        finally:
            database.close()
