"""Find words in a text, however many there are to look for, in one pass.

Few texts contain a word that announces a secret, and only those places are looked at. Where the ``hyperscan`` library has
no build, a slower pattern finds the same words.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

try:
    _library: Any = importlib.import_module("hyperscan")
except ImportError:  # pragma: no cover -- a machine that the library is not built for
    _library = None


class _Word(NamedTuple):
    text: str
    numbers: Sequence[int]


class Words:
    """Lower-case words, each with the numbers of what is to be looked for at its places."""

    def __init__(self, numbers: Mapping[str, Sequence[int]], *, by_pattern: bool = False) -> None:
        spelt = {form: found for word, found in numbers.items() for form in _spell(word)}
        self._words = tuple(_Word(form, found) for form, found in spelt.items())
        self._by_pattern = by_pattern or _library is None
        self._thread = threading.local()
        self._lock = threading.Lock()

    def find(self, text: str) -> Iterator[tuple[int, int, Sequence[int]]]:
        """Yield the start, the end and the numbers of every word in a text, in any case, also where they overlap."""
        if self._by_pattern:
            for match in self._pattern.finditer(text):
                for word in self._beginnings[_lower(match[1])]:
                    yield match.start(), match.start() + len(word.text), word.numbers
            return
        data = text.encode("utf-8", "replace")
        matches: list[tuple[int, int]] = []
        self._database.scan(
            data, lambda number, _from, to, _flags, _context: matches.append((number, to)), scratch=self._scratch()
        )
        wide = len(data) != len(text)
        before = end = 0
        for number, to in sorted(matches, key=itemgetter(1)):
            end = end + len(data[before:to].decode("utf-8", "ignore")) if wide else to
            before = to
            word = self._words[number]
            yield end - len(word.text), end, word.numbers

    @cached_property
    def _database(self) -> Any:  # noqa: ANN401 -- the library is optional, so it has no types here
        database = _library.Database()
        forms = [word.text.encode() for word in self._words]
        flags = [_library.HS_FLAG_CASELESS] * len(forms)
        database.compile(expressions=[re.escape(form) for form in forms], ids=[*range(len(forms))], flags=flags)
        return database

    def _scratch(self) -> Any:  # noqa: ANN401 -- as above
        """Return the working memory of this thread: two scans must not share any."""
        with self._lock:
            if not hasattr(self._thread, "scratch"):
                self._thread.scratch = self._database.scratch.clone()
        return self._thread.scratch

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        ordered = sorted((word.text for word in self._words), key=len, reverse=True)
        return re.compile(f"(?=({'|'.join(map(re.escape, ordered))}))", re.IGNORECASE | re.ASCII)

    @cached_property
    def _beginnings(self) -> Mapping[str, Sequence[_Word]]:
        """The words that a word begins with, itself among them."""
        return {
            _lower(word.text): [other for other in self._words if _lower(word.text).startswith(_lower(other.text))]
            for word in self._words
        }


def _spell(word: str) -> set[str]:
    """Return the spellings of a word: outside of ASCII, small and capital letters are different words."""
    return {word} if word.isascii() else {word, word.capitalize(), word.upper()}


def _lower(word: str) -> str:
    """Return a word with small letters in ASCII, and the others as they are."""
    return "".join(c.lower() if c.isascii() else c for c in word)
