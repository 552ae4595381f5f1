"""Describe kinds of secrets, and search a text for all of them in one walk.

A kind has a sign that few texts contain, and a function that looks at each place with that sign. The signs of all kinds
are one pattern.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=%25[0-9A-Fa-f]{2}))"
"""The beginning of a word, also after the escape of a letter or digit, and after a percent escape of a URL."""

QUOTE = r"\\?[\"'`]"
"""The quote of a string, or of one inside a string."""

LINE = r"\\?\r?\n[ \t]{0,40}"
"""The end of a line, and the blanks at the front of the next one."""

LONG = r"(?!---)[\w-]{16}"
"""What follows the anchor of most keys, and few other dashes and underscores."""

RUN = "[A-Za-z0-9]{16}"
"""The same for keys of only letters and digits."""

REMEMBERED = 120
"""Characters from which on it is remembered that a match is no secret."""

SHORTEST_WORDS = ((10, 2.7), (16, 3.2))
"""Length from which on a name in a program can be recognised, and the least average length of its words.

1 of 200 names has less, 1 to 5 of 100 random strings have more.
"""
LONG_WORD = 20
CHANGES = 0.41
"""Share of places where random text changes between small letters, capitals and digits; names have a third."""
DISTINCT = 5
"""Different characters that a generated key has more of; a stand-in repeats a few."""

MOST_PARTS = 40
LEAST_PART = 12
"""Least characters of the continuation of a key with a variable length."""

_JOINED = rf"(?:[ \t]{{0,8}}[+.&]?[ \t]{{0,4}}_?{LINE}[+.&]?|[ \t]{{0,8}}[+.&])[ \t]{{0,4}}"
_CONTINUED = re.compile(
    rf"(?:{LINE}|{QUOTE}{_JOINED}[brf]?{QUOTE})(?P<rest>[\w.+/=-]{{4,4000}})"
    r"(?P<ends>[ \t]*(?:\\?[\"'`;,)]|\\?\r?\n|\Z))?"
)
"""What separates the halves of a key, and the second half, up to the end of a line or string."""
_OF_A_WORD = re.compile(r"[\w-]")
_SET = re.compile(r"\[[^\]]*\]|\\.")
_HALF = re.compile(r"[\w-]{4,400}")
_DIGIT = re.compile("[0-9]")
_LETTER = re.compile("[A-Za-z]")
_ODD = re.compile(r"[@#$%^&*~|+!].", re.DOTALL)
_PARTS = re.compile(r"[A-Za-z0-9]+")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_COMMON = re.compile(
    r"(?:utf|sha|md|base|u?int|float|[xhvrkps]|es|py|ed|aes|rsa|rc|iso|mp|ipv|http|o?auth|vt|ec|id|no|step|test|part)"
    r"\d{1,4}[a-z]{0,4}|argon2\w*|pbkdf2|bcrypt\w*|\d{1,3}(?:st|nd|rd|th|bits?|chars?|bytes?|[kmg]b)|\d+x\d+|0x[0-9a-f]{1,8}",
    re.IGNORECASE,
)
_AMOUNT = re.compile(r"\d{1,5}[A-Za-z]{1,3}\W*")
"""Letters and digits in one word that are no secret: ``utf8``, ``sha256``, ``v2``, ``16GB``."""


class Found(NamedTuple):
    """A secret at ``text[start:stop]``; the search continues at ``end``. ``kind`` names its placeholder.

    Without a kind it is a long match that is no secret: this kind is not searched again before its end, so that time
    stays linear.
    """

    kind: str
    start: int
    stop: int
    end: int


class Kind(NamedTuple):
    """One kind of secret."""

    name: str
    anchors: str
    """Characters that ordinary texts rarely contain."""
    find: Callable[[str, int], Found | None]
    """Called with the text and the place of an anchor that the two patterns follow."""
    sign: str = ""
    peek: str = ""


def shape(
    name: str,
    before: str,
    anchor: str,
    after: str,
    accept: Callable[[str], bool] | None = None,
    *,
    edge: bool = True,
    peek: str = LONG,
    whole: int = 0,
) -> Kind:
    """Return a kind with a form of its own: ``before`` (characters and sets), the anchor, the pattern ``after`` it.

    With ``edge`` it must begin a word. The group ``secret``, if there is one, is removed if ``accept`` agrees.
    ``whole`` is the length of such a key, if all have the same: a shorter one continues in the next line.
    """
    mark = re.escape(anchor)
    pattern = re.compile(f"{EDGE if edge else ''}{before}{mark}{after}")
    group = "secret" if "secret" in pattern.groupindex else 0
    width = len(_SET.sub("x", before))

    def find(text: str, at: int) -> Found | None:
        match = pattern.match(text, at - width) if at >= width else None
        if match is None:
            return None
        if accept is not None and not accept(match[group]):
            return reject(match.start(), match.end())
        start, stop = match.span(group)
        if stop - start < whole or not whole:
            stop = find_end(text, start, stop, whole)
        return Found(name, start, stop, max(stop, match.end()))

    def find_parted(text: str, at: int) -> Found | None:
        """Find a key whose first half is too short to be recognised alone."""
        found = find(text, at)
        if found is not None or at < width or head.match(text, at - width) is None:
            return found
        half = _HALF.match(text, at + 1)
        if half is None or half.end() - at + width >= whole:
            return None
        stop = find_end(text, at - width, half.end(), whole)
        return Found(name, at - width, stop, stop) if stop > half.end() and is_mixed(text[at + 1 : stop]) else None

    head = re.compile(f"{EDGE if edge else ''}{before}{mark}")
    if whole:
        return Kind(name, anchor, find_parted, f"(?<={before}{mark})" if before else "", peek)
    return Kind(name, anchor, find, f"(?<={before}{mark})" if before else "", peek)


def find_end(text: str, start: int, end: int, whole: int = 0) -> int:
    """Return the end of a key that may continue in the next line, as an added string or after a line break.

    ``whole`` is the length of its kind if all have the same: then the rest must have just the missing length. Otherwise
    it must look random and be alone in its line.
    """
    length = end - start
    for _ in range(MOST_PARTS):
        rest = _CONTINUED.match(text, end)
        taken = _measure_rest(rest, whole - length if whole else 0) if rest else 0
        if rest is None or not taken:
            break
        length += taken
        end = rest.start("rest") + taken
    return end


def continues(text: str, at: int) -> bool:
    """Tell whether the next line may contain the rest of a key."""
    return _CONTINUED.match(text, at) is not None


def _measure_rest(rest: re.Match[str], left: int) -> int:
    """Return how much of a match belongs to the key, which still misses ``left`` characters (0 = unknown)."""
    value = rest["rest"]
    if left > 0:
        return left if len(value) >= left and not _OF_A_WORD.match(value, left) else 0
    if left < 0 or rest["ends"] is None or len(value) < LEAST_PART:
        return 0
    sorts = (str.isdigit, str.isupper, str.islower)
    random = all(any(map(sort, value)) for sort in sorts) and (len(value) < LONG_WORD or is_random(value))
    return len(value) if random else 0


def reject(start: int, end: int) -> Found | None:
    """Return what to remember of a match that is no secret: None unless it is long."""
    return Found("", start, start, end) if end - start > REMEMBERED else None


def is_mixed(value: str) -> bool:
    """Tell whether a value has letters and digits, and not just the same few, as generated keys do."""
    return _DIGIT.search(value) is not None and _LETTER.search(value) is not None and len(set(value)) > DISTINCT


def looks_made(value: str) -> bool:
    """Tell whether a value is generated rather than written: a part mixes letters and digits, or it has odd signs."""
    if (_ODD.search(value) and len(set(value)) > DISTINCT) or is_irregular(value):
        return True
    return not _AMOUNT.fullmatch(value) and any(
        _has_both(part) and not _COMMON.fullmatch(part) for part in _PARTS.findall(value)
    )


def is_random(value: str) -> bool:
    """Tell whether small letters, capitals and digits alternate as often as in random text, and in no name."""
    sorts = ["0" if c.isdigit() else "A" if c.isupper() else "a" for c in value]
    return len(value) >= LONG_WORD and sum(a != b for a, b in itertools.pairwise(sorts)) > CHANGES * len(value)


def is_irregular(value: str) -> bool:
    """Tell whether small letters, capitals and digits follow each other as in no name: ``lxCZAIKONvV2efoUpE``."""
    words = _WORDS.findall(value)
    length = sum(map(len, words))
    return any(length >= least and length < average * len(words) for least, average in SHORTEST_WORDS)


def _has_both(part: str) -> bool:
    """Tell whether a run has letters and digits."""
    return _DIGIT.search(part) is not None and _LETTER.search(part) is not None


FREQUENT = frozenset("ckpb./_=:-")
"""The most frequent anchors, which are tried first."""
GATES = {".": r"(?=[\w-]{16}|slack|com/|c\.)"}
"""A quick check for anchors that most often are followed by something else."""
PLACEHOLDER = r"\[redacted:[\w-]+:[0-9a-f]{6}\]"
LONGEST_PLACEHOLDER = 40

_STANDING = re.compile(PLACEHOLDER)


class Signs:
    """Searches a text for many kinds in one walk, by their anchors."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._any = _compile_signs(kinds)
        self._at: Mapping[str, tuple[re.Pattern[str], Sequence[tuple[int, Kind]]]] = {
            anchor: _compile_anchor(
                anchor, [(number, kind) for number, kind in enumerate(kinds) if anchor in kind.anchors]
            )
            for anchor in {anchor for kind in kinds for anchor in kind.anchors}
        }

    def find_places(self, text: str, start: int, stop: int) -> Iterator[int]:
        """Yield every place with the sign of any kind."""
        return (sign.start() for sign in self._any.finditer(text, start, stop))

    def find_secret(self, text: str, at: int, least: int, passed: dict[int, int]) -> Found | None:
        """Return the secret with its sign at a place, by the first kind that finds one; none that begins before ``least``.

        ``passed`` records for each kind, by its number, up to where it was searched in vain.
        """
        pattern, kinds = self._at[text[at]]
        signs = pattern.match(text, at)
        if signs is None:
            return None
        for number, kind in compress(kinds, signs.groups()):
            if passed.get(number, 0) > at:
                continue
            found = kind.find(text, at)
            if found is None:
                continue
            if not found.kind:
                passed[number] = found.end
            elif found.start >= least and not any(_is_in_placeholder(text, place) for place in (at, found.start)):
                return found
        return None


