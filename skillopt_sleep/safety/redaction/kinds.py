"""What a kind of secret is: a sign that few texts have, and a look at the place where the sign stands.

The signs of many kinds in one pattern, and which of the kinds have theirs at a place.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=%25[0-9A-Fa-f]{2}))"
"""Where a word begins; also after the escape of a letter or digit, and after a sign that a URL escapes."""

QUOTE = r"\\?[\"'`]"
"""Of a string, or of one inside a string."""

LINE = r"\\?\r?\n[ \t]{0,40}"
"""The end of a line, and the blanks at the front of the next one."""

LONG = r"(?!---)[\w-]{16}"
"""What stands behind the anchor of most keys, and behind few other dashes and underscores."""

RUN = "[A-Za-z0-9]{16}"
"""The same of keys that are nothing but letters and digits."""

REMEMBERED = 120
"""Characters from which on it is remembered that something is no secret."""

SHORTEST_WORDS = ((10, 2.7), (16, 3.2))
"""Letters and digits from which on it can be told by its words, and what each has at least on average, whether something
is a name in a program: 1 of 200 names has less, 1 to 5 of 100 random strings have more.
"""
LONG_WORD = 20
CHANGES = 0.41
"""Changes of the sort of characters that random words have more of; long names have a third."""
DISTINCT = 5
"""Characters that a made key has more of; a stand-in repeats a few."""

MOST_PARTS = 40
LEAST_PART = 12
"""Characters of the rest of a key whose kind does not tell its length."""

_JOINED = rf"(?:[ \t]{{0,8}}[+.&]?[ \t]{{0,4}}_?{LINE}[+.&]?|[ \t]{{0,8}}[+.&])[ \t]{{0,4}}"
_CONTINUED = re.compile(
    rf"(?:{LINE}|{QUOTE}{_JOINED}[brf]?{QUOTE})(?P<rest>[\w.+/=-]{{4,4000}})"
    r"(?P<ends>[ \t]*(?:\\?[\"'`;,)]|\\?\r?\n|\Z))?"
)
"""What parts the halves of a key, and its rest, up to the end of a line or a string."""
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
    """A secret at ``text[start:stop]``; the search goes on at ``end``. ``kind`` names its placeholder.

    Without a kind it is something long that was looked at and is none: nothing of the sort is looked for up to its
    end again, so that time stays linear.
    """

    kind: str
    start: int
    stop: int
    end: int


class Kind(NamedTuple):
    """One kind of secret.

    Where one of the characters ``anchors`` stands with ``sign`` and then ``peek``, patterns right behind it, ``find``
    is asked with the place of the anchor. Anchors are characters that ordinary texts rarely have.
    """

    name: str
    anchors: str
    find: Callable[[str, int], Found | None]
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
    """A kind with a form of its own: ``before`` (characters and sets), the anchor, and the pattern ``after`` it.

    With ``edge``, nothing that goes on in front. The group ``secret``, if there is one, is what is taken out, and
    ``accept`` has the last word on it. ``whole`` is the length of such a key, if all have the same: one that is
    shorter goes on in the next line.
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
            return rejected(match.start(), match.end())
        start, stop = match.span(group)
        if stop - start < whole or not whole:
            stop = continued(text, start, stop, whole)
        return Found(name, start, stop, max(stop, match.end()))

    def parted(text: str, at: int) -> Found | None:
        """Where the first half is too short to be told by itself."""
        found = find(text, at)
        if found is not None or at < width or head.match(text, at - width) is None:
            return found
        half = _HALF.match(text, at + 1)
        if half is None or half.end() - at + width >= whole:
            return None
        stop = continued(text, at - width, half.end(), whole)
        return Found(name, at - width, stop, stop) if stop > half.end() and mixed(text[at + 1 : stop]) else None

    head = re.compile(f"{EDGE if edge else ''}{before}{mark}")
    if whole:
        return Kind(name, anchor, parted, f"(?<={before}{mark})" if before else "", peek)
    return Kind(name, anchor, find, f"(?<={before}{mark})" if before else "", peek)


def continued(text: str, start: int, end: int, whole: int = 0) -> int:
    """The end of a key that goes on in the next line: as a string added to it, or after the break of a line.

    ``whole`` is the length of its kind, when all have the same: then the rest must have just the length that is left.
    Otherwise what follows must be drawn at random, and nothing else may stand in its line.
    """
    length = end - start
    for _ in range(MOST_PARTS):
        rest = _CONTINUED.match(text, end)
        taken = _taken(rest, whole - length if whole else 0) if rest else 0
        if rest is None or not taken:
            break
        length += taken
        end = rest.start("rest") + taken
    return end


def goes_on(text: str, at: int) -> bool:
    """Whether something that may be the rest of a key follows in the next line."""
    return _CONTINUED.match(text, at) is not None


