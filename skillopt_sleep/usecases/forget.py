"""Forget sessions: delete what we keep of them, say exactly what stays elsewhere, and never read them again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from skillopt_sleep.errors import UsageError
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.night.report import NightState
from skillopt_sleep.storage.forget import (
    Deleted,
    SessionName,
    delete_sessions,
    is_forgotten,
    list_sessions,
    load_sessions,
)
from skillopt_sleep.storage.lock import lock_night
from skillopt_sleep.storage.repair import BACKUP, back_up_database
from skillopt_sleep.storage.staging import ProposalStatus
from skillopt_sleep.usecases.workspace import DATABASE

if TYPE_CHECKING:
    from skillopt_sleep.usecases.workspace import Workspace

MOST_NAMED = 5
"""Sessions named when a prefix fits several."""


class Forgotten(Struct, frozen=True, kw_only=True):
    """What was deleted of some sessions, and where words of theirs may still be."""

    sessions: tuple[SessionName, ...]
    deleted: Deleted
    stays: tuple[str, ...]
    """One line for each place that was not touched, with the way to remove it."""


def find_sessions(workspace: Workspace, name: str) -> tuple[SessionName, ...]:
    """Return the session with this id, or the only one whose id begins so; every one for "".

    Raises ``UsageError`` when there is none, or more than one.
    """
    if not (workspace.data_dir / DATABASE).exists():
        raise UsageError(f"nothing is kept in {workspace.data_dir}, so there is nothing to forget")
    found = list_sessions(workspace.database, name)
    exact = tuple(session for session in found if session.session_id == name)
    if not name or len(exact or found) == 1:
        return exact or found
    if exact or found:
        ids = ", ".join(f"{session.session_id} ({session.source})" for session in (exact or found)[:MOST_NAMED])
        more = "" if len(exact or found) <= MOST_NAMED else f" and {len(found) - MOST_NAMED} more"
        raise UsageError(f"{name!r} fits {len(exact or found)} sessions: {ids}{more}; give more of the id")
    if is_forgotten(workspace.database, name):
        raise UsageError(f"session {name!r} was forgotten before; nothing of it is kept, and it is never read again")
    raise UsageError(
        f"no session whose id begins with {name!r} is kept; `skillopt-sleep harvest --sessions --all --scope all`"
        " lists them"
    )


def forget_sessions(workspace: Workspace, sessions: Sequence[SessionName]) -> Forgotten:
    """Delete all that is kept of the sessions, also from the copy of the database and from its free space.

    Raises ``NightRunning`` while a night uses them, and ``DiskError``.
    """
    with lock_night(workspace.data_dir):
        now = workspace.clock.now().isoformat(timespec="seconds")
        deleted = delete_sessions(workspace.database, sessions, now, _list_moments(workspace, sessions))
        workspace.database.erase_free_space()
        if workspace.database.path.with_name(BACKUP).exists():
            back_up_database(workspace.database)
        stays = (
            *_list_live_files(workspace, deleted.nights),
            *_list_proposals(workspace, deleted.nights),
            *_list_reports(workspace, deleted.nights),
            *_list_leftovers(workspace),
        )
    return Forgotten(sessions=tuple(sessions), deleted=deleted, stays=stays)


def _list_moments(workspace: Workspace, sessions: Sequence[SessionName]) -> set[str]:
    """Return the ids of the moments in the sessions, as far as their steps are kept."""
    from skillopt_sleep.mining.moments import find_moments

    found: set[str] = set()
    for session in load_sessions(workspace.database, sessions):
        conversation = workspace.steps.load(session.source, session.path)
        if conversation is not None:
            found |= {moment.id for moment in find_moments(session, conversation)}
    return found


def _list_live_files(workspace: Workspace, nights: Collection[str]) -> list[str]:
    rows = workspace.database.rows("SELECT night, path FROM adoptions WHERE reverted_at IS NULL ORDER BY id")
    return [
        f"{row['path']}: rules of night {row['night']}: skillopt-sleep revert {row['night']}"
        for row in rows
        if row["night"] in nights
    ]


def _list_proposals(workspace: Workspace, nights: Collection[str]) -> list[str]:
    rows = workspace.database.rows(
        "SELECT night, project FROM proposals WHERE status = ? ORDER BY created", (ProposalStatus.STAGED,)
    )
    return [
        f"the proposal of night {row['night']} in {row['project']}: do not adopt it, or read it first"
        for row in rows
        if row["night"] in nights
    ]


def _list_reports(workspace: Workspace, nights: Collection[str]) -> list[str]:
    """Name the report of each night that used the sessions, and what a night keeps that is not finished."""
    rows = workspace.database.rows("SELECT id, project, state FROM nights ORDER BY started_at")
    lines = []
    for row in rows:
        folder = Path(row["project"]) / ".skillopt-sleep" / "nights" / row["id"]
        if row["state"] != NightState.FINISHED:
            lines.append(f"answers paid for by night {row['id']}, which is not finished: they go when it is pruned")
        if row["id"] in nights:
            where = f" and {folder}" if folder.is_dir() else ""
            lines.append(f"the report of night {row['id']}, in the database{where}: skillopt-sleep uninstall --data")
    return lines


def _list_leftovers(workspace: Workspace) -> list[str]:
    """Name what an earlier repair put aside, undecided edits, and the agents' own files."""
    aside = sorted(path for path in workspace.data_dir.glob("*damaged*") if path.is_file())
    lines = [f"{path}: put aside by a repair; delete it" for path in aside]
    rows = workspace.database.rows(
        "SELECT (SELECT COUNT(*) FROM pending_edits) + (SELECT COUNT(*) FROM rejected_edits) AS edits"
    )
    if rows[0]["edits"]:
        lines.append(
            f"{rows[0]['edits']} rules that nights tried, undecided or rejected: they may rest on these sessions"
        )
    questions = workspace.project / ".skillopt-sleep" / "handoff"
    if questions.is_dir():
        lines.append(f"{questions}: questions written for the handoff backend; delete the folder")
    return [*lines, "the agent's own session file: the agent deletes it in time, or you do"]


def describe_session(session: SessionName) -> str:
    """Return one line that tells a session from the others."""
    day = session.ended_at[:10] or "undated"
    return f"{session.session_id} ({session.source}, {day}, {session.prompts} prompts, {excerpt(session.cwd, 80)})"