def _compile_signs(kinds: Iterable[Kind]) -> re.Pattern[str]:
    """Compile one pattern for all signs: an anchor, then its conditions, the cheapest first."""
    wanted: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for kind in kinds:
        for anchor in kind.anchors:
            shared = kind.peek if kind.peek in {LONG, RUN} else ""
            wanted[anchor][shared].append(kind.sign if shared else kind.sign + _look_ahead(kind.peek))
    branches = []
    for anchor in sorted(wanted, key=lambda character: (character not in FREQUENT, character)):
        conditions = [
            _look_ahead(peek) + ("" if "" in signs else f"(?:{'|'.join(dict.fromkeys(signs))})")
            for peek, signs in wanted[anchor].items()
        ]
        branches.append(f"{re.escape(anchor)}{GATES.get(anchor, '')}(?:{'|'.join(conditions)})")
    return re.compile("|".join(branches))


def _compile_anchor(
    anchor: str, kinds: Sequence[tuple[int, Kind]]
) -> tuple[re.Pattern[str], Sequence[tuple[int, Kind]]]:
    """Compile a pattern for one anchor, with a group per kind that matches when the sign of the kind is there."""
    signs = (f"(?:{kind.sign}{_look_ahead(kind.peek)}(?<=(.)))?" for _, kind in kinds)
    return re.compile(f"{re.escape(anchor)}{''.join(signs)}"), kinds


def _look_ahead(pattern: str) -> str:
    return f"(?={pattern})" if pattern else ""


def _is_in_placeholder(text: str, at: int) -> bool:
    start = text.rfind("[redacted:", max(0, at - LONGEST_PLACEHOLDER), at + 1)
    return 0 <= start < at and _STANDING.match(text, start) is not None and text.find("]", start) >= at
