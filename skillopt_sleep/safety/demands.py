"""Reads what a clause demands or forbids: the act, its objects, their order and the condition.

``provenance.py`` compares the demands of a rule with those that a user typed. The analysis uses grammar
(``grammar.json``), in the big languages: no entry depends on what an attack says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.model.near_duplicates import LIGHT, all_terms

SHORT_WORD = 2
"""The most letters of a word that may be a particle in some language; such a word weighs no more than a common verb."""


class _Grammar(Struct, frozen=True):
    """Words by language, and patterns whose parts are joined."""

    function_words: Mapping[str, str]
    acts: Mapping[str, str]
    """Beginnings of verbs for writing, showing, checking or choosing, which a rule may use with anything typed."""
    contrasts: tuple[str, ...]
    negations: tuple[str, ...]
    privatives: tuple[str, ...]
    """Words such as "without", which negate in addition to another negation."""
    omissions: tuple[str, ...]
    interventions: tuple[str, ...]
    """Words for removing or switching off something that exists, which is more than not doing something."""
    limits: tuple[str, ...]
    """Words that turn a negation into a limit ("not more than")."""
    bounds: tuple[str, ...]
    """Other words for limits, and digits."""
    concessions: tuple[str, ...]
    once: tuple[str, ...]
    """Words that ask for something this time only."""
    conditions: tuple[str, ...]
    conditions_unspaced: tuple[str, ...]
    earlier: tuple[str, ...]
    later: tuple[str, ...]
    interjections: tuple[str, ...]
    """Refusals that open a complaint ("no, amounts in cents") without negating anything in it."""
    complaints: tuple[str, ...]
    """Patterns of saying what the assistant did wrong, by which the user demands the contrary."""
    stakes: Mapping[str, str]
    """Words, by subject, for risky things that a rule may mention only if the user mentioned them."""


def _join(parts: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("".join(parts), re.IGNORECASE)


_GRAMMAR = msgspec.json.decode(Path(__file__).with_name("grammar.json").read_bytes(), type=_Grammar)
FUNCTION_WORDS = frozenset(word for words in _GRAMMAR.function_words.values() for word in words.split())
"""Articles, pronouns, prepositions, conjunctions, auxiliaries, and adverbs of time and degree."""
STAKES = {name: re.compile(words, re.IGNORECASE) for name, words in _GRAMMAR.stakes.items()}
UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_NEGATION = _join(_GRAMMAR.negations)
_PRIVATIVE = _join(_GRAMMAR.privatives)
_OMISSION = _join(_GRAMMAR.omissions)
_INTERVENTION = _join(_GRAMMAR.interventions)
_LIMIT = _join(_GRAMMAR.limits)
_BOUND = _join((*_GRAMMAR.limits, *_GRAMMAR.bounds))
_CONCESSION = _join(_GRAMMAR.concessions)
_CONDITION = re.compile(rf"(?:{''.join(_GRAMMAR.conditions)})[^,;:.]*", re.IGNORECASE)
_ONCE = _join(_GRAMMAR.once)
_RESTRICTION = _join((*_GRAMMAR.conditions, "|", *_GRAMMAR.conditions_unspaced))
_EARLIER = _join(_GRAMMAR.earlier)
_LATER = _join(_GRAMMAR.later)
_INTERJECTION = _join(_GRAMMAR.interjections)
_COMPLAINT = _join(_GRAMMAR.complaints)
_ACT = re.compile("|".join(word for words in _GRAMMAR.acts.values() for word in words.split()))
_PREFACE = re.compile(
    r"(?:\W|\b(?:\w+ly|always|never|please|do|not|don['\u2019]t|must|should|may|can|could|you|also|then|only|just|first|instead|and|to|immer|nie|niemals|bitte"
    r"|toujours|jamais|ne|n['\u2019]|siempre|nunca|no|sempre|não|non|mai|всегда|никогда|не|altijd|nooit|zawsze|nigdy|nie)\b)*",
    re.IGNORECASE,
)
"""The pattern of words that may precede an imperative."""
_WORD = re.compile(r"\w+")
_PLURAL = re.compile("[^s]s$|ing$")
"""The pattern of endings that nouns have, and imperatives of a big language do not."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+|\s+[\u2013\u2014]\s+|\s--\s")
_CLAUSE_WORDS = "and|then|und|dann|et|puis|y|e|и|so|because|but|weil|aber|mais|car|donc|pero|porque|но"
_BEFORE_NOT = "do does did is are was were must should shall can could will would may if why or has have please"
_CLAUSE_END = re.compile(
    rf"[,;:()\uff0c\u3001\uff1a]|\b(?:{_CLAUSE_WORDS})\b|(?=\b(?:{''.join(_GRAMMAR.contrasts)})\b|\u800c\u4e0d)",
    re.IGNORECASE,
)
"""The pattern of the end of a clause; the halves of "pnpm instead of npm" make contrary demands."""
TYPED_CLAUSE_END = re.compile(
    rf"{_CLAUSE_END.pattern}|{''.join(f'(?<!{word})' for word in _BEFORE_NOT.split())}(?<=[\w/`\"')])\s+(?=not\s)",
    re.IGNORECASE,
)
"""The pattern of the end of a clause in typed words, where "colour not color" often lacks the comma."""
TERM = re.compile(r"[\w-]+")
CODE = re.compile(r"`([^`\n]+)`")


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, in every script; code spans are never split."""
    spans = [code.span() for code in CODE.finditer(text)]
    sentences, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        if not any(begin < end.start() < stop for begin, stop in spans):
            sentences.append(text[start : end.start()])
            start = end.end()
    return [sentence for sentence in map(str.strip, (*sentences, text[start:])) if TERM.search(sentence)]


def split_clauses(sentence: str, end: re.Pattern[str] = _CLAUSE_END) -> list[str]:
    """Split a sentence at commas, colons, brackets and conjunctions, and before a "without" that is not negated."""
    return [part for clause in end.split(sentence) for part in _split_privative(clause) if TERM.search(part)]


class Polarity(Struct, frozen=True):
    """The signs that a clause demands or forbids what it mentions."""

    negations: int = 0
    """The number of negations that do not cancel each other."""
    omits: bool = False
    """Whether the clause mentions leaving something out, or a limit not to exceed."""
    intervenes: bool = False
    """Whether the clause mentions removing something, or switching it off."""
    concedes: bool = False
    """Whether the clause sets a condition aside ("even if")."""
    is_limited: bool = False
    """Whether the clause names a limit or a number."""
    complains: bool = False
    """Whether the clause says what was done wrong."""

    @property
    def is_marked(self) -> bool:
        """Whether the clause has any word that negates, leaves out, removes or concedes."""
        return bool(self.negations or self.omits or self.intervenes or self.concedes)

    @property
    def reverses(self) -> bool:
        """Whether the clause leaves out, removes or concedes something."""
        return self.omits or self.intervenes or self.concedes

    @property
    def forbids(self) -> bool:
        """Whether the clause forbids something; two reversals make a demand ("never skip")."""
        return bool((self.negations + (self.omits or self.intervenes)) % 2)

    def allows(self, other: Polarity) -> bool:
        """Return whether a typed clause of this polarity supports a rule's clause of the polarity ``other``."""
        if other.concedes and not self.concedes:
            return False
        if self.complains:  # "you forgot the tests" demands tests; "why do you add comments" may demand either
            return not (self.negations or self.omits or self.intervenes) or not other.forbids
        if other.intervenes and not other.negations and not self.intervenes:
            return False
        if self.negations and self.is_limited and not (other.is_limited or other.negations):
            return False
        return self.forbids == other.forbids


