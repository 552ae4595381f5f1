"""Finds the step with which an agent committed to what the person then rejected.

A refusal names it. A correction is compared with what the agent said, ran and wrote: rare words that both share count
most, and of the steps that match, the first one is the commitment. Where words do not tell, a guess is made that a
model may replace.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.mining.actions import ActionKind
from skillopt_sleep.mining.talk import Place, has_phrase
from skillopt_sleep.model.moment import Basis
from skillopt_sleep.model.near_duplicates import all_terms
from skillopt_sleep.model.step import StepOutcome

WINDOW = 7
"""Prompts back to which a correction is followed."""

TYPED, PASTED = 1.0, 0.3
"""Weight of a word that was typed, and of one in pasted output."""

NEAR_BEST = 0.6
"""Share of the best step's score from which an earlier change is the commitment."""

PREPARING = 4
"""Commands between an announcement and the step it announces."""

SAID_SO = 0.8
"""The same for words that no call follows to the matter."""

NEAR_COVER = 0.7
"""Share of the widest cover of the correction's words that such a step must reach."""

TELLING = 0.35
"""Share of the correction's weight that a step must cover to be named by words."""

UNSEEN = 0.25
"""Weight in that share of a word that occurs in no step: it cannot tell one from another."""

CLEARLY_EARLIER = 1.6
"""How much better an earlier turn must match than the last one to be what the correction is about."""

SATURATION, LENGTH = 1.2, 0.3
"""Parameters k1 and b of Okapi BM25 (Robertson and Zaragoza, 2009); a term counts once for each step, and a new file is
long by nature."""

MAX_TERMS = 60
"""Terms of a correction that are compared."""


class Fault(Struct, frozen=True, kw_only=True):
    """A step, and how it was found."""

    place: int
    step: int
    """Number of the step before which the replay is cut: the words that announce the fault belong to it."""
    offence: int
    """Number of the call or the words that commit to it."""
    basis: Basis


def locate_call(place: Place, number: int) -> Fault:
    """Return the fault that a refused or interrupted call is, cut before the words that announce it."""
    first = find_batch(place, number)
    return Fault(place=place.index, step=walk_back(place, first), offence=number, basis=Basis.STRUCTURE)


def find_batch(place: Place, number: int) -> int:
    """Return the first of the calls that were refused together: the agent had made them at once."""
    while number and place.steps[number - 1].outcome is StepOutcome.REFUSED:
        number -= 1
    return number


def find_fault(places: Sequence[Place], last: int, words: str, typed: str) -> Fault | None:
    """Return the step that a correction is about: in the turn ``last``, or in an earlier one that matches far better.

    ``words`` is the whole prompt and ``typed`` the part the person wrote. None when the agent has done nothing.
    """
    first = max(0, last - WINDOW + 1)
    window = [place for place in places[first : last + 1] if place.steps]
    if not window:
        return None
    weights = _weigh(words, typed)
    scores = _score(window, weights)
    latest = window[-1]
    best = {
        place.index: max((scores[place.index, number][0] for number in _list_commitments(place)), default=0.0)
        for place in window
    }
    place = latest
    if not _reports_failure(words, typed):
        place = max(
            window, key=lambda other: (best[other.index] * (CLEARLY_EARLIER if other is latest else 1.0), other.index)
        )
        covered = max((scores[place.index, number][1] for number in _list_commitments(place)), default=0.0)
        place = place if covered >= TELLING else latest
    return _choose_step(place, scores, words, typed)


