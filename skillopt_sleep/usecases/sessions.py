"""The user's own sessions: read into the inbox, chosen by project and source, and summed up without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skillopt_sleep.model.session import Place, Session, SessionFile
from skillopt_sleep.night.harvest import Filed
from skillopt_sleep.night.harvest import file_sessions as file_into
from skillopt_sleep.usecases.adapters import build_sources

if TYPE_CHECKING:
    from skillopt_sleep.mining.insights import Insights
    from skillopt_sleep.model.ports import Source
    from skillopt_sleep.sources.reader_pool import Read
    from skillopt_sleep.usecases.workspace import Workspace


def read_files(workspace: Workspace, source: Source, files: Sequence[SessionFile]) -> Iterator[Read]:
    """Yield the session in each file, without its secrets; see ``reader_pool.read_files``."""
    if not files:
        return iter(())
    from skillopt_sleep.sources import reader_pool

    return reader_pool.read_files(source, files, workspace.redactor)


def file_sessions(workspace: Workspace) -> Filed:
    """Read what is new in every source into the inbox, secrets taken out, and some of the steps that are due."""
    from skillopt_sleep.usecases.steps import keep_steps

    filed = file_into(build_sources(workspace), workspace.inbox, partial(read_files, workspace))
    keep_steps(workspace)
    return filed


def select_in_scope(workspace: Workspace, sessions: Iterable[Session]) -> tuple[Session, ...]:
    """Return the sessions of the project and the source that the settings ask for."""
    holds = workspace.project_scope.holds
    return tuple(
        session
        for session in sessions
        if _is_asked_for(workspace, session.source) and holds(session.cwd, session.remote)
    )


def _is_asked_for(workspace: Workspace, source: str) -> bool:
    return workspace.settings.source in {"auto", "all", source}


def count_left_out(workspace: Workspace) -> Counter[Place]:
    """Return the archived sessions of the source asked for that are not in scope, by where they belong."""
    left_out: Counter[Place] = Counter()
    for (source, cwd, remote), sessions in workspace.inbox.count().items():
        if _is_asked_for(workspace, source):
            left_out[workspace.project_scope.place(cwd, remote)] += sessions
    del left_out[Place.OWN]
    return left_out


def load_archived(workspace: Workspace) -> tuple[Session, ...]:
    """Return every archived session in scope."""
    return select_in_scope(workspace, workspace.inbox.everything())


def load_waiting(workspace: Workspace) -> tuple[Session, ...]:
    """Return the sessions in scope that no night has mined yet."""
    inbox = workspace.inbox
    holds = workspace.project_scope.holds
    return tuple(inbox.load(key) for key in inbox.waiting() if holds(key.cwd, key.remote))


def count_waiting(workspace: Workspace) -> int:
    """Return the number of sessions in scope that wait to be mined; reads none of them."""
    holds = workspace.project_scope.holds
    waiting = workspace.inbox.count_waiting()
    return sum(sessions for (cwd, remote), sessions in waiting.items() if holds(cwd, remote))


def collect_insights(workspace: Workspace) -> Insights:
    """Return what the sessions show without a model: requests and corrections that recur. Writes nothing."""
    from skillopt_sleep.mining.heuristic import mine_heuristic
    from skillopt_sleep.mining.insights import find_insights

    workspace = workspace.make_dry_run()
    file_sessions(workspace)
    sessions = load_archived(workspace)
    found = find_insights(sessions, mine_heuristic(sessions).tasks)
    left_out = count_left_out(workspace)
    return replace(found, out_of_scope=left_out[Place.OTHER], unplaced=left_out[Place.UNKNOWN])
