"""What the agents' plugins look at when a session starts: one small file that says which projects have a proposal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_sleep.errors import SleepError
from skillopt_sleep.stores.files import make_folders, remove, write_atomic
from skillopt_sleep.stores.staging import ProposalStatus

if TYPE_CHECKING:
    from skillopt_sleep.app import App

__all__ = ["announce"]

WAITING = "waiting.txt"
"""In the user's own data: a project's own files say nothing that an agent is told."""


def announce(app: App) -> None:
    """Write the projects whose proposals wait into that file, one a line, or take it away when there is none.

    It is made anew from the database each time. What cannot be written is said, and ends nothing: whatever it is
    about has happened already. A project with a line break in its name is left out.
    """
    path = app.data_dir / WAITING
    try:
        projects = sorted(_waiting(app)) if app.settings.announce else []
        if projects:
            make_folders(path.parent, within=app.data_dir.parent, mode=0o700)
            write_atomic(path, "".join(f"{each}\n" for each in projects).encode())
        else:
            remove(path)
    except SleepError as error:
        app.said.append(f"agents are not told which proposals wait: {error}")


def _waiting(app: App) -> set[str]:
    rows = app.database.rows("SELECT DISTINCT project FROM proposals WHERE status = ?", (ProposalStatus.STAGED,))
    staged = {str(row["project"]) for row in rows}
    if not app.staging.waiting():
        staged.discard(str(app.project))
    return {each for each in staged if len(each.splitlines()) == 1 and "\n" not in each}
