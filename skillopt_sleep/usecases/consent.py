"""Nobody is sent a person's sessions who has not had them before, unless that person has agreed, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from skillopt_sleep.errors import NotAllowed
from skillopt_sleep.model.call import Role
from skillopt_sleep.model.ports import SentTo
from skillopt_sleep.night.harvest import in_scope
from skillopt_sleep.safety.receivers import Stranger, strangers
from skillopt_sleep.storage.permissions import Agreements
from skillopt_sleep.usecases.adapters import build_backend, build_sources
from skillopt_sleep.usecases.sessions import file_sessions

if TYPE_CHECKING:
    from skillopt_sleep.model.ports import Backend
    from skillopt_sleep.usecases.workspace import Workspace


def require_agreement(workspace: Workspace, backends: Iterable[Backend]) -> None:
    """Raise ``NotAllowed``, saying how to agree, when a backend would be sent what its provider has not had before."""
    for stranger in strangers_of(workspace, backends):
        raise NotAllowed(
            f"{stranger.question}: agree once by `skillopt-sleep run` on a terminal or --share-with"
            f" {stranger.provider} (`share_with` in settings.toml), or leave them out with --source"
        )


def ask_first(workspace: Workspace, agrees: Callable[[str], bool]) -> None:
    """Ask, before a night, about everybody new, and keep what was agreed to. Raises ``NotAllowed`` after a no."""
    backends = [build_backend(workspace, role) for role in Role]
    if not strangers([source.name for source in build_sources(workspace)], _providers(backends), ()):
        return
    file_sessions(workspace)
    for stranger in strangers_of(workspace, backends):
        if not agrees(stranger.question):
            raise NotAllowed(f"{stranger.question}, and you did not agree; leave them out with --source")
        Agreements(workspace.database, workspace.clock).agree(stranger.source, stranger.provider)


def strangers_of(workspace: Workspace, backends: Iterable[Backend]) -> tuple[Stranger, ...]:
    """Who would be sent sessions of this work, as far as they are known by now, without the user's word."""
    settings = workspace.settings
    allowed = {each.strip() for each in settings.share_with.split(",")}
    scope = "" if settings.scope == "all" else str(workspace.project)
    sources = {
        row["source"]
        for row in workspace.database.rows("SELECT DISTINCT source, cwd FROM sessions")
        if in_scope(row["cwd"], scope) and settings.source in {"auto", "all", row["source"]}
    }
    return strangers(sources, _providers(backends) - allowed, Agreements(workspace.database, workspace.clock).all())


def _providers(backends: Iterable[Backend]) -> frozenset[str]:
    """Whom the backends send their prompts to; one that does not say is a stranger by its own name."""
    return frozenset(each.provider if isinstance(each, SentTo) else each.name for each in backends)
