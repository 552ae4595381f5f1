"""What keeps a year of nights in order: copies of the database, old nights pruned, a damaged database mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from skillopt_sleep.app.announce import announce
from skillopt_sleep.errors import SleepError
from skillopt_sleep.stores import staging
from skillopt_sleep.stores.database import Database
from skillopt_sleep.stores.files import drop_temporaries
from skillopt_sleep.stores.lock import one_night
from skillopt_sleep.stores.prune import prune
from skillopt_sleep.stores.salvage import Salvaged, keep_copy, salvage
from skillopt_sleep.stores.swaps import change_lock, give_up_unfinished

if TYPE_CHECKING:
    from skillopt_sleep.app import App

__all__ = ["repair", "settle", "tidy"]


def settle(app: App) -> None:
    """After live files were changed: say whether a proposal waits, and copy what only the database knows.

    The change is done: what cannot be settled is said, and ends nothing.
    """
    for work in (lambda: announce(app), lambda: keep_copy(app.database)):
        _try(app, work)


def tidy(app: App) -> None:
    """After a night: the same, and old nights make room.

    The night is over and its report is kept: what cannot be tidied is said, and ends nothing.
    """
    settle(app)
    _try(app, lambda: _prune(app))


def _try(app: App, work: Callable[[], None]) -> None:
    try:
        work()
    except SleepError as error:
        app.said.append(str(error))


def _prune(app: App) -> None:
    days, size = app.settings.keep_days, app.settings.keep_mb * 1_000_000
    waiting = frozenset(each.manifest.night for each in app.staging.waiting())
    gone = prune(app.database, app.project, now=app.clock.now(), days=days, size=size, waiting=waiting)
    if gone.nights:
        app.said.append(f"made room: {len(gone.nights)} old nights, {gone.size / 1e6:.1f} MB (keep_days, keep_mb)")
    app.said += gone.skipped


def repair(app: App) -> tuple[Salvaged | None, tuple[str, ...]]:
    """Save what can be saved of a damaged database, None when it is whole; and give up changes left half done.

    Raises ``NightRunning`` while a night uses it, ``Refused`` while an adopt does, and ``DiskError``.
    """
    with one_night(app.data_dir), change_lock(app.data_dir):
        path = app.data_dir / "sleep.db"
        drop_temporaries(path)
        found = salvage(path, extra_schema=staging.SCHEMA, now=app.clock.now())
        if not path.exists():
            return found, ()
        database = Database(path, extra_schema=staging.SCHEMA)
        try:
            return found, give_up_unfinished(database)
        finally:
            database.close()