def read_polarity(clause: str) -> Polarity:
    """Return whether a clause demands or forbids, ignoring negations of a condition and a refusal at the beginning.

    Several negations count as one, as in most languages; words such as "without" count in addition.
    """
    clause = _INTERJECTION.sub(" ", clause)
    negated = bool(_NEGATION.search(_CONDITION.sub(" ", clause)))
    return Polarity(
        negations=negated + len(_PRIVATIVE.findall(clause)),
        omits=bool(_OMISSION.search(clause)) or (negated and bool(_LIMIT.search(clause))),
        intervenes=bool(_INTERVENTION.search(clause)),
        concedes=bool(_CONCESSION.search(clause)),
        is_limited=bool(_BOUND.search(clause)),
        complains=bool(_COMPLAINT.search(clause)),
    )


class Demand(Struct, frozen=True):
    """The demand that one clause makes."""

    terms: Mapping[str, float]
    """Every term with its weight (``weigh_terms``)."""
    main: frozenset[str]
    """The terms outside conditions and outside phrases with "before" and "after"."""
    earlier: frozenset[str]
    """The terms for what must come first; empty when the clause demands no order."""
    later: frozenset[str]
    polarity: Polarity
    is_bound: bool
    """Whether the demand applies only on a condition."""
    is_once: bool
    """Whether the demand is for this time only."""
    act: str = ""
    """The verb of an imperative; "" for verbs that a rule may apply to anything that was typed."""


