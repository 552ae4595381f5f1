"""Codex rollouts: live ones by day in ``sessions/``, old ones in ``archived_sessions/``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from skillopt_sleep.domain.session import Session, SessionFile, Skip
from skillopt_sleep.sources.formats.codex_session import CodexSession
from skillopt_sleep.sources.formats.listing import session_files
from skillopt_sleep.sources.jsonl import feed

__all__ = ["PLUGIN", "CodexSource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexSource:
    """Sessions of Codex. ``home`` is its folder (``~/.codex``, or ``CODEX_HOME``); "" means that there is none."""

    home: str = ""

    @property
    def name(self) -> str:
        """The registry name."""
        return "codex"

    def files(self, skipped: Callable[[Skip], None]) -> Iterator[SessionFile]:
        """Every rollout; of one that lies in both folders under the same name, the live one."""
        live: set[str] = set()
        for folder in ("sessions", "archived_sessions"):
            root = os.path.join(self.home, folder)  # noqa: PTH118 - paths are plain strings here
            if not self.home or (live and not os.path.lexists(root)):
                continue
            for file in session_files(root, skipped):
                name = file.path.removeprefix(root)
                if name not in live:
                    live.add(name)
                    yield file

    def read(self, file: SessionFile, skipped: Callable[[Skip], None]) -> Session | None:
        """One session; None for a sub-agent, and when no person typed in it."""
        session = CodexSession(file.path)
        feed(file.path, session.take, skipped)
        return session.session()


PLUGIN = CodexSource
