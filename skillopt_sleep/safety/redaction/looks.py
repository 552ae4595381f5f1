"""Tell what a value looks like: generated rather than written, random, a name, Base64 of a text."""

from __future__ import annotations

import base64
import binascii
import itertools
import math
import re
from collections import Counter

DISTINCT = 5
"""Different characters that a generated key has more of; a stand-in repeats a few."""
SHORTEST_WORDS = ((10, 2.7), (16, 3.2))
"""Length from which on a name in a program can be recognised, and the least average length of its words.

1 of 200 names has less, 1 to 5 of 100 random strings have more.
"""
LONG_WORD = 20
CHANGES = 0.41
"""Share of places where random text changes between small letters, capitals and digits; names have a third."""
TEXT = 12
"""Characters of Base64 that tell whether it is that of a text."""

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


def measure_entropy(value: str) -> float:
    """Return the bits a character holds, by how often each occurs (Shannon)."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())


def encodes_a_pair(value: str) -> bool:
    """Tell whether this is the Base64 of ``user:password``."""
    plain = _decode(value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4), b"-_" if set("-_") & set(value) else None)
    try:
        return b":" in plain and plain.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False


def encodes_text(value: str) -> bool:
    """Tell whether this is the Base64 of a text: chance seldom makes a dozen bytes that can all be printed."""
    plain = b"" if len(value) < TEXT or len(value) % 4 or _PARTS.sub("", value).strip("+/=") else _decode(value)
    return bool(plain) and plain.isascii() and plain.decode("ascii").isprintable()


def _decode(value: str, altchars: bytes | None = None) -> bytes:
    try:
        return base64.b64decode(value, altchars=altchars)
    except (binascii.Error, ValueError):
        return b""


def _has_both(part: str) -> bool:
    """Tell whether a run has letters and digits."""
    return _DIGIT.search(part) is not None and _LETTER.search(part) is not None
