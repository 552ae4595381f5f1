"""Finds, without a model, what a user requests and corrects again and again.

A new user sees these findings first, so each is given in the user's own words, with the sessions in which they were
typed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.mining.recurring_requests import group_asks, read_asks
from skillopt_sleep.model.lexicon import strip_pasted
from skillopt_sleep.model.near_duplicates import group_recurrences
from skillopt_sleep.model.session import Feedback, Session, Turn
from skillopt_sleep.model.task import GROUPS_FOR_VERDICT, TaskRecord
from skillopt_sleep.model.text import CONTINUE, STOPWORDS, excerpt

MAX_QUOTE = 240
"""Maximum characters of a user's words that a finding quotes."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class Sighting(Struct, frozen=True, kw_only=True):
    """One occasion on which a request or a correction was typed."""

    source: str
    session_id: str
    cwd: str
    day: str
    """The ISO date of the occasion; "" when unknown."""
    words: str


class Correction(Struct, frozen=True, kw_only=True):
    """What the user said about a wrong answer, and the request behind the answer."""

    said: Sighting
    asked: str
    """The user's last request before the correction; "" when the session begins with the correction."""
    cause: str = ""
    """What the correction does, such as "asks to undo it"; "" when unknown."""


class Recurring(Struct, frozen=True, kw_only=True):
    """A request or correction that was made in several sessions."""

    sightings: tuple[Sighting, ...]
    """One entry for each occasion, with the words typed, latest first."""
    sessions: int
    """The number of different sessions in which the request or correction was typed."""
    corrections: tuple[Correction, ...] = ()
    """The corrections that followed the request's answers; for a recurring correction, all of its occurrences."""


class Insights(Struct, frozen=True, kw_only=True):
    """What a user's sessions show without any model call: counts, and what is requested and corrected repeatedly."""

    sessions: int = 0
    projects: int = 0
    prompts: int = 0
    approvals: int = 0
    first_day: str = ""
    last_day: str = ""
    active_days: int = 0
    """The number of days with a prompt."""
    asked: tuple[Recurring, ...] = ()
    """Requests made in several sessions, the most frequent first."""
    corrected: tuple[Recurring, ...] = ()
    """Corrections made in several sessions, the most frequent first."""
    corrections: tuple[Correction, ...] = ()
    """All corrections, the latest first."""
    tasks: int = 0
    groups: int = 0
    """Number of different requests among the mined tasks."""
    groups_needed: int = GROUPS_FOR_VERDICT
    groups_missing: int = GROUPS_FOR_VERDICT
    """Number of further different requests needed before the gate can give a verdict."""
    out_of_scope: int = 0
    """The number of sessions of other projects; the other fields do not count them."""
    unplaced: int = 0
    """The number of sessions in deleted worktrees, whose project is unknown; the other fields do not count them."""
    days_missing: int | None = None
    """Days of similar work until there are enough requests for a verdict; None when nothing allows an estimate."""


class _Prompt(Struct, frozen=True, kw_only=True):
    """A prompt of a user, with the request and the answer before it and the correction after it."""

    session: Session
    turn: Turn
    answer: str
    """The answer that the user saw when typing the prompt."""
    asked: str
    """The user's last request before the prompt."""
    correction: Correction | None = None
    """The next prompt, if it corrects the answer to this prompt; else None."""

    @property
    def is_correction(self) -> bool:
        return self.turn.feedback is Feedback.CORRECTION

    def build_correction(self) -> Correction:
        return Correction(said=_build_sighting(self.session, self.turn), asked=quote(self.asked), cause=self.turn.cause)


def find_insights(
    sessions: Sequence[Session], tasks: Sequence[TaskRecord], *, groups_needed: int = GROUPS_FOR_VERDICT
) -> Insights:
    """Return what the sessions show of the user's requests and corrections; ``tasks`` are those mined from them."""
    prompts = [prompt for session in _join_parts(sessions) for prompt in _read_prompts(session)]
    days = sorted({_read_day(prompt.turn.at) for prompt in prompts} - {""})
    corrections = _sort_latest_first(prompt.build_correction() for prompt in prompts if prompt.is_correction)
    groups = len({task.group or task.id for task in tasks})
    missing = max(0, groups_needed - groups)
    return Insights(
        sessions=len(sessions),
        projects=len({session.cwd for session in sessions} - {""}),
        prompts=len(prompts),
        approvals=sum(prompt.turn.feedback is Feedback.APPROVAL for prompt in prompts),
        first_day=days[0] if days else "",
        last_day=days[-1] if days else "",
        active_days=len(days),
        asked=_find_recurring_requests([prompt for prompt in prompts if not prompt.is_correction]),
        corrected=_find_recurring_corrections(corrections),
        corrections=corrections,
        tasks=len(tasks),
        groups=groups,
        groups_needed=groups_needed,
        groups_missing=missing,
        days_missing=math.ceil(missing * len(days) / groups) if groups and days else None,
    )


