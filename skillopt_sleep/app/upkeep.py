"""What keeps a year of nights in order: a copy after each, old ones pruned, and a damaged database mended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skillopt_sleep.errors import SleepError
from skillopt_sleep.stores import staging
from skillopt_sleep.stores.files import drop_temporaries, make_folders, remove, write_atomic
from skillopt_sleep.stores.lock import one_night
from skillopt_sleep.stores.prune import prune
from skillopt_sleep.stores.salvage import Salvaged, keep_copy, salvage
from skillopt_sleep.stores.staging import ProposalStatus

if TYPE_CHECKING:
    from skillopt_sleep.app import App

__all__ = ["announce", "repair", "tidy"]


def tidy(app: App) -> tuple[str, ...]:
    """After a night: copy the database, prune old nights; what is to be said of it.

    The night is over and its report is kept: what cannot be tidied is said, and ends nothing.
    """
    said = []
    try:
        announce(app)
        days, size = app.settings.keep_days, app.settings.keep_mb * 1_000_000
        gone = prune(app.database, app.project, now=app.clock.now(), days=days, size=size)
        if gone.nights:
            said.append(f"made room: {len(gone.nights)} old nights, {gone.size / 1e6:.1f} MB (keep_days, keep_mb)")
        keep_copy(app.database)
    except SleepError as error:
        said.append(str(error))
    return tuple(said)


def announce(app: App) -> None:
    """Leave or take away the small file that an agent's plugin looks for when a session starts.

    It says which project has a proposal that waits, and lies in the user's own data: a project's files say nothing
    that an agent is told. Raises ``DiskError``.
    """
    project = str(app.project)
    path = app.data_dir / "waiting" / re.sub("[^A-Za-z0-9]", "-", project)
    waits = any(proposal.status is ProposalStatus.STAGED for proposal in app.staging.proposals())
    if waits and app.settings.announce:
        make_folders(path.parent, within=app.data_dir, mode=0o700)
        write_atomic(path, project.encode())
    else:
        remove(path)


def repair(app: App) -> Salvaged | None:
    """Save what can be saved of a damaged database; None when it is whole.

    Raises ``NightRunning`` while a night uses it, and ``DiskError``.
    """
    with one_night(app.data_dir):
        path = app.data_dir / "sleep.db"
        drop_temporaries(path)
        return salvage(path, extra_schema=staging.SCHEMA, now=app.clock.now())
