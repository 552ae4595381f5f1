"""How the simulated agent reads: a prompt is text, and all it may use is what stands there.

It knows no template. It looks for statements, for words it knows, for what stands between tags of a telling name, and
for the id of the session or task that a passage belongs to, as these are written in any sensible prompt.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from msgspec import Struct

from skillopt_sleep.domain.words import fold

__all__ = ["Passage", "last_line", "occurrences", "owner", "statements", "tagged"]

BULLET = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+")
DELIMITER = re.compile(r"\s*(?:</?[\w-][^<>]*>|[-=#`~*_]+)?\s*")
"""A line that says nothing: a tag, a rule, a fence, or empty."""


class Passage(Struct, frozen=True, kw_only=True):
    """A stretch of a prompt; ``words`` are exactly what stands there."""

    start: int
    end: int
    words: str


def statements(text: str) -> tuple[str, ...]:
    """The bullets of a text, each with its indented lines, and the other lines one by one; folded."""
    found: list[list[str]] = []
    in_bullet = False
    for line in text.splitlines():
        if BULLET.match(line):
            found.append([line])
            in_bullet = True
        elif in_bullet and line[:1].isspace() and line.strip():
            found[-1].append(line)
        else:
            in_bullet = False
            found.append([line])
    return tuple(statement for lines in found if (statement := fold(" ".join(lines))))


def occurrences(phrase: str, text: str) -> Iterator[Passage]:
    """Every place where the words of ``phrase`` stand in ``text``, whatever the case and white space."""
    if fold(phrase) not in _folded(text):  # most phrases of a world are in no prompt, and looking is quick here
        return
    for match in _words(phrase).finditer(text):
        yield Passage(start=match.start(), end=match.end(), words=match[0])


def tagged(text: str, *names: str) -> Iterator[Passage]:
    """What stands between a pair of tags whose name holds one of ``names``."""
    for match in _between(names).finditer(text):
        yield Passage(start=match.start("words"), end=match.end("words"), words=match["words"].strip())


def owner(text: str, position: int, *kinds: str) -> str:
    """The id that the nearest tag before ``position`` gives to one of ``kinds``, or without tags a label; else "".

    An id has a digit in it, which tells "task t-17" from "the task was".
    """
    for pattern in _owners(kinds):
        ids = [match["id"] for match in pattern.finditer(text, 0, position)]
        if named := [each for each in ids if any(character.isdigit() for character in each)]:
            return named[-1]
    return ""


def last_line(text: str) -> str:
    """The last line that says something: in a prompt of one request, the request or its end."""
    return next((line.strip() for line in reversed(text.splitlines()) if not DELIMITER.fullmatch(line)), "")


@functools.lru_cache(maxsize=64)
def _folded(text: str) -> str:
    return fold(text)


@functools.lru_cache(maxsize=4096)
def _words(phrase: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, phrase.split())) or r"(?!)", re.IGNORECASE)


@functools.lru_cache(maxsize=64)
def _between(names: tuple[str, ...]) -> re.Pattern[str]:
    name = "|".join(map(re.escape, names))
    return re.compile(
        rf"<(?P<tag>[\w-]*(?:{name})[\w-]*)[^<>]*>(?P<words>.*?)</(?P=tag)[^<>]*>", re.IGNORECASE | re.DOTALL
    )


@functools.lru_cache(maxsize=64)
def _owners(kinds: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    kind = "|".join(map(re.escape, kinds))
    tag = rf"""<(?:{kind})\b[^<>]*?\bid\s*=\s*["']?(?P<id>[^"'<>\s]+)"""
    label = rf"""\b(?:{kind})(?:[ _-]?id)?\W{{1,4}}(?P<id>\w[\w.:-]*)"""
    return re.compile(tag, re.IGNORECASE), re.compile(label, re.IGNORECASE)
