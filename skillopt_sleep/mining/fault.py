"""Finds the step with which an agent committed to what the person then rejected.

A refusal names it. A correction is compared with what the agent said, ran and wrote: rare words that both share count
most, and of the steps that match, the first one is the commitment. Where words do not tell, a guess is made that a
model may replace.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence

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

MANY_TERMS = 20
"""Terms from which a correction says so much that a step need cover less of it."""

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
    window = [place for place in places[max(0, last - WINDOW + 1) : last + 1] if place.steps]
    if not window:
        return None
    correction = _Correction(words=words, typed=typed, weights=_weigh(words, typed))
    matches = _match(window, correction.weights)
    latest = window[-1]
    if correction.reports_failure:
        return _choose_step(latest, matches, correction)

    def rank(place: Place) -> tuple[float, int]:
        best = max((matches[place.index, number].score for number in _list_commitments(place)), default=0.0)
        return best * (CLEARLY_EARLIER if place is latest else 1.0), place.index

    place = max(window, key=rank)
    cover = max((matches[place.index, number].cover for number in _list_commitments(place)), default=0.0)
    return _choose_step(place if cover >= correction.telling else latest, matches, correction)


class _Correction(Struct, frozen=True, kw_only=True):
    """The words of a correction."""

    words: str
    typed: str
    weights: dict[str, float]

    @property
    def telling(self) -> float:
        """The share of its words that a step must cover to be named by them; less where it says a lot."""
        return TELLING * min(1.0, MANY_TERMS / max(len(self.weights), 1))

    @property
    def reports_failure(self) -> bool:
        """Whether it says that a check of the finished work fails."""
        pasted = len(self.words) > len(self.typed) + 40  # more than a stray mark
        says_so = has_phrase(self.words, "fails") and has_phrase(self.words, "verifies")
        return says_so and (pasted or has_phrase(self.typed, "verifies"))


class _Match(Struct, frozen=True, kw_only=True):
    """How well a step matches a correction."""

    score: float
    """BM25."""
    cover: float
    """Share of the correction's weight that the step's words cover, from 0 to 1."""


def _choose_step(place: Place, matches: Mapping[tuple[int, int], _Match], correction: _Correction) -> Fault:
    """Return the commitment of a turn that a correction is about: the first that matches, else the likeliest one."""
    typed, commitments = correction.typed, _list_commitments(place)
    if not commitments:
        return _make(place, len(place.steps) - 1, Basis.GUESS, typed)
    if len(commitments) == 1:
        return _make(place, commitments[0], Basis.STRUCTURE, typed)
    if correction.reports_failure:  # the claim that it was done
        return _make(place, commitments[-1], Basis.GUESS, typed)
    found = {number: matches[place.index, number] for number in commitments}
    best, cover = max(match.score for match in found.values()), max(match.cover for match in found.values())
    if cover < correction.telling:
        edits = [number for number in commitments if place.actions[number].changes]
        return _make(place, edits[0] if edits else commitments[-1], Basis.GUESS, typed)
    matching = [
        number
        for number, match in found.items()
        if match.cover >= NEAR_COVER * cover and match.score >= _need(place, number) * best
    ] or [max(found, key=lambda number: found[number].score)]
    # an answer that sums up repeats what was done before it, and what all steps share tells none of them
    sums_up = matching[0] == commitments[-1] and place.actions[matching[0]].kind is ActionKind.SAID
    tells = not sums_up and (len(matching) == 1 or len(matching) * 2 <= len(commitments))
    return _make(place, matching[0], Basis.WORDS if tells else Basis.GUESS, typed)


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


def _weigh(words: str, typed: str) -> dict[str, float]:
    """Return the terms of a correction with their weights; single letters are left-overs of "I'm" and lists."""
    mine = _list_terms(typed)
    weights = {term: PASTED * weight for term, weight in _list_terms(words).items()}
    return weights | {term: TYPED * weight for term, weight in mine.items()}


def _list_terms(text: str) -> dict[str, float]:
    known = {term: weight for term, weight in all_terms(text).items() if len(term) > 1 or not term.isascii()}
    return dict(itertools.islice(known.items(), MAX_TERMS))


def _match(window: Sequence[Place], weights: Mapping[str, float]) -> dict[tuple[int, int], _Match]:
    """Return how well each step matches, by the index of its turn and its number in it."""
    documents = {
        (place.index, number): place.list_terms(number) for place in window for number in range(len(place.steps))
    }
    frequency = Counter(term for terms in documents.values() for term in terms if term in weights)
    known = {term: weight * math.log(1 + len(documents) / (frequency[term] + 0.5)) for term, weight in weights.items()}
    whole = sum(weight * (1.0 if frequency[term] else UNSEEN) for term, weight in known.items()) or 1.0
    mean = sum(map(len, documents.values())) / len(documents) or 1.0
    matches = {}
    for key, terms in documents.items():
        shared = sum(weight for term, weight in known.items() if term in terms)
        damped = 1 + SATURATION * (1 - LENGTH + LENGTH * len(terms) / mean)
        matches[key] = _Match(score=shared * (1 + SATURATION) / damped, cover=min(shared / whole, 1.0))
    return matches
