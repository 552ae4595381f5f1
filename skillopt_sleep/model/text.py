"""Text functions that every package uses, and the word lists that compare and classify requests.

The word lists, in ``words.json``, hold words that carry no meaning, words that mean the same, and words by which a
prompt asks or points.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import Path

import msgspec


def fold(text: str) -> str:
    """Return a text in the form in which quotes are compared: NFKC, case and white space folded."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def contains_words(text: str, quote: str) -> bool:
    """Whether ``text`` contains ``quote``, with white space and case folded; an empty quote is never contained."""
    wanted = fold(quote)
    return bool(wanted) and wanted in fold(text)


def excerpt(text: str, limit: int) -> str:
    """Shorten a text to one line of at most ``limit`` characters, cut between words, with an ellipsis if cut."""
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
"""Verbs of everyday work, one family a line: each is folded into the first of its line and weighs ``LIGHT``."""
MATTER = "\n".join(_WORDS["matter"])
"""Synonyms, one family a line; they weigh as much as any other word."""
PHRASES = dict(line.split(": ") for line in _WORDS["phrases"])
"""Phrases and their synonyms with another number of words."""
HOUSEKEEPING = _SETS["housekeeping"]
"""Words that steer an agent through a session; a prompt of these alone makes no sense outside its session."""
CONTINUE = _SETS["continue"]
"""Words that ask for more of the same work."""
POINTING = _SETS["pointing"]
"""Words that refer to something said or shown before."""
QUESTIONS = _SETS["questions"]
"""First words of a question."""
REQUESTS = tuple(_WORDS["requests"])
"""Phrases that turn a question into a request."""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` to end a message about an unknown name; "" when no known name is similar."""
    import difflib  # noqa: PLC0415  only a mistake needs it

    nearest = difflib.get_close_matches(name, [str(candidate) for candidate in known], n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def sha256(content: bytes) -> str:
    """Return the SHA-256 of a content, in hex."""
    import hashlib  # noqa: PLC0415  it loads OpenSSL, 3 ms, and whoever only looks at what there is digests nothing

    return hashlib.sha256(content).hexdigest()
