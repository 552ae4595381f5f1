"""What one invocation was given: settings, environment and folder, and the clock it runs by."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_sleep.calls.clock import SystemClock
from skillopt_sleep.model.session import Session
from skillopt_sleep.registry import Kind, require
from skillopt_sleep.settings import Origins, Settings, secrets

if TYPE_CHECKING:
    from skillopt_sleep.model.ports import Progress
    from skillopt_sleep.optimizer.replay import Manner
    from skillopt_sleep.safety.redaction.redactor import Redactor


class Invocation:
    """Where everything else begins.

    Raises ``UsageError`` for settings with a table for an adapter that there is not.
    """

    def __init__(self, settings: Settings, origins: Origins, env: Mapping[str, str], project: Path) -> None:
        self.settings = settings
        self.origins = origins
        self.env = env
        self.project = project
        self.clock = SystemClock()
        self.progress: Progress | None = None
        self.rehearsing = False
        self.manner: Manner | None = None
        self.said: list[str] = []
        """What the user is to be told besides the answer, one line each."""
        for kind in Kind:
            for name in getattr(settings, kind):
                require(kind, name)

    @cached_property
    def data_dir(self) -> Path:
        """Where this user's own data lies."""
        if self.settings.data_dir:
            return Path(self.settings.data_dir).expanduser().absolute()
        import platformdirs

        return platformdirs.user_data_path("skillopt-sleep")

    @cached_property
    def redactor(self) -> Redactor:
        """The redactor, which knows the secrets of this environment."""
        from skillopt_sleep.safety.redaction.redactor import Redactor

        return Redactor(values=secrets(self.env))

    def redact(self, session: Session) -> Session:
        """Take the secrets out of a session."""
        from skillopt_sleep.safety.redaction.redactor import redact_session

        return redact_session(session, self.redactor)

    @property
    def scope(self) -> str:
        """The folder whose work is looked at, "" for all of it."""
        return "" if self.settings.scope == "all" else str(self.project)
