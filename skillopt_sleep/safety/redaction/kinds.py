"""Describe kinds of secrets: the words that announce one, and a function that looks at each place of these words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, cast

from skillopt_sleep.safety.redaction.looks import is_mixed, is_random

EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=%25[0-9A-Fa-f]{2}))"
"""The beginning of a word, also after the escape of a letter or digit, and after a percent escape of a URL."""

QUOTE = r"\\?[\"'`]"
"""The quote of a string, or of one inside a string."""

LINE = r"\\?\r?\n[ \t]{0,40}"
"""The end of a line, and the blanks at the front of the next one."""

REMEMBERED = 120
"""Characters from which on it is remembered that a match is no secret."""

MOST_PARTS = 40
LEAST_PART = 12
"""Least characters of the continuation of a key with a variable length."""
LONG_PART = 20


class Found(NamedTuple):
    """A secret at ``text[start:stop]``. ``kind`` names its placeholder.

    Without a kind it is a long match that is no secret: its kind is not searched again before ``end``, so that time
    stays linear.
    """

    kind: str
    start: int
    stop: int
    end: int


class Kind(NamedTuple):
    """One kind of secret."""

    words: tuple[str, ...]
    """Lower-case words of which every text with such a secret contains one."""
    find: Callable[[str, int, int], Found | None]
    """Called with the text and the start and end of such a word, in any case."""


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
    """Return a pattern that is compiled when it is first used: hundreds of them would slow down every start."""
    return cast("re.Pattern[str]", _Lazy(pattern, flags))


_JOINED = rf"(?:[ \t]{{0,8}}[+.&]?[ \t]{{0,4}}_?{LINE}[+.&]?|[ \t]{{0,8}}[+.&])[ \t]{{0,4}}"
_CONTINUED = lazy(
    rf"(?:{LINE}|{QUOTE}{_JOINED}[brf]?{QUOTE})(?P<rest>[\w.+/=-]{{4,4000}})"
    r"(?P<ends>[ \t]*(?:\\?[\"'`;,)]|\\?\r?\n|\Z))?"
)
"""What separates the halves of a key, and the second half, up to the end of a line or string."""


def find_end(text: str, end: int) -> int:
    """Return the end of a key that may continue in the next line, as an added string or after a line break.

    The rest must look random and be alone in its line.
    """
    for _ in range(MOST_PARTS):
        rest = _CONTINUED.match(text, end)
        if rest is None or rest["ends"] is None or not _is_rest(rest["rest"]):
            break
        end = rest.end("rest")
    return end


def join_parts(text: str, end: int) -> tuple[str, int] | None:
    """Return what continues at the end of a line or string, and where it begins; None when nothing does."""
    rest = _CONTINUED.match(text, end)
    return (rest["rest"], rest.start("rest")) if rest else None


def _is_rest(value: str) -> bool:
    sorts = (str.isdigit, str.isupper, str.islower)
    mixed = len(value) >= LEAST_PART and all(any(map(sort, value)) for sort in sorts)
    return mixed and (len(value) < LONG_PART or is_random(value))


def reject(start: int, end: int) -> Found | None:
    """Return what to remember of a match that is no secret: None unless it is long."""
    return Found("", start, start, end) if end - start > REMEMBERED else None


def is_opaque(value: str) -> bool:
    """Tell whether a value has capitals, small letters and digits."""
    return is_mixed(value) and any(map(str.isupper, value)) and any(map(str.islower, value))


PLACEHOLDER = r"\[redacted:[\w-]+:[0-9a-f]{6}\]"