def _split_privative(clause: str) -> tuple[str, ...]:
    """Split "do this without that" into two clauses; "never this without that" stays one clause."""
    found = _PRIVATIVE.search(clause)
    if found is None or _NEGATION.search(clause) or not weigh_terms(clause[: found.start()]):
        return (clause,)
    return clause[: found.start()], clause[found.start() :]


def read_demand(clause: str, sentence: str = "") -> Demand:
    """Return the demand of a clause; the sentence around the clause shows whether the demand is for once only."""
    aside = _RESTRICTION.search(clause)
    before, after = _EARLIER.search(clause), _LATER.search(clause)
    main, side = _part(clause, aside or before or after)
    first, second = (side, main) if after and not before else (main, side)
    is_ordered = bool(before or after) and not aside
    return Demand(
        terms=weigh_terms(clause),
        main=frozenset(weigh_terms(main)),
        earlier=frozenset(weigh_terms(first)) if is_ordered else frozenset(),
        later=frozenset(weigh_terms(second)) if is_ordered else frozenset(),
        polarity=read_polarity(clause),
        is_bound=aside is not None,
        is_once=bool(_ONCE.search(sentence)),
        act=_find_act(main),
    )


def _part(clause: str, opening: re.Match[str] | None) -> tuple[str, str]:
    """Return the main part of a clause, and the part that a word such as "if" or "before" subordinates."""
    if opening is None:
        return clause, ""
    head, tail = clause[: opening.start()], clause[opening.end() :]
    if UNSPACED.search(opening[0]) or (UNSPACED.search(clause) and not opening[0].isascii()):
        return tail, head  # what comes first stands first
    if weigh_terms(head):
        return head, tail
    for word in _WORD.finditer(tail):  # "vor dem Commit die Tests": one word
        if weigh_terms(word[0]):
            return tail[word.end() :], tail[: word.end()]
    return tail, ""


def _find_act(main: str) -> str:
    """Return the term of an imperative's verb; "" for other sentences and for verbs of writing and choosing."""
    if UNSPACED.search(main):
        return ""
    start = _PREFACE.match(main)
    found = _WORD.match(main, start.end() if start else 0)
    if found is None or _ACT.match(found[0].casefold()) or _PLURAL.search(found[0]):
        return ""
    return next((term for term, weight in weigh_terms(found[0]).items() if weight == 1 or term in _EFFECTS), "")


_EFFECTS = frozenset(term for word in ("remove", "push", "pull", "move") for term in all_terms(word))
"""Verbs of everyday work that do more than write."""


def weigh_terms(text: str) -> Mapping[str, float]:
    """Return the terms of a text with their weights; short words of alphabetic scripts have little weight."""
    return {
        term: min(weight, LIGHT) if len(term) <= SHORT_WORD and not UNSPACED.match(term) else weight
        for term, weight in all_terms(text, FUNCTION_WORDS).items()
    }
