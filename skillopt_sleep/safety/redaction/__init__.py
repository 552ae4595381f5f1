"""Redaction: remove secrets from a text before it is stored or sent anywhere.

Session files contain whatever was pasted into them. Every text is redacted once, at harvest, so that later code need
not care; prompts, replies and reports are redacted once more. A secret becomes ``[redacted:kind:1a2b3c]``. The same
secret always gets the same placeholder, so that texts about it stay readable; its six hex digits are part of a digest
and do not reveal the secret.

A text is read without escapes, colours and marks of lines, and searched for the words that announce secrets
(``reading``). A kind of secret has such words and a function that examines each of their places: some kinds are
recognised by their own form (``shapes``, ``key_blocks``), others by their surroundings (``names``, ``pairs``,
``arguments``, ``prose``), where the form of the value decides (``values``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=%25[0-9A-Fa-f]{2}))"
"""The pattern of a word's beginning, also after the escape of a letter or digit, or a percent escape of a URL."""
QUOTE = r"\\?[\"'`]"
"""The pattern of the quote of a string, or of a string inside a string."""
LINE = r"\\?\r?\n[ \t]{0,40}"
"""The pattern of the end of a line and the blanks at the front of the next line."""
SHARED = {"WORD_EDGE": EDGE, "ANY_QUOTE": QUOTE, "LINE_END": LINE}

REMEMBERED = 120
"""The length in characters above which a match that is no secret is remembered, to skip it later."""


class Found(NamedTuple):
    """A secret at ``text[start:stop]``. ``kind`` names its placeholder.

    With an empty ``kind`` it is a long match that is no secret: the search for the same kind of secret skips it and
    goes on at ``end``, so that the time stays linear.
    """

    kind: str
    start: int
    stop: int
    end: int


class Kind(NamedTuple):
    """One kind of secret: the words that announce it, and the function that finds it."""

    words: tuple[str, ...]
    """Lower-case words; every text with a secret of this kind contains at least one of them."""
    find: Callable[[str, int, int], Found | None]
    """The function that finds a secret, given the text and the start and end of one of ``words``, in any case."""
    in_plain_words: bool = True
    """Whether a secret of this kind may occur in a sentence that has only plain words after the announcing word."""


class _Lazy:
    """A pattern that is compiled when it is first used."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self.flags = pattern, flags

    def __getattr__(self, name: str) -> object:
        compiled = re.compile(self.pattern, self.flags)
        self.__dict__ |= {
            name: getattr(compiled, name)
            for name in ("match", "search", "fullmatch", "finditer", "findall", "split", "sub")
        }
        return getattr(compiled, name)


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at its first use, because compiling hundreds would slow down every start."""
    return cast("re.Pattern[str]", _Lazy(pattern, flags))


class Patterns:
    """The patterns of one section of ``patterns.toml``, each compiled when it is first used."""

    def __init__(self, section: str) -> None:
        self._section = section

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if name.startswith("_"):
            raise AttributeError(name)
        compiled = re.compile(_expand(name, self._section))
        self.__dict__[name] = compiled
        return compiled


def read_section(section: str) -> dict[str, re.Pattern[str]]:
    """Return all patterns of a section by name, each compiled when it is first used."""
    return {name: lazy(_expand(name, section)) for name in _read_patterns()[section]}


def _expand(name: str, section: str) -> str:
    """Return a pattern of a section, with each name of another pattern in it replaced by that pattern."""
    known = _read_patterns()
    pattern = known[section].get(name) or known["shared"].get(name) or SHARED[name]
    return _FRAGMENT.sub(lambda fragment: _expand(fragment["name"], section), pattern)


@cache
def _read_patterns() -> Mapping[str, Mapping[str, str]]:
    content = Path(__file__).with_name("patterns.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, dict[str, str]])


_FRAGMENT = re.compile(r"(?<!\?P)<(?P<name>[A-Z_]{1,20})>")


def reject(start: int, end: int) -> Found | None:
    """Return a record of a match that is no secret, so that it is skipped later, or None for a short match."""
    return Found("", start, start, end) if end - start > REMEMBERED else None


PLACEHOLDER = r"\[redacted:[\w-]+:[0-9a-f]{6}\]"
