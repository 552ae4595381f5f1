"""Labels what a prompt says about the answer before it: a correction, an approval, or neither.

Feedback comes first in what a person writes, so only the opening is read: pasted text or the next request follows.
The phrases (``feedback.toml``) belong to no subject. In doubt the label is neither: that loses a hint, while a wrong
label would teach the wrong lesson.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from msgspec import Struct, toml

from skillopt_sleep.model.session import Feedback, PromptKind

OPENING = 300
"""Characters in which feedback about the last answer is looked for."""

CLAUSES = 3
"""Clauses of the opening that are looked at."""

FULL_STOPS = ("!", "\u3002", "..", ". ", ".\n")
"""What ends a clause, once compatibility forms are folded; the dot of a file name does not."""

_PASTED = re.compile(r"\s*(?:[\u276f\u279c$%>] |#+ |```|[<{\[](?!Image))")
"""How a prompt begins that is pasted as a whole: a terminal's prompt, a heading, a fence, a tag."""

_PASTE = re.compile(r":[ \t]*\n|\n[`\u276f]")
"""Where pasted text begins after one's own: after a colon at a line's end, at a fence or a terminal's prompt."""

_WORD = re.compile(r"\w+(?:[./]\w+)*")
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")
_PHRASE = re.compile(r"(?:\{[^}]*\}|[^;\n{])+")
_ALTERNATIVES = re.compile(r"\{([^}]*)\}")


def label_feedback(prompt: str, previous_final: str, kind: PromptKind, interrupted: bool) -> Feedback:  # noqa: FBT001
    """Return what ``prompt`` says about the answer ``previous_final`` ("" when there was none).

    ``interrupted``: the person stopped the agent just before. What they write then is a correction, unless it is a
    question or "go on". Words typed while refusing a tool call are always a correction.
    """
    if kind is PromptKind.REJECTION:
        return Feedback.CORRECTION
    if kind.weak or not (previous_final or interrupted):
        return Feedback.NEITHER
    clauses = list(itertools.islice(_split_clauses(prompt), CLAUSES))
    return _label_clauses(clauses, previous_final, interrupted=interrupted) if clauses else Feedback.NEITHER


def _label_clauses(clauses: Sequence[_Clause], previous_final: str, *, interrupted: bool) -> Feedback:
    first, goes_on = clauses[0], _load_phrases().goes_on
    if interrupted and (goes_on.find_opening(first.bare) or goes_on.find_opening(first.text)):
        return Feedback.NEITHER
    if any(_is_correction(clause, previous_final, is_first=clause is first) for clause in clauses):
        return Feedback.CORRECTION
    if interrupted:
        return Feedback.NEITHER if first.asks else Feedback.CORRECTION
    return Feedback.APPROVAL if _is_approval(first, previous_final) else Feedback.NEITHER


class PhraseTable:
    """A table of phrases, looked up by their first word; ``feedback.toml`` explains the notation.

    Clauses are given as words with a space before and after each. Phrases of scripts that write no spaces are found
    anywhere in a clause.
    """

    def __init__(self, table: str) -> None:
        phrases = [" ".join(phrase.split()) for raw in _PHRASE.findall(table) for phrase in _expand(raw)]
        by_first: defaultdict[str, list[str]] = defaultdict(list)
        for phrase in filter(_has_spaces, phrases):
            by_first[phrase.partition(" ")[0]].append(f" {phrase} ")
        self._by_first = dict(by_first)
        self._firsts = frozenset(by_first)
        self._unspaced = tuple(phrase for phrase in phrases if phrase and not _has_spaces(phrase))

    def find_opening(self, clause: str) -> str:
        """Return the phrase that the clause begins with, "" when none does."""
        first = clause[1 : clause.find(" ", 1)]
        for phrase in self._by_first.get(first, ()):
            if clause.startswith(phrase):
                return phrase
        if not clause.startswith(self._unspaced, 1):
            return ""
        return next(f" {phrase}" for phrase in self._unspaced if clause.startswith(phrase, 1))

    def occurs_in(self, clause: str, words: AbstractSet[str]) -> bool:
        """Tell whether one of the phrases occurs anywhere in the clause; ``words`` are its words."""
        for word in words & self._firsts:
            if any(phrase in clause for phrase in self._by_first[word]):
                return True
        return not clause.isascii() and any(phrase in clause for phrase in self._unspaced)


