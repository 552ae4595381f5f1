"""Words as they are compared and as they are shown: white space and case folded, cut short between words."""

from __future__ import annotations

import unicodedata

__all__ = ["contains_words", "excerpt", "fold"]


def fold(text: str) -> str:
    """The text for comparing quotes: compatibility forms and case folded, white space runs made one blank."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def contains_words(text: str, quote: str) -> bool:
    """Whether ``quote`` stands in ``text``, white space and case folded; an empty quote stands nowhere."""
    wanted = fold(quote)
    return bool(wanted) and wanted in fold(text)


def excerpt(text: str, limit: int) -> str:
    """At most ``limit`` characters on one line, cut between words, with an ellipsis where something is left out."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    return (head.rpartition(" ")[0] if " " in head[limit // 2 :] else head).rstrip(" ,;:") + "…"