def _taken(rest: re.Match[str], left: int) -> int:
    """How much of what follows belongs to the key, of which so many characters are left (0: nobody knows)."""
    value = rest["rest"]
    if left > 0:
        return left if len(value) >= left and not _OF_A_WORD.match(value, left) else 0
    if left < 0 or rest["ends"] is None or len(value) < LEAST_PART:
        return 0
    sorts = (str.isdigit, str.isupper, str.islower)
    random = all(any(map(sort, value)) for sort in sorts) and (len(value) < LONG_WORD or drawn_at_random(value))
    return len(value) if random else 0


def rejected(start: int, end: int) -> Found | None:
    """What is no secret: to be remembered when it is long."""
    return Found("", start, start, end) if end - start > REMEMBERED else None


def mixed(value: str) -> bool:
    """Letters and digits together and not the same few again and again, as in made keys and unlike in words."""
    return _DIGIT.search(value) is not None and _LETTER.search(value) is not None and len(set(value)) > DISTINCT


def telling(value: str) -> bool:
    """Whether a value is made rather than written: a part of it mixes letters and digits, or it has odd signs."""
    if (_ODD.search(value) and len(set(value)) > DISTINCT) or irregular(value):
        return True
    return not _AMOUNT.fullmatch(value) and any(
        _both(part) and not _COMMON.fullmatch(part) for part in _PARTS.findall(value)
    )


def drawn_at_random(value: str) -> bool:
    """Whether small letters, capitals and digits change as often as chance has it, and in no name."""
    sorts = ["0" if c.isdigit() else "A" if c.isupper() else "a" for c in value]
    return len(value) >= LONG_WORD and sum(a != b for a, b in itertools.pairwise(sorts)) > CHANGES * len(value)


def irregular(value: str) -> bool:
    """Whether small letters, capitals and digits follow each other as in no name: ``lxCZAIKONvV2efoUpE``."""
    words = _WORDS.findall(value)
    length = sum(map(len, words))
    return any(length >= least and length < each * len(words) for least, each in SHORTEST_WORDS)


def _both(part: str) -> bool:
    """Whether a run of letters and digits has both."""
    return _DIGIT.search(part) is not None and _LETTER.search(part) is not None


FREQUENT = frozenset("ckpb./_=:-")
"""Anchors that texts have most of; they are tried first."""
GATES = {".": r"(?=[\w-]{16}|slack|com/|c\.)"}
"""What anything wanted behind an anchor begins with, where that is not what most often follows it."""
PLACEHOLDER = r"\[redacted:[\w-]+:[0-9a-f]{6}\]"
LONGEST_PLACEHOLDER = 40

_STANDING = re.compile(PLACEHOLDER)


class Signs:
    """Kinds by their anchors, to be looked for in one walk over a text."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._any = _any(kinds)
        self._at: Mapping[str, tuple[re.Pattern[str], Sequence[tuple[int, Kind]]]] = {
            anchor: _each(anchor, [(number, kind) for number, kind in enumerate(kinds) if anchor in kind.anchors])
            for anchor in {anchor for kind in kinds for anchor in kind.anchors}
        }

    def places(self, text: str, start: int, stop: int) -> Iterator[int]:
        """Where the sign of any kind stands."""
        return (sign.start() for sign in self._any.finditer(text, start, stop))

    def secret(self, text: str, at: int, least: int, passed: dict[int, int]) -> Found | None:
        """The secret whose sign stands at a place, unless it begins before ``least``; the first kind that finds one.

        ``passed`` says up to where a kind, by its number, was looked for in vain.
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
            elif found.start >= least and not any(_inside_placeholder(text, each) for each in (at, found.start)):
                return found
        return None


def _any(kinds: Iterable[Kind]) -> re.Pattern[str]:
    """One pattern for all signs: an anchor, then what must hold at it, the cheapest first."""
    wanted: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for kind in kinds:
        for anchor in kind.anchors:
            shared = kind.peek if kind.peek in {LONG, RUN} else ""
            wanted[anchor][shared].append(kind.sign if shared else kind.sign + _ahead(kind.peek))
    branches = []
    for anchor in sorted(wanted, key=lambda each: (each not in FREQUENT, each)):
        conditions = [
            _ahead(peek) + ("" if "" in signs else f"(?:{'|'.join(dict.fromkeys(signs))})")
            for peek, signs in wanted[anchor].items()
        ]
        branches.append(f"{re.escape(anchor)}{GATES.get(anchor, '')}(?:{'|'.join(conditions)})")
    return re.compile("|".join(branches))


def _each(anchor: str, kinds: Sequence[tuple[int, Kind]]) -> tuple[re.Pattern[str], Sequence[tuple[int, Kind]]]:
    """A pattern with a group for each kind at an anchor, which takes part in a match when the kind's sign is there."""
    signs = (f"(?:{kind.sign}{_ahead(kind.peek)}(?<=(.)))?" for _, kind in kinds)
    return re.compile(f"{re.escape(anchor)}{''.join(signs)}"), kinds


def _ahead(pattern: str) -> str:
    return f"(?={pattern})" if pattern else ""


def _inside_placeholder(text: str, at: int) -> bool:
    start = text.rfind("[redacted:", max(0, at - LONGEST_PLACEHOLDER), at + 1)
    return 0 <= start < at and _STANDING.match(text, start) is not None and text.find("]", start) >= at
