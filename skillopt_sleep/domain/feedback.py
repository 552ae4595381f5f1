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
        goes_on = clauses[0].asks or _GOES_ON.match(clauses[0].bare)
        return Feedback.NEITHER if goes_on else Feedback.CORRECTION
    return Feedback.APPROVAL if _approves(clauses[0], previous_final) else Feedback.NEITHER


class _Clause(Struct, frozen=True, kw_only=True):
    """Words up to a full stop, folded; ``bare`` is without what people begin with before they say anything."""

    words: str
    bare: str
    asks: bool


def _clauses(prompt: str) -> Iterator[_Clause]:
    """The clauses of the opening, up to where pasted text begins."""
    own_words = _PASTE.split(prompt[:OPENING], maxsplit=1)[0]
    folded = unicodedata.normalize("NFKC", own_words).casefold().translate(_PLAIN)
    parts = [*_FULL_STOP.split(folded), ""]
    for part, stop in zip(parts[::2], parts[1::2], strict=True):
        if words := part.strip(_TRIM):
            bare = _FILLERS.sub("", words)
            yield _Clause(words=words, bare=bare, asks="?" in stop or bool(_ASKS.match(bare)) or "question" in words)


def _corrects(clause: _Clause, answer: str, *, first: bool) -> bool:
    if _REFUSES.match(clause.bare) and not _ACCEPTS.match(clause.bare):
        return True
    if clause.asks or _ORDERS.match(clause.bare):
        return False
    if _TAKES_BACK.search(clause.words) or (first and _RESTATES.search(clause.words)):
        return True
    return bool(_FAILED.search(clause.words)) and _is_about(clause, answer)


def _is_about(clause: _Clause, answer: str) -> bool:
    """Whether a clause points at the answer, or speaks of the same things."""
    if _ABOUT_ANSWER.search(clause.words):
        return True
    told = set(_LONG_WORD.findall(answer.casefold()))
    return not told.isdisjoint(_LONG_WORD.findall(clause.words))


def _approves(clause: _Clause, answer: str) -> bool:
    if _ACCEPTS.match(clause.bare):
        return True
    if agreed := _AGREES.match(clause.words):
        return not _GOES_ELSEWHERE.match(clause.words[agreed.end() :].lstrip(_TRIM))
    return bool(_JOINS_IN.match(clause.bare)) and (
        answer.rstrip().endswith("?") or bool(_INVITES.search(answer.casefold()))
    )


_PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "`": None})
_TRIM = " \t,:;-\u2013\u2014()\"'*>"
_PASTE = re.compile(r"\A\s*[\u276f\u279c$%>#`<{\[]|:[ \t]*\n|\n```|\n\u276f")
"""Where pasted text begins: at a terminal's prompt, a heading, a fence or a tag, or after a colon at a line's end."""

_FULL_STOP = re.compile(r"((?:[?!\n\u2026\u3002]|\.(?!\w)|\.{2,})+)")
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")
_FILLERS = re.compile(rf"(?:(?:{cues.opens_with(cues.FILLERS).pattern})[\s,.:-]*)+")

_ABOUT_ANSWER = cues.says(cues.ABOUT_ANSWER)
_ACCEPTS = cues.opens_with(cues.ACCEPTS)
_AGREES = cues.opens_with(cues.AGREES)
_ASKS = cues.opens_with(cues.ASKS)
_FAILED = cues.says(cues.FAILED)
_GOES_ELSEWHERE = cues.opens_with(cues.GOES_ELSEWHERE)
_GOES_ON = cues.opens_with(cues.GOES_ON)
_INVITES = cues.says(cues.INVITES)
_JOINS_IN = cues.opens_with(cues.JOINS_IN)
_ORDERS = cues.opens_with(cues.ORDERS)
_REFUSES = cues.opens_with(cues.REFUSES)
_RESTATES = cues.says(cues.RESTATES)
_TAKES_BACK = cues.says(cues.TAKES_BACK)
