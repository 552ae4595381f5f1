"""Codex rollouts: live ones by day in ``sessions/``, old ones in ``archived_sessions/``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from skillopt_sleep.domain.session import Session, SessionFile, Skip
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
        if not self.home:
            return
        live = os.path.join(self.home, "sessions")  # noqa: PTH118 - paths are plain strings here
        names: set[str] = set()
        for file in session_files(live, skipped):
            names.add(file.path.removeprefix(live))
            yield file
        archive = os.path.join(self.home, "archived_sessions")  # noqa: PTH118 - as above
        if os.path.isdir(archive):  # noqa: PTH112 - as above
            for file in session_files(archive, skipped):
                if file.path.removeprefix(archive) not in names:
                    yield file

    def read(self, file: SessionFile, skipped: Callable[[Skip], None]) -> Session | None:
        """One session; None for a sub-agent, and when no person typed in it."""
        from skillopt_sleep.sources.formats.codex_session import CodexSession  # noqa: PLC0415  mostly nothing is new

        session = CodexSession(file.path)
        feed(file.path, session.take, skipped)
        return session.session()


PLUGIN = CodexSource
