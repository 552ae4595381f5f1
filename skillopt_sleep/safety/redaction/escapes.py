"""A text as it reads: without the escapes of JSON and HTML, the colours of a terminal, the marks in front of its lines.

A secret is often inside a string that is inside a string, or in the lines of a diff or a listing. Here, and only here, it
is decided what of a text is that; every kind of secret looks at the text as it reads. Whatever is found there leads back
to the text as it stands, and takes an escape as a whole or not at all, so that JSON stays JSON.
"""

from __future__ import annotations

import html
import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

_ENTITY = r"&(?:[lr][sd]quo|quot|apos|amp|lt|gt|nbsp|#[0-9]{2,3}|#[xX][0-9a-fA-F]{2});"
_COLOUR = r"\[[0-9;?]{0,16}[A-Za-z]"
_ESCAPE = re.compile(
    rf"([\\&<\x1b](?:(?<=&){_ENTITY[1:]}|(?<=<)br[ ]?/?>|(?<=\x1b){_COLOUR}"
    rf"|(?<=\\)(?<!\\\\)(?:\\++[\"'`]|\\*+(?:[nrt/]|{_ENTITY}|(?:x1[bB]|u001[bB]|033|e){_COLOUR}|x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}"
    r"|U[0-9a-fA-F]{8}|0[0-7]{2}))))"
)
_MARK = re.compile(
    r"(\n(?:[ \t]{0,24}+(?:(?:[>#*|]|//)(?=[ \t\n])|[0-9]{1,6}+[:|\t\u2192]|(?=[A-Za-z])[\w./-]{1,80}+:[0-9]{1,6}:)[ ]?|\+|-(?=[ \t]{2})){1,3})"
)
"""Of a diff, a quotation, a comment, a table, a listing, the output of a search."""
MOST_ASCII = 126
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_SPELLED = str.maketrans("\xa0\u2018\u2019\u201c\u201d", " ''\"\"")
_ENDS = "\n\r\t "
_QUOTES = "\"'`"


class Reading(NamedTuple):
    """The ``text`` as it reads; ``reads`` and ``stands`` are where each piece of it begins there, and in the original.

    Pieces are an unescaped stretch and an escape by turns.
    """

    text: str
    reads: Sequence[int]
    stands: Sequence[int]

    def original(self, start: int, stop: int) -> tuple[int, int]:
        """Where in the original the characters from ``start`` to ``stop`` are written."""
        if not self.reads:
            return start, stop
        return self._place(start), self._place(stop - 1, end=True)

    def without(self, places: Sequence[tuple[int, int]], marks: Sequence[str]) -> Reading:
        """The same with a mark in each of these places; what is told of the way back leads to this reading."""
        edges = [0, *itertools.chain.from_iterable(places), len(self.text)]
        pieces = [self.text[start:stop] for start, stop in itertools.pairwise(edges)]
        pieces[1::2] = marks
        return Reading("".join(pieces), [0, *itertools.accumulate(map(len, pieces))], edges)

    def _place(self, at: int, *, end: bool = False) -> int:
        piece = bisect_right(self.reads, at) - 1
        if piece % 2:
            return self.stands[piece + end]
        return self.stands[piece] + at - self.reads[piece] + end


def read(text: str) -> Reading:
    """The text as it reads.

    Where strings are within strings, a quote that is escaped has just one backslash, and so has the end of a line that
    a backslash continues.
    """
    if not any(sign in text for sign in ("\\", "&", "<br", "\x1b")):
        return Reading(text, (), ())
    return _reading(_ESCAPE.split(text), text, _reads)


def unmarked(text: str) -> Reading:
    """The text without the marks in front of its lines."""
    return _reading(_MARK.split(text), text, lambda _: "\n")


def _reading(pieces: list[str], text: str, reads: Callable[[str], str]) -> Reading:
    """Of pieces of which every second one reads otherwise."""
    if len(pieces) == 1:
        return Reading(text, (), ())
    stands = [0, *itertools.accumulate(map(len, pieces))]
    pieces[1::2] = map(reads, pieces[1::2])
    return Reading("".join(pieces), [0, *itertools.accumulate(map(len, pieces))], stands)


@lru_cache(maxsize=4096)
def _reads(escape: str) -> str:
    rest = escape.lstrip("\\")
    if rest.startswith("&"):
        return _plain(ord(html.unescape(rest).translate(_SPELLED)), escape)
    if rest.startswith("<"):
        return "\n"
    if "[" in rest:
        return " "
    count = len(escape) - len(rest)
    if rest in _LETTERS:
        continues = count & (count - 1) != 0 and rest != "t"  # each string around doubles the backslashes
        return "\\" * continues + _LETTERS[rest]
    if len(rest) == 1:
        return "\\" + rest if rest in _QUOTES else rest
    return _plain(int(rest, 8) if rest.isdigit() else int(rest[1:], 16), escape)


def _plain(code: int, escape: str) -> str:
    """The character with a code; the escape itself where the character is none to be read."""
    if code > MOST_ASCII or chr(code) == "\\":
        return escape
    char = chr(code)
    return "\\" + char if char in _QUOTES else char if char in _ENDS or char.isprintable() else escape
