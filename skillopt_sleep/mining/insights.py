"""Finds, without a model, what a person asks for again and again and what they keep correcting.

A new user sees this first, so it counts only what can be pointed at: every finding is given in the person's own words,
with the sessions in which they were said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from skillopt_sleep.mining.episodes import Episode, split_episodes
from skillopt_sleep.model.near_duplicates import group_recurrences
from skillopt_sleep.model.pasted import strip_pasted
from skillopt_sleep.model.session import Feedback, Session, Turn, list_typed
from skillopt_sleep.model.task import GROUPS_FOR_VERDICT, TaskRecord
from skillopt_sleep.model.text import CONTINUE, STOPWORDS, excerpt

T = TypeVar("T")

MAX_QUOTE = 240
"""Characters kept of a person's words."""


class Sighting(Struct, frozen=True, kw_only=True):
    """One time that something was said."""

    source: str
    session_id: str
    cwd: str
    day: str
    """ISO date, "" when unknown."""
    words: str


class Correction(Struct, frozen=True, kw_only=True):
    """What was said about a wrong answer, and about which request."""

    said: Sighting
    asked: str


class Recurring(Struct, frozen=True, kw_only=True):
    """A request or correction that was made in several sessions."""

    sightings: tuple[Sighting, ...]
    """The latest first, each in the words of that time."""
    sessions: int
    """The number of different sessions."""
    corrections: tuple[Correction, ...] = ()
    """What was said about the answers."""


class Insights(Struct, frozen=True, kw_only=True):
    """What the sessions show."""

    sessions: int = 0
    projects: int = 0
    prompts: int = 0
    approvals: int = 0
    first_day: str = ""
    last_day: str = ""
    active_days: int = 0
    """Days with a prompt."""
    asked: tuple[Recurring, ...] = ()
    """Requests that recur over sessions, the most frequent first."""
    corrected: tuple[Recurring, ...] = ()
    """Corrections that recur over sessions, the most frequent first."""
    corrections: tuple[Correction, ...] = ()
    """All corrections, the latest first."""
    tasks: int = 0
    groups: int = 0
    """Different requests among the tasks found."""
    groups_needed: int = GROUPS_FOR_VERDICT
    groups_missing: int = GROUPS_FOR_VERDICT
    """Different requests that a verdict still needs."""
    out_of_scope: int = 0
    """Sessions of other projects, which are not counted above."""
    unplaced: int = 0
    """Sessions of deleted worktrees that may be of this project or of another; not counted above."""
    days_missing: int | None = None
    """Days of such work until then; None when the sessions carry no times, or hold no task."""


class _Asked(Struct, frozen=True, kw_only=True):
    session: Session
    episode: Episode

    def corrections(self) -> Iterator[Correction]:
        request = _quote(self.episode.request)
        for turn in self.episode.corrections:
            yield Correction(said=_build_sighting(self.session, turn), asked=request)


def find_insights(
    sessions: Sequence[Session], tasks: Sequence[TaskRecord], *, groups_needed: int = GROUPS_FOR_VERDICT
) -> Insights:
    """Count and group what was said; ``tasks`` are those mined from these sessions."""
    turns = list_typed(turn for session in sessions for turn in session.turns)
    days = sorted({turn.at[:10] for turn in turns} - {""})
    asked = [_Asked(session=session, episode=episode) for session in sessions for episode in split_episodes(session)]
    corrections = _sort_latest_first(correction for item in asked for correction in item.corrections())
    groups = len({task.group or task.id for task in tasks})
    missing = max(0, groups_needed - groups)
    return Insights(
        sessions=len(sessions),
        projects=len({session.cwd for session in sessions} - {""}),
        prompts=len(turns),
        approvals=sum(turn.feedback is Feedback.APPROVAL for turn in turns),
        first_day=days[0] if days else "",
        last_day=days[-1] if days else "",
        active_days=len(days),
        asked=_find_recurring_requests(asked),
        corrected=_find_recurring_corrections(corrections),
        corrections=corrections,
        tasks=len(tasks),
        groups=groups,
        groups_needed=groups_needed,
        groups_missing=missing,
        days_missing=math.ceil(missing * len(days) / groups) if groups and days else None,
    )


def _find_recurring_requests(asked: Sequence[_Asked]) -> tuple[Recurring, ...]:
    worded = [(strip_pasted(item.episode.request.prompt), item) for item in asked]
    requests = [(words, item) for words, item in worded if _has_content(words)]
    return _keep_recurring(
        _build_recurring(
            [_build_sighting(item.session, item.episode.request) for item in group],
            [correction for item in group for correction in item.corrections()],
        )
        for group in _group([item for _, item in requests], [words for words, _ in requests])
    )


def _find_recurring_corrections(corrections: Sequence[Correction]) -> tuple[Recurring, ...]:
    groups = _group(corrections, [correction.said.words for correction in corrections])
    return _keep_recurring(_build_recurring([correction.said for correction in group], group) for group in groups)


def _group(items: Sequence[T], words: Sequence[str]) -> Iterable[list[T]]:
    """Return the items grouped by what their words ask for."""
    groups: dict[int, list[T]] = {}
    for number, item in zip(group_recurrences(words), items, strict=True):
        groups.setdefault(number, []).append(item)
    return groups.values()


def _build_recurring(sightings: Sequence[Sighting], corrections: Sequence[Correction]) -> Recurring:
    return Recurring(
        sightings=tuple(sorted(sightings, key=lambda sighting: sighting.day, reverse=True)),
        sessions=len({(sighting.source, sighting.session_id) for sighting in sightings}),
        corrections=_sort_latest_first(corrections),
    )


def _keep_recurring(found: Iterable[Recurring]) -> tuple[Recurring, ...]:
    """Return what occurs in several sessions, the most frequent first; of equals, what was corrected most."""
    several = [item for item in found if item.sessions > 1]
    return tuple(sorted(several, key=lambda item: (-item.sessions, -len(item.corrections), -len(item.sightings))))


def _sort_latest_first(corrections: Iterable[Correction]) -> tuple[Correction, ...]:
    return tuple(sorted(corrections, key=lambda correction: correction.said.day, reverse=True))


def _has_content(words: str) -> bool:
    """Tell whether a prompt says more than "go on"."""
    folded = words.casefold().split()
    return len(folded) > 1 and not set(folded) <= STOPWORDS | CONTINUE


def _build_sighting(session: Session, turn: Turn) -> Sighting:
    return Sighting(
        source=session.source,
        session_id=session.session_id,
        cwd=session.cwd,
        day=(turn.at or session.started_at)[:10],
        words=_quote(turn),
    )


def _quote(turn: Turn) -> str:
    """Return what a person typed in a turn; pasted text only if there is nothing else."""
    return excerpt(strip_pasted(turn.prompt) or turn.prompt, MAX_QUOTE)
