"""The user's own sessions: read into the inbox, chosen by project and source, and summed up without a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from skillopt_sleep.model.session import Session
from skillopt_sleep.night.harvest import Filed, in_scope
from skillopt_sleep.night.harvest import file_sessions as file_into
from skillopt_sleep.usecases.adapters import build_sources

if TYPE_CHECKING:
    from skillopt_sleep.mining.insights import Insights
    from skillopt_sleep.usecases.workspace import Workspace


def redact(workspace: Workspace, session: Session) -> Session:
    """The session without its secrets."""
    from skillopt_sleep.safety.redaction.redactor import redact_session

    return redact_session(session, workspace.redactor)


def file_sessions(workspace: Workspace) -> Filed:
    """Read what is new in every source into the inbox, secrets taken out."""
    return file_into(build_sources(workspace), workspace.inbox, lambda session: redact(workspace, session))


def select_in_scope(workspace: Workspace, sessions: Iterable[Session]) -> tuple[Session, ...]:
    """The sessions of the project and the source that the settings ask for."""
    source = workspace.settings.source
    return tuple(
        session
        for session in sessions
        if in_scope(session.cwd, workspace.scope) and source in {"auto", "all", session.source}
    )


def load_archived(workspace: Workspace) -> tuple[Session, ...]:
    """Every archived session in scope."""
    return select_in_scope(workspace, workspace.inbox.everything())


def load_waiting(workspace: Workspace) -> tuple[Session, ...]:
    """The sessions in scope that no night has mined yet."""
    inbox = workspace.inbox
    return tuple(inbox.load(key) for key in inbox.waiting() if in_scope(key.cwd, workspace.scope))


def count_waiting(workspace: Workspace) -> int:
    """The number of sessions in scope that wait to be mined; reads none of them."""
    counts = workspace.inbox.waiting_by_folder()
    return sum(count for cwd, count in counts.items() if in_scope(cwd, workspace.scope))


def collect_insights(workspace: Workspace) -> Insights:
    """What the sessions show without a model: requests and corrections that recur. Writes nothing."""
    from skillopt_sleep.mining.heuristic import mine_heuristic
    from skillopt_sleep.mining.insights import find_insights

    workspace = workspace.as_dry_run()
    file_sessions(workspace)
    sessions = load_archived(workspace)
    return find_insights(sessions, mine_heuristic(sessions).tasks)
