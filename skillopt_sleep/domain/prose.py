"""Edits of a text whose parts are no list items: the anchor is words that stand in it exactly once.

A skill that people wrote has headings and paragraphs as well as rules. Where an anchor names no whole rule, it is
looked for as text: as it stands, else with its white space folded.
"""

from __future__ import annotations

import re

from skillopt_sleep.domain.document import Span, bullet_spans

__all__ = ["NotOnce", "append_block", "delete_words", "insert_below", "is_block", "replace_words"]

_PARAGRAPHS = re.compile(r"\n[ \t]*\n")


class NotOnce(Exception):
    """The anchor is found nowhere, or in several places; says how often."""

    def __init__(self, times: int) -> None:
        super().__init__(f"found {times} times in the text, must be found exactly once" if times else "not found")


def is_block(content: str) -> bool:
    """Whether a text is more than one rule: it has a heading, several list items, or several paragraphs."""
    text = content.strip()
    return text.startswith("#") or "\n#" in text or len(bullet_spans(text)) > 1 or bool(_PARAGRAPHS.search(text))


def append_block(text: str, content: str) -> str:
    """The text with the content as its last block."""
    return f"{text.rstrip()}\n\n{content.strip()}\n" if text.strip() else f"{content.strip()}\n"


def insert_below(text: str, anchor: str, content: str) -> str:
    """The text with the content on lines of its own below the line where the anchor ends. Raises ``NotOnce``."""
    span = _find(text, anchor)
    line_end = text.find("\n", max(span.start, span.end - 1))
    if line_end < 0:
        return f"{text}\n{content.strip()}\n"
    return f"{text[: line_end + 1]}{content.strip()}\n{text[line_end + 1 :]}"


def replace_words(text: str, anchor: str, content: str) -> str:
    """The text with the content in place of the anchor. Raises ``NotOnce``."""
    span = _find(text, anchor)
    return text[: span.start] + content.strip() + text[span.end :]


def delete_words(text: str, anchor: str) -> str:
    """The text without the anchor, and without the line when nothing else stood on it. Raises ``NotOnce``."""
    start, end = _find(text, anchor)
    line_start = text.rfind("\n", 0, start) + 1
    if text[line_start:start].strip() or (end and text[end - 1] == "\n"):
        return text[:start] + text[end:]
    line_end = text.find("\n", end)
    rest = text[end:] if line_end < 0 else text[end:line_end]
    if rest.strip():
        return text[:start] + text[end:]
    return text[:line_start] + ("" if line_end < 0 else text[line_end + 1 :])


def _find(text: str, anchor: str) -> Span:
    exact = text.count(anchor) if anchor else 0
    if exact == 1:
        start = text.index(anchor)
        return Span(start, start + len(anchor))
    words = r"\s+".join(map(re.escape, anchor.split()))
    found = [] if exact or not words else [Span(*match.span()) for match in re.finditer(words, text)]
    if len(found) != 1:
        raise NotOnce(exact or len(found))
    return found[0]
