"""Text functions for every package, and the word lists by which requests are compared and classified.

The word lists, in ``words.json``, contain words without meaning of their own, synonyms, and words by which a prompt
asks or refers to something.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import Path

import msgspec


def fold(text: str) -> str:
    """Return a text normalised for comparing quotes: NFKC, no difference of case, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def contains_words(text: str, quote: str) -> bool:
    """Return whether ``text`` contains ``quote``, ignoring case and white space; an empty quote is never contained."""
    wanted = fold(quote)
    return bool(wanted) and wanted in fold(text)


def excerpt(text: str, limit: int) -> str:
    """Return a text as one line of at most ``limit`` characters, cut between words; an ellipsis marks the cut."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    return (head.rpartition(" ")[0] if " " in head[limit // 2 :] else head).rstrip(" ,;:") + "…"


_WORDS = msgspec.json.decode(Path(__file__).with_name("words.json").read_bytes(), type=dict[str, list[str]])
_SETS = {name: frozenset(" ".join(lines).split()) for name, lines in _WORDS.items()}

STOPWORDS = _SETS["stopwords"]
"""Words that carry no meaning."""
STOPSIGNS = frozenset("".join(_WORDS["stopsigns"]))
"""Chinese characters without meaning of their own: particles, pronouns, measure words, courtesies."""
WORK = "\n".join(_WORDS["work"])
"""Verbs of everyday work, one family of synonyms a line; a family counts as one word of weight ``LIGHT``."""
MATTER = "\n".join(_WORDS["matter"])
"""Other synonyms, one family a line; a family counts as one word, with the full weight."""
PHRASES = dict(line.split(": ") for line in _WORDS["phrases"])
"""For each phrase, a synonym with another number of words."""
HOUSEKEEPING = _SETS["housekeeping"]
"""Words that steer an agent through a session; a prompt of such words alone makes no sense outside its session."""
CONTINUE = _SETS["continue"]
"""Words that ask for more of the same work."""
POINTING = _SETS["pointing"]
"""Words that refer to something said or shown before."""
QUESTIONS = _SETS["questions"]
"""First words of a question."""
REQUESTS = tuple(_WORDS["requests"])
"""Phrases that turn a question into a request."""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?``, the end of a message about an unknown name; "" when no known name is similar."""
    import difflib  # noqa: PLC0415  only a mistake needs it

    nearest = difflib.get_close_matches(name, [str(candidate) for candidate in known], n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def sha256(content: bytes) -> str:
    """Return the SHA-256 digest of some bytes, in hex."""
    import hashlib  # noqa: PLC0415  it loads OpenSSL, 3 ms, and whoever only looks at what there is digests nothing

    return hashlib.sha256(content).hexdigest()
