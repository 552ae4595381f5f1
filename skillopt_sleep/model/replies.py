"""Read JSON out of what a model wrote, and leave out what it only thought.

Structured output mostly is pure JSON, but a CLI may wrap it in a code fence, put a sentence before it or a remark
after it, and a thinking model its thoughts. Slips that leave no doubt of the meaning are read over: raw control
characters inside strings, and commas before a closing bracket.

What was not made into a task or an edit, and why; apart, because whatever reads a model's reply needs it.

Text written by others, put into a prompt as data: it can end neither its tag nor begin one of ours.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator
from typing import NoReturn

from msgspec import Struct

from skillopt_sleep.model import Json
from skillopt_sleep.model.text import sha256

ATTEMPTS = 64
"""Places in a text where JSON is tried; each may read to the end, so their number bounds the time."""

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_THOUGHT = re.compile(r"^[ \t]*<(think|thinking)\b[^<>]*>.*?</\1\s*>\s*", re.DOTALL | re.IGNORECASE | re.MULTILINE)
_OPENED = re.compile(r"<think(?:ing)?\b[^<>]*>", re.IGNORECASE)
_CLOSED = re.compile(r"</think(?:ing)?\s*>", re.IGNORECASE)
_OPENING = re.compile(r"""\{(?=\s*["}])|\[(?=\s*(?:["\[\]{\d-]|true|false|null))""")
"""Where an object or an array may begin; other braces and brackets are prose."""
_MEANT = re.compile(r"""(?:\[\s*)?(?:\{\s*"|\[\s*")""")
"""What begins like this is meant as JSON: where it is damaged, what stands inside it is a fragment."""
_MARK = re.compile(r'"(?:[^"\\]|\\.?)*(?:"|\Z)|[{}\[\]]', re.DOTALL)
_COMMA = re.compile(r'("(?:[^"\\]|\\.?)*(?:"|\Z))|,(?=\s*[}\]])', re.DOTALL)


def without_thinking(text: str) -> str:
    """The text without ``<think>`` and ``<thinking>`` blocks that begin a line, and without a closing tag's remainder.

    A template may hold the opening tag, so what stands before a lone closing tag is thought too. An opening tag that
    is never closed, and a closing one with nothing after it, are left as they are.
    """
    return _after_remainder(_THOUGHT.sub("", text))


def extract_json(text: str) -> Json:
    """The JSON in a text: all of it, what a code fence holds, else the largest object, else the largest array.

    What stands inside a larger piece is no answer by itself, nor is what was thought. Raises ``ValueError`` when there
    is none.
    """
    answered = _THOUGHT.sub("", text)
    before: tuple[str, ...] = (text,)
    for part in dict.fromkeys((_after_remainder(answered), answered)):  # a string of the JSON may name the tag
        for candidate in (*before, part, *_FENCE.findall(part)):
            try:
                return _whole(candidate.strip("\ufeff \t\r\n"))
            except ValueError:
                continue
        before = ()
        found = max(_outermost(part), key=lambda each: each[:2], default=None)
        if found is not None:
            return found[2]
    raise ValueError(f"no JSON in a reply of {len(text)} characters that begins {text[:60]!r}")


def _after_remainder(text: str) -> str:
    """What follows the last closing tag that no opening one precedes; the text where nothing does."""
    opened = _OPENED.search(text)
    closed = list(_CLOSED.finditer(text, 0, opened.start() if opened else len(text)))
    rest = text[closed[-1].end() :].lstrip() if closed else ""
    return rest or text


def _whole(text: str) -> Json:
    try:
        value, end = _decode(text)
    except ValueError:
        text = _COMMA.sub(lambda found: found[1] or "", text)
        value, end = _decode(text)
    if end != len(text):
        raise ValueError(f"more text after the JSON, at {end}")
    return value


def _outermost(text: str) -> Iterator[tuple[bool, int, Json]]:
    """Every object and array that stands in no other one: whether it says something by name, its length, its value."""
    at, tried = 0, 0
    while tried < ATTEMPTS and (opening := _OPENING.search(text, at)):
        start = opening.start()
        tried += 1
        try:
            value, length = _decode(text[start:])
            at = start + length
        except ValueError:
            if not _MEANT.match(text, start):
                at = start + 1
                continue
            at = _closing(text, start)
            try:
                value = _whole(text[start:at])
            except ValueError:
                continue
        yield _names(value), at - start, value


def _names(value: Json) -> bool:
    """Whether it is an object with something in it, or an array of objects."""
    return bool(value) and (isinstance(value, dict) or (isinstance(value, list) and isinstance(value[0], dict)))


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at ``start`` is closed; the end of the text where it never is."""
    depth = 0
    for mark in _MARK.finditer(text, start):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(mark[0], 0)
        if not depth:
            return mark.end()
    return len(text)


def _decode(text: str) -> tuple[Json, int]:
    """The value that begins a text, and where it ends."""
    try:
        return _DECODER.raw_decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is beyond every float")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, strict=False)


class Refusal(Struct, frozen=True, kw_only=True):
    """Something that was not made into a task or an edit, by name. ``subject`` is a session id, task id or edit."""

    subject: str
    words: str
    why: str


BRACKET = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
"""Looks like the bracket it stands for, and opens no tag."""


def escape_tags(text: str, *tags: str) -> str:
    """The text with nothing in it that could be taken for one of ``tags``, opening or closing, however spaced."""
    return _opening(tags).sub(BRACKET, text)


def make_tag_suffix(*texts: str) -> str:
    """Sixteen hex digits that depend on all of the texts: for a tag's name, which none of them can know beforehand."""
    return sha256("\0".join(texts).encode("utf-8", "replace"))[:16]


@functools.cache
def _opening(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<(?=[\s/]*(?:{'|'.join(map(re.escape, tags))})\b)", re.IGNORECASE)
