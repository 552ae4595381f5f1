"""Nobody is sent a person's sessions who has not had them before, unless that person has agreed, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from skillopt_sleep.errors import NotAllowed
from skillopt_sleep.model.call import Role
from skillopt_sleep.model.ports import SentTo
from skillopt_sleep.night.harvest import file_sessions, in_scope
from skillopt_sleep.safety.receivers import Stranger, strangers
from skillopt_sleep.storage.permissions import Agreements

if TYPE_CHECKING:
    from skillopt_sleep.model.ports import Backend
    from skillopt_sleep.usecases.app import App, Stores


def require_agreement(app: Stores, backends: Iterable[Backend]) -> None:
    """Raise ``NotAllowed``, saying how to agree, when a backend would be sent what its provider has not had before."""
    for stranger in strangers_of(app, backends):
        raise NotAllowed(
            f"{stranger.question}: agree once by `skillopt-sleep run` on a terminal or --share-with"
            f" {stranger.provider} (`share_with` in settings.toml), or leave them out with --source"
        )


def ask_first(app: App, agrees: Callable[[str], bool]) -> None:
    """Ask, before a night, about everybody new, and keep what was agreed to. Raises ``NotAllowed`` after a no."""
    backends = [app.backend(role) for role in Role]
    if not strangers([source.name for source in app.sources()], _providers(backends), ()):
        return
    file_sessions(app.sources(), app.inbox, app.redact)
    for stranger in strangers_of(app, backends):
        if not agrees(stranger.question):
            raise NotAllowed(f"{stranger.question}, and you did not agree; leave them out with --source")
        Agreements(app.database, app.clock).agree(stranger.source, stranger.provider)


def strangers_of(app: Stores, backends: Iterable[Backend]) -> tuple[Stranger, ...]:
    """Who would be sent sessions of this work, as far as they are known by now, without the user's word."""
    settings = app.settings
    allowed = {each.strip() for each in settings.share_with.split(",")}
    scope = "" if settings.scope == "all" else str(app.project)
    sources = {
        row["source"]
        for row in app.database.rows("SELECT DISTINCT source, cwd FROM sessions")
        if in_scope(row["cwd"], scope) and settings.source in {"auto", "all", row["source"]}
    }
    return strangers(sources, _providers(backends) - allowed, Agreements(app.database, app.clock).all())


def _providers(backends: Iterable[Backend]) -> frozenset[str]:
    """Whom the backends send their prompts to; one that does not say is a stranger by its own name."""
    return frozenset(each.provider if isinstance(each, SentTo) else each.name for each in backends)
