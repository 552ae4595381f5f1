"""Private keys in blocks of Base64: PEM, OpenSSH, PGP and PuTTY, whole or cut off at either end.

A block may be quoted, indented, numbered, a comment, a string of JSON or the sum of many: every line of it is walked by
itself, from the marker that is left of it, and the walk ends at the first line that is none of a key.
"""

from __future__ import annotations

import re

from skillopt_sleep.domain.redact.kind import Found, Kind

__all__ = ["KEYBLOCKS"]

MARKER_ROOM = 60
"""Characters in which the front half of a marker stands."""
LONGEST_LINE = 9_000
"""Characters of one line of a key; a whole key may stand on one."""
MOST_LINES = 2_000
SHORT_LINES = 3
"""Shorter lines that may stand before the end: the last one, a checksum."""
BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
LEAST = 16
"""Characters of a line that is taken for one of a key; only the last may be shorter."""
PARTED = 96
"""Characters in which what parts two lines has room."""

_PAD = r"[ \t>|#*/+\"'`;,.\u2192-]{0,24}"
_BREAK = r"[ \t\"'`;,+)]{0,8}(?:\\{1,4}[nr]|\\?\r?\n)"
_BETWEEN = rf"(?:{_BREAK}{_PAD}(?:\d{{1,6}}[ \t:|\u2192]{{1,4}})?){{1,6}}{_PAD}"
"""From one line to the next: what ends it, and what may stand in front of the next one."""
_LINE = r"[A-Za-z0-9+/=]"
_AHEAD = re.compile(
    rf"(?:{_BETWEEN}|[ \t]{{1,8}}|)(?:(?:[A-Za-z][A-Za-z-]{{3,20}}: [^\n\\]{{0,200}}){_BETWEEN}){{0,8}}+(?P<body>{_LINE}{{16,}}+)"
)
_NEXT = re.compile(rf"(?:{_BETWEEN}|[ \t]{{1,8}})(?P<body>{_LINE}{{16,}}+)")
_REST = re.compile(
    rf"(?:{_BETWEEN}|[ \t]{{1,8}})?(?:{_LINE}{{1,64}}?)?(?:{_BETWEEN}|[ \t]{{1,8}})?(?:=\w{{4}}{_BETWEEN})?(?=-----?END|-----?$|Private-)"
)
_END = re.compile(r"-----?[ ]?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----?")
_DASHES = re.compile("-{1,5}")
_BEGINNING = re.compile(r"-{1,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?\Z")
_ENDING = re.compile(r"(?:-{1,5} ?|(?<![A-Z]))END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?\Z")
_PARTED = re.compile(rf"(?:{_BETWEEN}|[ \t]{{1,8}})\Z")
_BODY = re.compile(rf"(?P<body>{_LINE}+)")
_LINES = re.compile(r"Lines: ?\d{1,4}")


def _walk(text: str, at: int) -> int:
    """The end of the lines of a key that begin at a place; the place itself when there is none."""
    line = _AHEAD.match(text, at)
    if line is None:
        return at
    for _ in range(MOST_LINES):
        further = _NEXT.match(text, line.end())
        if further is None:
            break
        line = further
    rest = _REST.match(text, line.end())
    return rest.end() if rest else line.end()


def _walk_back(text: str, at: int) -> int:
    """The start of the lines of a key that end at a place; the place itself when there is none of length."""
    start, longest, short = at, 0, 0
    for _ in range(MOST_LINES):
        line = _last_line(text, start)
        if line is None:
            break
        if len(line["body"]) < LEAST:
            short += 1
            if longest >= LEAST or short > SHORT_LINES:
                break
        start, longest = line.start(), max(longest, len(line["body"]))
    return start if longest >= LEAST else at


def _last_line(text: str, end: int) -> re.Match[str] | None:
    """The line of Base64 that ends at a place, or before what parts it from there."""
    stop = end
    if end and (text[end - 1] not in BASE64 or text[max(0, end - 2) : end] in {"\\n", "\\r"}):
        parted = _PARTED.search(text, max(0, end - PARTED), end)
        stop = parted.start() if parted else end
    start = stop
    while start > max(0, stop - LONGEST_LINE) and text[start - 1] in BASE64:
        start -= 1
    if start and text[start - 1] == "\\" and text[start : start + 1] in "nrt":
        start += 1  # the letter of an escape is none of the key
    return _BODY.match(text, start, stop)


def _marked(text: str, at: int) -> Found | None:
    """At the dashes behind ``PRIVATE KEY``: what follows a begin, or stands before an end, with its markers."""
    low = max(0, at - MARKER_ROOM)
    front = text[low:at].rstrip(" ")
    name = "pgp" if front.endswith("BLOCK") else "pem"
    dashes = _DASHES.match(text, at)
    after = dashes.end() if dashes else at
    if ending := _ENDING.search(front):
        stop = low + ending.start()
        start = _walk_back(text, stop)
        return Found(name, start, after, after) if start < stop else None
    stop = _walk(text, after)
    if stop == after:
        return None
    begin, end = _BEGINNING.search(front), _END.match(text, stop)
    stop = end.end() if end else stop
    return Found(name, low + begin.start() if begin else after, stop, stop)


def _putty(text: str, at: int) -> Found | None:
    """After ``Private-Lines: 14``, or before ``Private-MAC: …``."""
    if header := _LINES.match(text, at + 1):
        stop = _walk(text, header.end())
        return Found("pem", header.end(), stop, stop) if stop > header.end() else None
    stop = at - len("Private")
    start = _walk_back(text, stop)
    return Found("pem", start, stop, at) if start < stop else None


KEYBLOCKS: tuple[Kind, ...] = (
    Kind("pem", "-", _marked, "(?<=PRIVATE KEY-)", "--"),
    Kind("pem", "-", _marked, "(?<=PRIVATE KEY -)", "--"),
    Kind("pem", "-", _marked, "(?<=PRIVATE KEY BLOCK-)", "--"),
    Kind("pem", "-", _putty, "(?<=Private-)", r"Lines: ?\d|MAC|Hash"),
)
