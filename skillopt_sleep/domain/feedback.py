"""What a prompt says about the answer before it, by the way people correct and approve, in any subject.

A correction or an approval comes first in what one says, so only the opening is looked at: what follows is pasted
text, or the next request. Where the words leave room for doubt the verdict is neither: that costs a hint, while a
wrong one would teach the wrong lesson.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence

from msgspec import Struct

from skillopt_sleep.domain import cues
from skillopt_sleep.domain.session import Feedback, PromptKind

__all__ = ["label_feedback"]

OPENING = 300
"""Characters in which the words about the last answer stand, if there are any."""

CLAUSES = 3
"""Clauses of the opening that are looked at."""

FULL_STOPS = ("!", "\u3002", "..", ". ", ".\n")
"""What ends a clause, compatibility forms folded; a point within a name does not."""


def label_feedback(prompt: str, previous_final: str, kind: PromptKind, interrupted: bool) -> Feedback:  # noqa: FBT001
    """What ``prompt`` says about the answer ``previous_final`` ("" where there was none).

    ``interrupted`` says that the person stopped the agent just before: what is said then, and is neither a question
    nor "go on", tells what the agent was getting wrong. Words said while refusing a tool call are a correction.
    """
    if kind is PromptKind.REJECTION:
        return Feedback.CORRECTION
    if kind.weak or not (previous_final or interrupted):
        return Feedback.NEITHER
    clauses = list(itertools.islice(_clauses(prompt), CLAUSES))
    return _verdict(clauses, previous_final, interrupted=interrupted) if clauses else Feedback.NEITHER


class _Clause(Struct, frozen=True, kw_only=True):
    """The words up to a full stop, folded, a space before and after each.

    ``bare`` is without what people begin with before they say anything.
    """

    text: str
    bare: str
    words: frozenset[str]
    asks: bool


def _clauses(prompt: str) -> Iterator[_Clause]:
    """The clauses of the opening, up to where pasted text begins."""
    if _PASTED.match(prompt):
        return
    own_words = _PASTE.split(prompt[:OPENING], maxsplit=1)[0]
    for line in _one_a_line(_folded(own_words)):
        if words := _WORD.findall(line):
            text = f" {' '.join(words)} "
            bare, known = _without_fillers(text), frozenset(words)
            asks = line.endswith("?") or bool(cues.ASKS.opening(bare)) or cues.HAS_QUESTION.stand_in(text, known)
            yield _Clause(text=text, bare=bare, words=known, asks=asks)


def _folded(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return folded.replace("'", "").replace("\u2019", "").replace("`", "")


def _one_a_line(text: str) -> list[str]:
    """Folded text cut at its full stops; a question keeps its mark."""
    for stop in FULL_STOPS:
        text = text.replace(stop, "\n")
    return text.replace("?", "?\n").split("\n")


def _without_fillers(text: str) -> str:
    while filler := cues.FILLERS.opening(text):
        text = text[len(filler) - 1 :]
    return text


def _verdict(clauses: Sequence[_Clause], previous_final: str, *, interrupted: bool) -> Feedback:
    first = clauses[0]
    if interrupted and (cues.GOES_ON.opening(first.bare) or cues.GOES_ON.opening(first.text)):
        return Feedback.NEITHER
    if any(_corrects(clause, previous_final, first=clause is first) for clause in clauses):
        return Feedback.CORRECTION
    if interrupted:
        return Feedback.NEITHER if first.asks else Feedback.CORRECTION
    return Feedback.APPROVAL if _approves(first, previous_final) else Feedback.NEITHER


def _corrects(clause: _Clause, answer: str, *, first: bool) -> bool:
    if cues.REFUSES.opening(clause.bare) and not cues.ACCEPTS.opening(clause.bare):
        return True
    if clause.asks or cues.ORDERS.opening(clause.bare):
        return False
    if cues.TAKES_BACK.stand_in(clause.text, clause.words):
        return True
    if first and cues.RESTATES.stand_in(clause.text, clause.words):
        return True
    return cues.FAILED.stand_in(clause.text, clause.words) and _is_about(clause, answer)


def _is_about(clause: _Clause, answer: str) -> bool:
    """Whether a clause points at the answer, or speaks of the same things."""
    if cues.ABOUT_ANSWER.stand_in(clause.text, clause.words):
        return True
    told = set(_LONG_WORD.findall(answer.casefold()))
    return not told.isdisjoint(_LONG_WORD.findall(clause.text))


def _approves(clause: _Clause, answer: str) -> bool:
    if cues.ACCEPTS.opening(clause.bare):
        return True
    if agreed := cues.AGREES.opening(clause.text):
        return not cues.GOES_ELSEWHERE.opening(clause.text[len(agreed) - 1 :])
    if not cues.JOINS_IN.opening(clause.bare):
        return False
    end = answer[-OPENING:].rstrip()
    words = _WORD.findall(_folded(end))
    return end.endswith("?") or cues.INVITES.stand_in(f" {' '.join(words)} ", frozenset(words))


_PASTED = re.compile(r"\s*(?:[\u276f\u279c$%>] |#+ |```|[<{\[](?!Image))")
"""How a prompt begins that is pasted as a whole: a terminal's prompt, a heading, a fence, a tag."""

_PASTE = re.compile(r":[ \t]*\n|\n[`\u276f]")
"""Where pasted text begins after one's own: after a colon at a line's end, at a fence or a terminal's prompt."""

_WORD = re.compile(r"\w+(?:[./]\w+)*")
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")
