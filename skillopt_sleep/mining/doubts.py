"""Tells why a moment may teach but never vote.

A vote says that a rule helped where the person had to step in. It would be noise where the person wanted something
else than they had asked for, took it back again, told of something nobody could know, or had said it already.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.mining.talk import Place, has_phrase, list_words
from skillopt_sleep.model.near_duplicates import SAME, similar
from skillopt_sleep.model.text import fold

CHANGED_MIND = "a change of mind: the agent had done what was asked"
NOT_KNOWABLE = "it could not be known at that moment"

SAID_ALREADY = 0.8
"""Minimum share of a correction's words in one earlier prompt by which it had been said before."""

FEW = 3
"""Minimum content words by which a correction can be recognised in an earlier prompt."""

RESTORED = 0.5
"""Minimum share of the lines changed after one correction that a later one must change back to contradict it."""


class Link(Struct, frozen=True, kw_only=True):
    """One correction of a chain."""

    place: Place
    """The turn whose work the correction rejects."""
    offence: int
    """Number of the rejected step in that turn."""
    said: Place
    """The prompt that holds the correction."""


def find_doubt(places: Sequence[Place], chain: Sequence[Link], number: int, answer: Sequence[Place]) -> str:
    """Return why the correction with this number in the chain may teach but never vote, "" when it may vote."""
    link = chain[number]
    if _contradicts(chain, answer):
        return "its corrections contradict each other"
    if _changes_mind(link):
        return CHANGED_MIND
    if _is_news(link.said.typed):
        return NOT_KNOWABLE
    if _said_before(places, link):
        return "the same had been said before in this session"
    return ""


def _contradicts(chain: Sequence[Link], answer: Sequence[Place]) -> bool:
    """Whether a later correction takes back what an earlier one asked for: in words, or by restored lines."""
    if any(has_phrase(link.said.typed, "reverts") for link in chain[1:]):
        return True
    versions = [*(link.said for link in chain)]
    return any(
        _is_restored(versions[early], [*versions[late:], *answer])
        for early in range(len(versions))
        for late in range(early + 1, len(versions))
    )


def _is_restored(early: Place, later: Sequence[Place]) -> bool:
    """Whether later turns add the lines again that an earlier one removed, and remove those that it added."""
    gone = {line for place in later for line in place.lines[0]}
    back = {line for place in later for line in place.lines[1]}
    removed, added = early.lines[0] - early.lines[1], early.lines[1] - early.lines[0]
    if not removed or not added:
        return False
    return len(removed & back) >= RESTORED * len(removed) and len(added & gone) >= RESTORED * len(added)


def _changes_mind(link: Link) -> bool:
    """Whether the person wants something other than what they had asked for and got."""
    typed = link.said.typed
    if has_phrase(typed, "fails"):
        return False
    if has_phrase(typed, "changes_mind"):
        return True
    if not _undoes(typed):
        return False
    asked = link.place
    dropped = list_words(typed) & list_words(asked.typed)
    return bool(dropped) and not has_phrase(asked.typed, "drops") and len(dropped) * 2 >= len(list_words(typed))


def _undoes(typed: str) -> bool:
    """Whether a prompt wants something removed or restored; the same words then ask for the opposite."""
    return has_phrase(typed, "drops") or has_phrase(typed, "reverts")


def _is_news(typed: str) -> bool:
    """Whether the prompt brings in something that nobody in the conversation could know."""
    return has_phrase(typed, "is_news") and not (has_phrase(typed, "fails") or has_phrase(typed, "reminds"))


def _said_before(places: Sequence[Place], link: Link) -> bool:
    """Whether an earlier prompt, up to the cut, says the same, so that an agent resumed there reads it anyway."""
    words = list_words(link.said.typed)
    for place in places[: link.place.index + 1]:
        if not place.is_prompt or place is link.said or _undoes(place.typed) is not _undoes(link.said.typed):
            continue
        if fold(link.said.typed) in fold(place.prompt) or similar(place.typed, link.said.typed) >= SAME:
            return True
        if len(words) >= FEW and len(words & list_words(place.prompt)) >= SAID_ALREADY * len(words):
            return True
    return False