def find_recurring_requests(sessions: Sequence[Session]) -> tuple[Recurring, ...]:
    """Return the requests made in several of these sessions, the most frequent first."""
    prompts = [prompt for session in _join_parts(sessions) for prompt in _read_prompts(session)]
    return _find_recurring_requests([prompt for prompt in prompts if not prompt.is_correction])


def _join_parts(sessions: Sequence[Session]) -> Iterator[Session]:
    """Yield each session once, with its parts joined: one that was resumed or copied is stored in several."""
    parts: dict[tuple[str, str], list[Session]] = {}
    for session in sessions:
        parts.setdefault(_name_session(session), []).append(session)
    for same in parts.values():
        same.sort(key=lambda part: next((turn.at for turn in part.turns if turn.at), ""))
        yield same[0] if len(same) == 1 else replace(same[0], turns=tuple(turn for part in same for turn in part.turns))


def _read_prompts(session: Session) -> Iterator[_Prompt]:
    found: list[_Prompt] = []
    answer = asked = ""
    for turn in session.turns:
        if not turn.kind.weak:
            prompt = _Prompt(session=session, turn=turn, answer=answer, asked=asked)
            if prompt.is_correction and found:
                found[-1] = replace(found[-1], correction=prompt.build_correction())
            elif not prompt.is_correction and has_content(turn.prompt):
                asked = turn.prompt
            found.append(prompt)
        answer = turn.final or answer
    yield from found


def _find_recurring_requests(prompts: Sequence[_Prompt]) -> tuple[Recurring, ...]:
    """Return the requests made in several sessions; requests that always come in the same prompts are one finding."""
    asked = [(ask, prompt) for prompt in prompts for ask in read_asks(prompt.turn, prompt.answer)]
    groups: dict[int, dict[int, _Prompt]] = {}
    for number, (_, prompt) in zip(group_asks([ask for ask, _ in asked]), asked, strict=True):
        groups.setdefault(number, {})[id(prompt)] = prompt
    recurring = [
        group for group in groups.values() if len({_name_session(prompt.session) for prompt in group.values()}) > 1
    ]
    return _keep_recurring(
        _build_recurring(
            [_build_sighting(prompt.session, prompt.turn) for prompt in group.values()],
            [prompt.correction for prompt in group.values() if prompt.correction],
        )
        for group in _drop_parts(recurring)
    )


def _drop_parts(groups: Iterable[dict[int, _Prompt]]) -> Iterator[dict[int, _Prompt]]:
    """Yield the groups of prompts that no larger group contains: requests always made together are one finding."""
    holders: dict[int, list[dict[int, _Prompt]]] = {}
    for group in sorted(groups, key=len, reverse=True):
        if not any(group.keys() <= other.keys() for other in holders.get(next(iter(group)), ())):
            for prompt in group:
                holders.setdefault(prompt, []).append(group)
            yield group


def _name_session(session: Session) -> tuple[str, str]:
    return session.source, session.session_id or session.path


def _find_recurring_corrections(corrections: Sequence[Correction]) -> tuple[Recurring, ...]:
    groups: dict[int, list[Correction]] = {}
    for number, item in zip(group_recurrences([item.said.words for item in corrections]), corrections, strict=True):
        groups.setdefault(number, []).append(item)
    return _keep_recurring(_build_recurring([item.said for item in group], group) for group in groups.values())


def _build_recurring(sightings: Sequence[Sighting], corrections: Sequence[Correction]) -> Recurring:
    return Recurring(
        sightings=tuple(sorted(sightings, key=lambda sighting: sighting.day, reverse=True)),
        sessions=len({(sighting.source, sighting.session_id) for sighting in sightings}),
        corrections=_sort_latest_first(corrections),
    )


def _keep_recurring(found: Iterable[Recurring]) -> tuple[Recurring, ...]:
    """Return the findings from several sessions, the most frequent first; of equals, the most corrected first."""
    several = [item for item in found if item.sessions > 1]
    return tuple(sorted(several, key=lambda item: (-item.sessions, -len(item.corrections), -len(item.sightings))))


def _sort_latest_first(corrections: Iterable[Correction]) -> tuple[Correction, ...]:
    return tuple(sorted(corrections, key=lambda correction: correction.said.day, reverse=True))


def has_content(words: str) -> bool:
    """Return whether a prompt says more than "go on" or "yes, do that"."""
    folded = words[:MAX_QUOTE].casefold().split()
    return len(folded) > 1 and any(word not in STOPWORDS and word not in CONTINUE for word in folded)


def _read_day(at: str) -> str:
    return at[:10] if _DAY.match(at) else ""


def _build_sighting(session: Session, turn: Turn) -> Sighting:
    return Sighting(
        source=session.source,
        session_id=session.session_id,
        cwd=session.cwd,
        day=_read_day(turn.at) or _read_day(session.started_at),
        words=quote(turn.prompt),
    )


def quote(prompt: str) -> str:
    """Return the words that a user typed in a prompt, or its pasted text if nothing was typed, shortened."""
    return excerpt(strip_pasted(prompt) or prompt, MAX_QUOTE)
