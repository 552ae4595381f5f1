"""What a prompt says about the answer before it, by the way people correct and approve, in any subject.

A correction or an approval comes first in what one says, so only the opening is looked at: what follows is pasted
text, or the next request. Where the words leave room for doubt the verdict is neither: that costs a hint, while a
wrong one would teach the wrong lesson.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator

from msgspec import Struct

from skillopt_sleep.domain import cues
from skillopt_sleep.domain.session import Feedback, PromptKind

__all__ = ["label_feedback"]

OPENING = 400
"""Characters in which the words about the last answer stand, if there are any."""

CLAUSES = 3
"""Clauses of the opening that are looked at."""


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
    if not clauses:
        return Feedback.NEITHER
    if any(_corrects(clause, previous_final, first=clause is clauses[0]) for clause in clauses):
        return Feedback.CORRECTION
    if interrupted:
        goes_on = clauses[0].asks or clauses[0].bare.startswith(_GOES_ON) or clauses[0].words.startswith(_GOES_ON)
        return Feedback.NEITHER if goes_on else Feedback.CORRECTION
    return Feedback.APPROVAL if _approves(clauses[0], previous_final) else Feedback.NEITHER


class _Clause(Struct, frozen=True, kw_only=True):
    """The words up to a full stop, folded, a space before and after each.

    ``bare`` is without what people begin with before they say anything.
    """

    words: str
    bare: str
    asks: bool


def _clauses(prompt: str) -> Iterator[_Clause]:
    """The clauses of the opening, up to where pasted text begins."""
    own_words = _PASTE.split(prompt[:OPENING], maxsplit=1)[0]
    parts = [*_FULL_STOP.split(_folded(own_words)), ""]
    for part, stop in zip(parts[::2], parts[1::2], strict=True):
        words = _spaced(part)
        if words:
            bare = _without_fillers(words)
            asks = "?" in stop or bare.startswith(_ASKS) or _says(words, _HAS_QUESTION)
            yield _Clause(words=words, bare=bare, asks=asks)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().translate(_APOSTROPHES)


def _spaced(text: str) -> str:
    words = _WORD.findall(text)
    return f" {' '.join(words)} " if words else ""


def _without_fillers(words: str) -> str:
    while filler := next((filler for filler in _FILLERS if words.startswith(filler)), ""):
        words = words[len(filler) - 1 :]
    return words


def _says(words: str, cues_of: tuple[str, ...]) -> bool:
    return any(cue in words for cue in cues_of)


def _corrects(clause: _Clause, answer: str, *, first: bool) -> bool:
    if clause.bare.startswith(_REFUSES) and not clause.bare.startswith(_ACCEPTS):
        return True
    if clause.asks or clause.bare.startswith(_ORDERS):
        return False
    if _says(clause.words, _TAKES_BACK) or (first and _says(clause.words, _RESTATES)):
        return True
    failed = _says(clause.words, _FAILED) or (_says(clause.words, _DENIALS) and _says(clause.words, _DENIED))
    return failed and _is_about(clause, answer)


def _is_about(clause: _Clause, answer: str) -> bool:
    """Whether a clause points at the answer, or speaks of the same things."""
    if _says(clause.words, _ABOUT_ANSWER):
        return True
    told = set(_LONG_WORD.findall(answer.casefold()))
    return not told.isdisjoint(_LONG_WORD.findall(clause.words))


def _approves(clause: _Clause, answer: str) -> bool:
    if clause.bare.startswith(_ACCEPTS):
        return True
    if agreed := next((cue for cue in _AGREES if clause.words.startswith(cue)), ""):
        return not clause.words[len(agreed) - 1 :].startswith(_GOES_ELSEWHERE)
    if not clause.bare.startswith(_JOINS_IN):
        return False
    end = answer[-OPENING:]
    return end.rstrip().endswith("?") or _says(_spaced(_folded(end)), _INVITES)


_APOSTROPHES = str.maketrans(dict.fromkeys("'\u2018\u2019`"))
_PASTE = re.compile(r"\A\s*[\u276f\u279c$%>#`<{\[]|:[ \t]*\n|\n```|\n\u276f")
"""Where pasted text begins: at a terminal's prompt, a heading, a fence or a tag, or after a colon at a line's end."""

_FULL_STOP = re.compile(r"((?:[?!\n\u2026\u3002]|\.{2,}|\.(?!\w))+)")
_WORD = re.compile(r"\w+(?:[./]\w+)*")
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")

_ABOUT_ANSWER = cues.phrases(cues.ABOUT_ANSWER)
_ACCEPTS = cues.openers(cues.ACCEPTS)
_AGREES = cues.openers(cues.AGREES)
_ASKS = cues.openers(cues.ASKS)
_DENIALS = cues.phrases(cues.DENIALS)
_DENIED = cues.phrases(cues.DENIED)
_FAILED = cues.phrases(cues.FAILED)
_FILLERS = cues.openers(cues.FILLERS)
_GOES_ELSEWHERE = cues.openers(cues.GOES_ELSEWHERE)
_GOES_ON = cues.openers(cues.GOES_ON)
_HAS_QUESTION = cues.phrases(cues.HAS_QUESTION)
_INVITES = cues.phrases(cues.INVITES)
_JOINS_IN = cues.openers(cues.JOINS_IN)
_ORDERS = cues.openers(cues.ORDERS)
_REFUSES = cues.openers(cues.REFUSES)
_RESTATES = cues.phrases(cues.RESTATES)
_TAKES_BACK = cues.phrases(cues.TAKES_BACK)
