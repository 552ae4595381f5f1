"""How the simulated agent reads: a prompt is text, and all it may use is what stands there.

It knows no template. It looks for statements, for words it knows, for what is delimited as an answer, and for the
name of the task or session that a passage belongs to, as these are written in any sensible prompt.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from msgspec import Struct

from skillopt_sleep.domain.text import fold

__all__ = ["Passage", "labelled", "last_line", "occurrences", "owner", "statements"]

BULLET = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+")
OWNER = re.compile(r"\b(?P<what>session|task|request)(?:[ _-]?id)?\W{1,4}(?P<id>\w[\w.:-]*)", re.IGNORECASE)
CHROME = re.compile(r"\s*(?:</?[\w-][^<>]*>|[-=#`~*_]+)?\s*")
"""A line that only delimits: a tag, a rule or fence, or nothing at all."""


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
    for match in _pattern(phrase).finditer(text):
        yield Passage(start=match.start(), end=match.end(), words=match[0])


def owner(text: str, position: int, *kinds: str) -> str:
    """The id that the nearest tag, heading or label before ``position`` gives to one of ``kinds``; "" without one.

    An id has a digit in it, which tells "task t-17" from "the task was".
    """
    before = (match for match in OWNER.finditer(text, 0, position) if match["what"].casefold() in kinds)
    ids = [match["id"] for match in before if any(character.isdigit() for character in match["id"])]
    return ids[-1] if ids else ""


def labelled(text: str, *names: str) -> Iterator[Passage]:
    """What stands between tags, or after a label on its line, whose name holds one of ``names``."""
    for match in _label(names).finditer(text):
        group = "tagged" if match["tagged"] is not None else "line"
        if words := match[group].strip():
            start = match.start(group)
            yield Passage(start=start, end=match.end(group), words=words)


def last_line(text: str) -> str:
    """The last line that says something: in a prompt of one request, the request or its end."""
    return next((line.strip() for line in reversed(text.splitlines()) if not CHROME.fullmatch(line)), "")


@functools.lru_cache(maxsize=4096)
def _pattern(phrase: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, phrase.split())) or r"(?!)", re.IGNORECASE)


@functools.lru_cache(maxsize=64)
def _label(names: tuple[str, ...]) -> re.Pattern[str]:
    name = "|".join(map(re.escape, names))
    tag = rf"<(?P<tag>[\w-]*(?:{name})[\w-]*)[^<>]*>(?P<tagged>.*)</(?P=tag)[^<>]*>"
    line = rf"^[^\S\n]*[-*#]*[^\S\n]*[\w ]*(?:{name})[\w ]*:[^\S\n]*(?P<line>[^\n]+)$"
    return re.compile(f"{tag}|{line}", re.IGNORECASE | re.DOTALL | re.MULTILINE)
