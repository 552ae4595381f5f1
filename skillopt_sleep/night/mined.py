"""What mining yields, whichever way it is done."""

from __future__ import annotations

from msgspec import Struct

from skillopt_sleep.domain.refusal import Refusal
from skillopt_sleep.domain.session import Session, Turn
from skillopt_sleep.domain.task import Origin, TaskRecord
from skillopt_sleep.domain.words import excerpt

__all__ = ["KEPT", "WORDS", "Mined", "cut", "origin"]

WORDS = 400
"""Characters kept of a person's words where they are quoted."""

KEPT = 4_000
"""Characters kept of an answer."""


class Mined(Struct, frozen=True, kw_only=True):
    """Tasks, and what was not made into one, by name.

    ``unmined`` are ids of sessions that could not be mined tonight (their reply was lost or unreadable): they belong
    back into the inbox. ``found`` counts tasks that came out of tonight's sessions, new or seen again.
    """

    tasks: tuple[TaskRecord, ...] = ()
    refused: tuple[Refusal, ...] = ()
    unmined: tuple[str, ...] = ()
    found: int = 0


def origin(session: Session, ask: Turn, words: str) -> Origin:
    """Where a task was asked for, in the person's own words."""
    return Origin(
        source=session.source,
        session_id=session.session_id,
        path=session.path,
        words=excerpt(words, WORDS),
        at=ask.at or session.started_at,
        cwd=session.cwd,
    )


def cut(answer: str) -> str:
    """As much of an answer as is kept, its lines as they are."""
    return answer if len(answer) <= KEPT else answer[: KEPT - 1].rstrip() + "…"
