"""What sessions tell before any model is asked: what a person wants again and again, and what they keep correcting.

It is the first thing a new user sees, so it counts only what can be pointed at: each finding is in the person's own
words, with the sessions it stands on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from skillopt_sleep.mining.episodes import Episode, episodes, own_words
from skillopt_sleep.model.near_duplicates import group_recurrences
from skillopt_sleep.model.session import Feedback, Session, Turn
from skillopt_sleep.model.task import GROUPS_FOR_VERDICT, TaskRecord
from skillopt_sleep.model.text import CONTINUE, STOPWORDS, excerpt

WORDS = 240
"""Characters kept of a person's words."""


class Sighting(Struct, frozen=True, kw_only=True):
    """One time that something was said. ``day`` is an ISO date, "" when unknown."""

    source: str
    session_id: str
    cwd: str
    day: str
    words: str


class Correction(Struct, frozen=True, kw_only=True):
    """What was said about a wrong answer, and about which request."""

    said: Sighting
    asked: str


class Recurring(Struct, frozen=True, kw_only=True):
    """One thing said in several sessions, each time in the words of that time, the latest first.

    ``sessions`` counts different sessions. ``corrections`` are what was said about the answers.
    """

    sightings: tuple[Sighting, ...]
    sessions: int
    corrections: tuple[Correction, ...] = ()


class Insights(Struct, frozen=True, kw_only=True):
    """What the sessions tell.

    ``active_days`` counts days with a prompt. ``asked`` and ``corrected`` recur over sessions, the most frequent first;
    ``corrections`` are all of them, the latest first. ``groups`` counts different requests among the ``tasks`` found;
    ``groups_missing`` are those a verdict still takes, ``days_missing`` the days of such work until then (None where
    the sessions carry no times, or no task).
    """

    sessions: int = 0
    projects: int = 0
    prompts: int = 0
    approvals: int = 0
    first_day: str = ""
    last_day: str = ""
    active_days: int = 0
    asked: tuple[Recurring, ...] = ()
    corrected: tuple[Recurring, ...] = ()
    corrections: tuple[Correction, ...] = ()
    tasks: int = 0
    groups: int = 0
    groups_needed: int = GROUPS_FOR_VERDICT
    groups_missing: int = GROUPS_FOR_VERDICT
    days_missing: int | None = None


class _Asked(Struct, frozen=True, kw_only=True):
    session: Session
    episode: Episode


def insights(
    sessions: Sequence[Session], tasks: Sequence[TaskRecord], *, groups_needed: int = GROUPS_FOR_VERDICT
) -> Insights:
    """Count and group what was said; ``tasks`` are those mined from these sessions."""
    turns = [turn for session in sessions for turn in session.turns if not turn.kind.weak]
    days = sorted({turn.at[:10] for turn in turns} - {""})
    asked = [_Asked(session=session, episode=episode) for session in sessions for episode in episodes(session)]
    corrections = sorted(itertools.chain.from_iterable(map(_corrections, asked)), key=_day, reverse=True)
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
        asked=_recurring_asks(asked),
        corrected=_recurring_corrections(corrections),
        corrections=tuple(corrections),
        tasks=len(tasks),
        groups=groups,
        groups_needed=groups_needed,
        groups_missing=missing,
        days_missing=math.ceil(missing * len(days) / groups) if groups and days else None,
    )


def _recurring_asks(asked: Sequence[_Asked]) -> tuple[Recurring, ...]:
    worded = [(own_words(each.episode.ask.prompt), each) for each in asked]
    said = [(words, each) for words, each in worded if _says_something(words)]
    numbers = group_recurrences([words for words, _ in said])
    groups: dict[int, list[_Asked]] = {}
    for number, (_, each) in zip(numbers, said, strict=True):
        groups.setdefault(number, []).append(each)
    return _most_frequent(
        _recurring(
            [_sighting(each.session, each.episode.ask) for each in group],
            [correction for each in group for correction in _corrections(each)],
        )
        for group in groups.values()
    )


def _recurring_corrections(corrections: Sequence[Correction]) -> tuple[Recurring, ...]:
    numbers = group_recurrences([correction.said.words for correction in corrections])
    groups: dict[int, list[Correction]] = {}
    for number, correction in zip(numbers, corrections, strict=True):
        groups.setdefault(number, []).append(correction)
    return _most_frequent(_recurring([each.said for each in group], group) for group in groups.values())


def _recurring(sightings: Sequence[Sighting], corrections: Sequence[Correction]) -> Recurring:
    return Recurring(
        sightings=tuple(sorted(sightings, key=lambda sighting: sighting.day, reverse=True)),
        sessions=len({(sighting.source, sighting.session_id) for sighting in sightings}),
        corrections=tuple(sorted(corrections, key=_day, reverse=True)),
    )


def _most_frequent(found: Iterable[Recurring]) -> tuple[Recurring, ...]:
    """Those of several sessions, the most frequent first; of equals, those corrected most."""
    several = [each for each in found if each.sessions > 1]
    return tuple(sorted(several, key=lambda each: (-each.sessions, -len(each.corrections), -len(each.sightings))))


def _says_something(words: str) -> bool:
    """Whether there is more to a prompt than "go on"."""
    said = words.casefold().split()
    return len(said) > 1 and not set(said) <= STOPWORDS | CONTINUE


def _corrections(asked: _Asked) -> tuple[Correction, ...]:
    about = _words(asked.episode.ask)
    return tuple(Correction(said=_sighting(asked.session, turn), asked=about) for turn in asked.episode.corrections)


def _sighting(session: Session, turn: Turn) -> Sighting:
    return Sighting(
        source=session.source,
        session_id=session.session_id,
        cwd=session.cwd,
        day=(turn.at or session.started_at)[:10],
        words=_words(turn),
    )


def _words(turn: Turn) -> str:
    """What a person typed of a turn; what they pasted only if that is all there is."""
    return excerpt(own_words(turn.prompt) or turn.prompt, WORDS)


def _day(correction: Correction) -> str:
    return correction.said.day
