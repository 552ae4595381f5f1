"""Reads what a clause demands or forbids: the act, what it is done to, in which order and on which condition.

``provenance.py`` compares the demands of a proposed rule with those that the user typed. The analysis uses the grammar
of the big languages (``grammar.json``); no entry of it depends on what an attack says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.model.near_duplicates import LIGHT, all_terms

SHORT_WORD = 2
"""Words of at most so many letters, such as "up", weigh little: they may be particles in some language."""


class _Grammar(Struct, frozen=True):
    """The contents of ``grammar.json``: words by language, and patterns of which the parts are joined to one."""

    function_words: Mapping[str, str]
    acts: Mapping[str, str]
    """Beginnings of verbs such as "write" and "check", which a rule may use although the user did not type them."""
    contrasts: tuple[str, ...]
    negations: tuple[str, ...]
    privatives: tuple[str, ...]
    """Words such as "without", which negate once more in a clause that is negated already."""
    omissions: tuple[str, ...]
    interventions: tuple[str, ...]
    """Words such as "disable" and "delete": they ask for more than leaving something undone."""
    limits: tuple[str, ...]
    """Words such as "more than", which make a limit of a negation ("not more than")."""
    bounds: tuple[str, ...]
    """Words such as "at most", which name a limit without a negation, and digits."""
    concessions: tuple[str, ...]
    once: tuple[str, ...]
    """Words such as "today", which ask for something this time only."""
    conditions: tuple[str, ...]
    conditions_unspaced: tuple[str, ...]
    earlier: tuple[str, ...]
    later: tuple[str, ...]
    interjections: tuple[str, ...]
    """Openings of a complaint ("no, amounts in cents") whose "no" negates nothing of what follows."""
    complaints: tuple[str, ...]
    """Patterns such as "you forgot", with which the user names a mistake and so demands the contrary."""
    stakes: Mapping[str, str]
    """Patterns by subject, such as "production": a rule may speak of such a risk only if the user did."""


def _join(parts: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("".join(parts), re.IGNORECASE)


_GRAMMAR = msgspec.json.decode(Path(__file__).with_name("grammar.json").read_bytes(), type=_Grammar)
FUNCTION_WORDS = frozenset(word for words in _GRAMMAR.function_words.values() for word in words.split())
"""Words that only build a sentence, such as articles, pronouns and prepositions, of the big languages."""
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
"""Pattern of words such as "please always" in front of the verb of a command to the agent."""
_WORD = re.compile(r"\w+")
_PLURAL = re.compile("[^s]s$|ing$")
"""Pattern of endings, such as "-s" and "-ing", that show that a word is no verb of a command."""

_NAME = re.compile(r"pull requests?\b|merge request\b", re.IGNORECASE)
"""The pattern of nouns that begin like an imperative; "merge requests" is none of them, as it may be an order."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+|\s+[\u2013\u2014]\s+|\s--\s")
_CLAUSE_WORDS = "and|then|und|dann|et|puis|y|e|и|so|because|but|weil|aber|mais|car|donc|pero|porque|но"
_BEFORE_NOT = "do does did is are was were must should shall can could will would may if why or has have please"
_CLAUSE_END = re.compile(
    rf"[,;:()\uff0c\u3001\uff1a]|\b(?:{_CLAUSE_WORDS})\b|(?=\b(?:{''.join(_GRAMMAR.contrasts)})\b|\u800c\u4e0d)",
    re.IGNORECASE,
)
"""Pattern of where a clause ends; also before "instead of npm", because the two halves make contrary demands."""
TYPED_CLAUSE_END = re.compile(
    rf"{_CLAUSE_END.pattern}|{''.join(f'(?<!{word})' for word in _BEFORE_NOT.split())}(?<=[\w/`\"')])\s+(?=not\s)",
    re.IGNORECASE,
)
"""Pattern of where a typed clause ends; also before a "not" without the comma ("colour not color")."""
TERM = re.compile(r"[\w-]+")
CODE = re.compile(r"`([^`\n]+)`")


def split_sentences(text: str) -> list[str]:
    """Split a text of any script into sentences, but never inside `code`."""
    spans = [code.span() for code in CODE.finditer(text)]
    sentences, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        if not any(begin < end.start() < stop for begin, stop in spans):
            sentences.append(text[start : end.start()])
            start = end.end()
    return [sentence for sentence in map(str.strip, (*sentences, text[start:])) if TERM.search(sentence)]


