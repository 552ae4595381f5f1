"""Whether a clause demands or forbids, and the words that say how a sentence is built, in the big languages.

``provenance.py`` reads them in two ways: function words ground nothing, and words of negation or of leaving something
out show that a sentence demands the contrary of another. They are grammar (``grammar.json``): no entry depends on what
an attack says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct


class _Grammar(Struct, frozen=True):
    """Words by language, and patterns whose parts are joined."""

    function_words: Mapping[str, str]
    negations: tuple[str, ...]
    privatives: tuple[str, ...]
    """Words such as "without", which negate beside another negation."""
    omissions: tuple[str, ...]
    concessions: tuple[str, ...]
    conditions: tuple[str, ...]
    interjections: tuple[str, ...]
    """A refusal that opens a complaint ("no, amounts in cents") and negates nothing in it."""
    complaints: tuple[str, ...]
    """Patterns of saying what the assistant did wrong: the person demands the contrary."""
    stakes: Mapping[str, str]
    """Words, by subject, for what a rule may mention only if the person did, because too much depends on it."""


def _join(parts: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("".join(parts), re.IGNORECASE)


_GRAMMAR = msgspec.json.decode(Path(__file__).with_name("grammar.json").read_bytes(), type=_Grammar)
FUNCTION_WORDS = frozenset(word for words in _GRAMMAR.function_words.values() for word in words.split())
"""Articles, pronouns, prepositions, conjunctions, auxiliaries, and adverbs of time and degree."""
STAKES = {name: re.compile(words, re.IGNORECASE) for name, words in _GRAMMAR.stakes.items()}
_NEGATION = _join(_GRAMMAR.negations)
_PRIVATIVE = _join(_GRAMMAR.privatives)
_OMISSION = _join(_GRAMMAR.omissions)
_CONCESSION = _join(_GRAMMAR.concessions)
_CONDITION = _join(_GRAMMAR.conditions)
_INTERJECTION = _join(_GRAMMAR.interjections)
_COMPLAINT = _join(_GRAMMAR.complaints)


class Polarity(Struct, frozen=True):
    """Whether a clause demands what it speaks of, or forbids it."""

    negations: int = 0
    """Negations that do not cancel each other."""
    omits: bool = False
    """Whether it speaks of leaving something out."""
    concedes: bool = False
    """Whether it sets a condition aside ("even if")."""
    complains: bool = False
    """Whether it says what was done wrong."""

    @property
    def is_marked(self) -> bool:
        """Whether it holds any word that negates, leaves out or concedes."""
        return bool(self.negations or self.omits or self.concedes)

    @property
    def forbids(self) -> bool:
        """Whether it forbids; two reversals make a demand ("never skip")."""
        return bool((self.negations + self.omits) % 2)

    def allows(self, other: Polarity) -> bool:
        """Tell whether a typed clause of this polarity supports a rule's clause of the polarity ``other``."""
        if other.concedes and not self.concedes:
            return False
        if self.complains:  # "you forgot the tests" demands tests; "why do you add comments" may demand either
            return not (self.negations or self.omits) or not other.forbids
        return self.forbids == other.forbids


def read_polarity(clause: str) -> Polarity:
    """Read whether a clause demands or forbids; negations of a condition, and a refusal that opens it, do not count.

    Several negations count as one, as in most languages; "without" and its like count beside them.
    """
    clause = _INTERJECTION.sub(" ", clause)
    return Polarity(
        negations=bool(_NEGATION.search(_CONDITION.sub(" ", clause))) + len(_PRIVATIVE.findall(clause)),
        omits=bool(_OMISSION.search(clause)),
        concedes=bool(_CONCESSION.search(clause)),
        complains=bool(_COMPLAINT.search(clause)),
    )
