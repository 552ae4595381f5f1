"""Read a text without its escapes: those of JSON and HTML, terminal colours, and the marks in front of its lines.

A secret is often inside a string that is inside a string, or in the lines of a diff or a listing. Only this module
decides what of a text is an escape; every kind of secret looks at the text as it reads. What is found there leads back
to the original, and includes an escape as a whole or not at all, so that JSON stays JSON.
"""

from __future__ import annotations

import html
import itertools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from skillopt_sleep.safety.redaction.kinds import lazy

_ENTITY = r"&(?:[lr][sd]quo|quot|apos|amp|lt|gt|nbsp|#[0-9]{2,3}|#[xX][0-9a-fA-F]{2});"
_COLOUR = r"\[[0-9;?]{0,16}[A-Za-z]"
_ESCAPE = lazy(
    rf"([\\&<\x1b](?:(?<=&){_ENTITY[1:]}|(?<=<)br[ ]?/?>|(?<=\x1b){_COLOUR}"
    rf"|(?<=\\)(?<!\\\\)(?:\\++[\"'`]|\\*+(?:[nrt/]|{_ENTITY}|(?:x1[bB]|u001[bB]|033|e){_COLOUR}|x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}"
    r"|U[0-9a-fA-F]{8}|0[0-7]{2}))))"
)
_MARK = lazy(
    r"(\n(?:[ \t]{0,24}+(?:(?:[>#*|]|//)(?=[ \t\n])|[0-9]{1,6}+[:|\t\u2192]|(?=[A-Za-z])[\w./-]{1,80}+:[0-9]{1,6}:)[ ]?|\+|-(?=[ \t]{2})){1,3})"
)
"""Marks of a diff, a quotation, a comment, a table, a listing, the output of a search."""
MOST_ASCII = 126
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_SPELLED = str.maketrans("\xa0\u2018\u2019\u201c\u201d", " ''\"\"")
_ENDS = "\n\r\t "
_QUOTES = "\"'`"


class Reading(NamedTuple):
    """A text as it reads, in pieces that are alternately plain text and an escape."""

    text: str
    reads: Sequence[int]
    """Where each piece begins in ``text``."""
    stands: Sequence[int]
    """Where each piece begins in the original."""

    def locate(self, start: int, stop: int) -> tuple[int, int]:
        """Return where the characters from ``start`` to ``stop`` are in the original."""
        if not self.reads:
            return start, stop
        return self._place(start), self._place(stop - 1, end=True)

    def replace(self, places: Sequence[tuple[int, int]], marks: Sequence[str]) -> Reading:
        """Return a reading with a mark in each of these places; its original is this reading."""
        edges = [0, *itertools.chain.from_iterable(places), len(self.text)]
        pieces = [self.text[start:stop] for start, stop in itertools.pairwise(edges)]
        pieces[1::2] = marks
        return Reading("".join(pieces), [0, *itertools.accumulate(map(len, pieces))], edges)

    def _place(self, at: int, *, end: bool = False) -> int:
        piece = bisect_right(self.reads, at) - 1
        if piece % 2:
            return self.stands[piece + end]
        return self.stands[piece] + at - self.reads[piece] + end


def unescape(text: str) -> Reading:
    """Return the text as it reads.

    However deeply strings are nested, an escaped quote keeps one backslash, and so does a continued end of a line.
    """
    if not any(sign in text for sign in ("\\", "&", "<br", "\x1b")):
        return Reading(text, (), ())
    return _build_reading(_ESCAPE.split(text), text, _read_escape)


def strip_line_marks(text: str) -> Reading:
    """Return the text without the marks in front of its lines."""
    return _build_reading(_MARK.split(text), text, lambda _: "\n")


def _build_reading(pieces: list[str], text: str, read: Callable[[str], str]) -> Reading:
    """Build the reading of pieces of which every second one is an escape."""
    if len(pieces) == 1:
        return Reading(text, (), ())
    stands = [0, *itertools.accumulate(map(len, pieces))]
    pieces[1::2] = map(read, pieces[1::2])
    return Reading("".join(pieces), [0, *itertools.accumulate(map(len, pieces))], stands)


@lru_cache(maxsize=4096)
def _read_escape(escape: str) -> str:
    rest = escape.lstrip("\\")
    if rest.startswith("&"):
        return _decode(ord(html.unescape(rest).translate(_SPELLED)), escape)
    if rest.startswith("<"):
        return "\n"
    if "[" in rest:
        return " "
    count = len(escape) - len(rest)
    if rest in _LETTERS:
        continues = count & (count - 1) != 0 and rest != "t"  # each outer string doubles the backslashes
        return "\\" * continues + _LETTERS[rest]
    if len(rest) == 1:
        return "\\" + rest if rest in _QUOTES else rest
    return _decode(int(rest, 8) if rest.isdigit() else int(rest[1:], 16), escape)


def _decode(code: int, escape: str) -> str:
    """Return the character with this code; the escape itself if it is not a printable one."""
    if code > MOST_ASCII or chr(code) == "\\":
        return escape
    char = chr(code)
    return "\\" + char if char in _QUOTES else char if char in _ENDS or char.isprintable() else escape