def split_clauses(sentence: str, end: re.Pattern[str] = _CLAUSE_END) -> list[str]:
    """Split a sentence at commas, colons, brackets and conjunctions, and before a "without" unless it is negated."""
    return [part for clause in end.split(sentence) for part in _split_privative(clause) if TERM.search(part)]


class Polarity(Struct, frozen=True):
    """What in a clause tells whether it demands something or forbids it."""

    negations: int = 0
    """How often the clause negates: 1 for any number of words like "not", and 1 for each word like "without"."""
    omits: bool = False
    """Whether the clause speaks of leaving something out ("skip"), or of not going beyond a limit."""
    intervenes: bool = False
    """Whether the clause speaks of removing something or switching it off."""
    concedes: bool = False
    """Whether the clause says that a condition does not matter ("even if")."""
    is_limited: bool = False
    """Whether the clause names a limit ("at most") or a number."""
    complains: bool = False
    """Whether the clause says what the agent did wrong."""

    @property
    def is_marked(self) -> bool:
        """Whether the clause negates, leaves something out, removes it, or says that a condition does not matter."""
        return bool(self.negations or self.omits or self.intervenes or self.concedes)

    @property
    def reverses(self) -> bool:
        """Whether the clause leaves something out, removes it, or says that a condition does not matter."""
        return self.omits or self.intervenes or self.concedes

    @property
    def forbids(self) -> bool:
        """Whether the clause forbids something; two signs of it cancel each other ("never skip" demands)."""
        return bool((self.negations + (self.omits or self.intervenes)) % 2)

    def allows(self, other: Polarity) -> bool:
        """Return whether a typed clause with these signs supports a clause of a rule with the signs ``other``."""
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
    """Return the signs of demanding or forbidding in a clause, ignoring "if not ..." and a "no" that opens it.

    Several words like "not" count as one, as in most languages; each word like "without" counts on its own.
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
    """What one clause asks for."""

    terms: Mapping[str, float]
    """The clause's words in a basic form, each with its weight: 1 for a word with content, less for common ones."""
    main: frozenset[str]
    """The clause's words, as in ``terms``, without those of a condition ("if ...") or after "before" and "after"."""
    earlier: frozenset[str]
    """The clause's words on what must be done first; empty when it says nothing about order."""
    later: frozenset[str]
    polarity: Polarity
    is_bound: bool
    """Whether the demand holds only on a condition ("if ...")."""
    is_once: bool
    """Whether the demand is for this time only."""
    act: str = ""
    """The verb of a command in its basic form; "" for other clauses, and for verbs such as "write" that go with
    anything."""


def _split_privative(clause: str) -> tuple[str, ...]:
    """Split "do this without that" into two clauses, but not "never do this without that"."""
    found = _PRIVATIVE.search(clause)
    if found is None or _NEGATION.search(clause) or not weigh_terms(clause[: found.start()]):
        return (clause,)
    return clause[: found.start()], clause[found.start() :]


def read_demand(clause: str, sentence: str = "") -> Demand:
    """Return what a clause asks for; its ``sentence`` tells whether it is asked for this time only."""
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
    """Return the main part of a clause, and the part that ``opening``, a word such as "if" or "before", begins."""
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
    """Return the verb of a clause that is a command, in its basic form; "" for others and for verbs like "write"."""
    if UNSPACED.search(main):
        return ""
    start = _PREFACE.match(main)
    found = _WORD.match(main, start.end() if start else 0)
    if found is None or _ACT.match(found[0].casefold()) or _PLURAL.search(found[0]) or _NAME.match(main, found.start()):
        return ""
    return next((term for term, weight in weigh_terms(found[0]).items() if weight == 1 or term in _EFFECTS), "")


_EFFECTS = frozenset(term for word in ("remove", "push", "pull", "move") for term in all_terms(word))
"""Verbs of everyday work, such as "push", that change more than a text, so that the user must have asked for them."""


def weigh_terms(text: str) -> Mapping[str, float]:
    """Return the words of a text in a basic form, by weight: 1 for a content word, less for common and short ones."""
    return {
        term: min(weight, LIGHT) if len(term) <= SHORT_WORD and not UNSPACED.match(term) else weight
        for term, weight in all_terms(text, FUNCTION_WORDS).items()
    }
