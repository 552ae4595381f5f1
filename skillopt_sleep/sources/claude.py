"""Claude Code sessions: ``projects/<folder>/<session>.jsonl`` below each of its homes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from skillopt_sleep.domain.session import Session, SessionFile, Skip
from skillopt_sleep.sources.formats.listing import session_files
from skillopt_sleep.sources.jsonl import feed

__all__ = ["PLUGIN", "ClaudeSource"]

WITHOUT_PERSON = frozenset({"memory", "subagents", "tool-results"})
"""Folders below ``projects`` in which no person's words lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeSource:
    """Sessions of Claude Code.

    ``homes`` are its configuration folders (``~/.claude``, each of ``CLAUDE_CONFIG_DIR``). Records written through an
    entrypoint of ``headless`` are a program's: ``sdk-cli`` is ``claude -p``. Editors and other programs of a person
    speak through the SDK as well (``sdk-ts``, ``sdk-py``), so these count unless they are named here.
    """

    homes: tuple[str, ...] = ()
    headless: tuple[str, ...] = ("sdk-cli",)

    @property
    def name(self) -> str:
        """The registry name."""
        return "claude"

    def files(self, skipped: Callable[[Skip], None]) -> Iterator[SessionFile]:
        """Every session file of every home, each home once however it is spelled."""
        roots = [os.path.join(home, "projects") for home in self.homes]  # noqa: PTH118 - paths are plain strings here
        for root in {os.path.realpath(root): root for root in roots}.values():
            yield from session_files(root, skipped, without=WITHOUT_PERSON)

    def read(self, file: SessionFile, skipped: Callable[[Skip], None]) -> Session | None:
        """One session; None when no person typed in it."""
        from skillopt_sleep.sources.formats.claude_session import ClaudeSession  # noqa: PLC0415  mostly nothing is new

        session = ClaudeSession(file.path, frozenset(self.headless))
        feed(file.path, session.take, skipped)
        return session.session()


PLUGIN = ClaudeSource