class _Phrases(Struct, frozen=True, kw_only=True):
    """The tables of ``feedback.toml``."""

    refuses: PhraseTable
    takes_back: PhraseTable
    restates: PhraseTable
    failed: PhraseTable
    about_answer: PhraseTable
    orders: PhraseTable
    accepts: PhraseTable
    agrees: PhraseTable
    goes_elsewhere: PhraseTable
    joins_in: PhraseTable
    invites: PhraseTable
    goes_on: PhraseTable
    asks: PhraseTable
    has_question: PhraseTable
    fillers: PhraseTable


@functools.cache
def _load_phrases() -> _Phrases:
    text = Path(__file__).with_name("feedback.toml").read_text(encoding="utf-8")
    tables = toml.decode(text, type=dict[str, str])
    return _Phrases(**{name: PhraseTable(table) for name, table in tables.items()})


def _expand(raw: str) -> Iterator[str]:
    """Yield the phrases that ``{a|b} c`` stands for, without apostrophes and hyphens."""
    parts = _ALTERNATIVES.split(raw.replace("'", "").replace("-", " "))
    choices = [part.split("|") if number % 2 else [part] for number, part in enumerate(parts)]
    return map("".join, itertools.product(*choices))


def _has_spaces(phrase: str) -> bool:
    """Tell whether the phrase's script separates words by spaces."""
    return "" < phrase[-1:] < "\u2e80"


class _Clause(Struct, frozen=True, kw_only=True):
    """The words up to a full stop, folded, with a space before and after each."""

    text: str
    bare: str
    """The text without leading fillers such as "ok" or "hey"."""
    words: frozenset[str]
    asks: bool


def _split_clauses(prompt: str) -> Iterator[_Clause]:
    """Yield the clauses of the opening, up to where pasted text begins."""
    if _PASTED.match(prompt):
        return
    phrases = _load_phrases()
    text = _fold(_PASTE.split(prompt[:OPENING], maxsplit=1)[0])
    for stop in FULL_STOPS:
        text = text.replace(stop, "\n")
    for line in text.replace("?", "?\n").split("\n"):
        if words := _WORD.findall(line):
            spaced = f" {' '.join(words)} "
            bare = spaced
            while filler := phrases.fillers.find_opening(bare):
                bare = bare[len(filler) - 1 :]
            known = frozenset(words)
            asks = (
                line.endswith("?")
                or bool(phrases.asks.find_opening(bare))
                or phrases.has_question.occurs_in(spaced, known)
            )
            yield _Clause(text=spaced, bare=bare, words=known, asks=asks)


def _fold(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return folded.replace("'", "").replace("\u2019", "").replace("`", "")


def _is_correction(clause: _Clause, answer: str, *, is_first: bool) -> bool:
    phrases = _load_phrases()
    if phrases.refuses.find_opening(clause.bare) and not phrases.accepts.find_opening(clause.bare):
        return True
    if clause.asks or phrases.orders.find_opening(clause.bare):
        return False
    if phrases.takes_back.occurs_in(clause.text, clause.words):
        return True
    if is_first and phrases.restates.occurs_in(clause.text, clause.words):
        return True
    return phrases.failed.occurs_in(clause.text, clause.words) and _is_about(clause, answer)


def _is_about(clause: _Clause, answer: str) -> bool:
    """Tell whether a clause refers to the answer, or shares a long word with it."""
    if _load_phrases().about_answer.occurs_in(clause.text, clause.words):
        return True
    return not set(_LONG_WORD.findall(answer.casefold())).isdisjoint(_LONG_WORD.findall(clause.text))


def _is_approval(clause: _Clause, answer: str) -> bool:
    phrases = _load_phrases()
    if phrases.accepts.find_opening(clause.bare):
        return True
    if agreed := phrases.agrees.find_opening(clause.text):
        return not phrases.goes_elsewhere.find_opening(clause.text[len(agreed) - 1 :])
    if not phrases.joins_in.find_opening(clause.bare):
        return False
    end = answer[-OPENING:].rstrip()
    words = _WORD.findall(_fold(end))
    return end.endswith("?") or phrases.invites.occurs_in(f" {' '.join(words)} ", frozenset(words))