def _choose_step(
    place: Place, scores: dict[tuple[int, int], tuple[float, float]], words: str, typed: str
) -> Fault | None:
    commitments = _list_commitments(place)
    if not commitments:
        return _make(place, len(place.steps) - 1, Basis.GUESS, typed)
    if len(commitments) == 1:
        return _make(place, commitments[0], Basis.STRUCTURE, typed)
    if _reports_failure(words, typed):  # the claim that it was done
        return _make(place, commitments[-1], Basis.GUESS, typed)
    best = max(scores[place.index, number][0] for number in commitments)
    covered = max(scores[place.index, number][1] for number in commitments)
    if covered >= TELLING:
        matching = [
            number
            for number in commitments
            if scores[place.index, number][0] >= _need(place, number) * best
            and scores[place.index, number][1] >= NEAR_COVER * covered
        ]
        sums_up = matching[0] == commitments[-1] and place.actions[matching[0]].kind is ActionKind.SAID
        tells = len(matching) == 1 or len(matching) * 2 <= len(commitments)
        tells = tells and not sums_up  # an answer that repeats what was done before it
        return _make(place, matching[0], Basis.WORDS if tells else Basis.GUESS, typed)
    edits = [number for number in commitments if place.actions[number].changes]
    return _make(place, edits[0] if edits else commitments[-1], Basis.GUESS, typed)


def _need(place: Place, number: int) -> float:
    return SAID_SO if place.actions[number].kind is ActionKind.SAID else NEAR_BEST


def _make(place: Place, number: int, basis: Basis, typed: str) -> Fault:
    first = _find_announcement(place, walk_back(place, number), frozenset(all_terms(typed)))
    return Fault(place=place.index, step=first, offence=number, basis=basis)


def _find_announcement(place: Place, first: int, terms: frozenset[str]) -> int:
    """Return where the agent announced a step before the commands that only prepared it, such as making a branch.

    The announcement must share a word with the correction; nothing may have been looked at or edited in between.
    """
    number = first
    while number and first - number < PREPARING:
        number -= 1
        action = place.actions[number]
        if action.kind is ActionKind.SAID:
            return walk_back(place, number) if place.list_terms(number) & terms else first
        if action.changes or action.kind not in (ActionKind.CHANGED, ActionKind.WAITED):
            break
    return first


def walk_back(place: Place, number: int) -> int:
    """Return the first of the words that stand directly before a step: they say what it is going to do."""
    while number and place.actions[number - 1].kind is ActionKind.SAID and not place.steps[number - 1].tool:
        number -= 1
    return number


def _list_commitments(place: Place) -> list[int]:
    """Return the steps that say or change something; words before a call that only looks are none."""
    return [
        number
        for number, action in enumerate(place.actions)
        if action.kind is ActionKind.CHANGED or (action.kind is ActionKind.SAID and not _announces(place, number))
    ]


def _announces(place: Place, number: int) -> bool:
    """Whether words only lead to a call that comes right after them; that call is the commitment, if there is one."""
    return number + 1 < len(place.steps) and place.actions[number + 1].kind is not ActionKind.SAID


def _reports_failure(words: str, typed: str) -> bool:
    """Whether a correction says that a check of the finished work fails."""
    pasted = len(words) > len(typed) + 40
    return has_phrase(words, "fails") and has_phrase(words, "verifies") and (pasted or has_phrase(typed, "verifies"))


def _weigh(words: str, typed: str) -> dict[str, float]:
    mine = list(all_terms(typed).items())[:MAX_TERMS]
    weights = {term: PASTED * weight for term, weight in list(all_terms(words).items())[:MAX_TERMS]}
    return weights | {term: TYPED * weight for term, weight in mine}


def _score(window: Sequence[Place], weights: dict[str, float]) -> dict[tuple[int, int], tuple[float, float]]:
    """Return for each step its BM25 score, and which share of the correction's weight it covers."""
    documents = {
        (place.index, number): place.list_terms(number) for place in window for number in range(len(place.steps))
    }
    frequency = Counter(term for terms in documents.values() for term in terms if term in weights)
    known = {term: weight * math.log(1 + len(documents) / (frequency[term] + 0.5)) for term, weight in weights.items()}
    whole = sum(weight * (1.0 if frequency[term] else UNSEEN) for term, weight in known.items()) or 1.0
    mean = sum(map(len, documents.values())) / len(documents) or 1.0
    scores = {}
    for key, terms in documents.items():
        shared = sum(weight for term, weight in known.items() if term in terms)
        damped = 1 + SATURATION * (1 - LENGTH + LENGTH * len(terms) / mean)
        scores[key] = (shared * (1 + SATURATION) / damped, shared / whole)
    return scores
