"""Private keys in blocks of Base64: PEM, OpenSSH, PGP and PuTTY, whole or cut off at either end.

A block may be quoted, indented, numbered, boxed, a comment, the output of a search, a string of JSON or the sum of many.
Between two markers everything goes, when most of it is a key. Where one marker is left, lines are walked from it; the walk
ends at the first place where none of a key follows soon.
"""

from __future__ import annotations

import re

from skillopt_sleep.safety.redaction.kinds import Found, Kind, mixed

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

WHOLE = 40_000
"""Characters of the longest key, with all that stands around its lines."""
DENSE = 3
"""A third of what stands between two markers is the key, whatever stands around its lines."""
APART = 120
"""Characters that stand around two lines of a key at most, and between its marker and the first."""
SHORT_LINE = 41
HEAD = 300
"""Characters of headers before its first line."""

_PAD = r"[ \t>|#*/+\"'`;,.\u2192-]{0,24}"
_BREAK = r"[ \t\"'`;,+)\\]{0,8}\r?\n"
_BETWEEN = rf"(?:{_BREAK}{_PAD}(?:(?:[\w./-]{{1,80}}[:-])?\d{{1,6}}[ \t:|\u2192-]{{1,4}})?){{1,6}}{_PAD}"
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


_HEADLESS = re.compile(r"[A-Za-z0-9+/]{40}")
_BLOCK = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40,9000}+={0,2}")
"""A line of a key that is told from words by itself."""
_SHORT = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{8,39}={0,2}(?![A-Za-z0-9+/=])")
_DIGITS = re.compile(r"[0-9]+")
_CLOSING = re.compile(r"-{1,5} ?END [A-Z0-9 ]{0,40}\Z")
_CLOSED = re.compile(r"PRIVATE KEY(?: BLOCK)? ?-{0,5}")


def _is_line(line: str) -> bool:
    """Made Base64: a path, too, may be long and have nothing but letters and slashes."""
    return mixed(line) and any(map(str.isupper, line)) and any(map(str.islower, line))


def _between(text: str, after: int, following: int) -> int:
    """The end of the end marker, when what stands before it is the key; the place ``after`` otherwise."""
    if following < 0:
        return after
    closing = _CLOSING.search(text, max(after, following - MARKER_ROOM), following)
    if closing is None:
        return after
    body = sum(len(line[0]) for line in _BLOCK.finditer(text, after, closing.start()) if _is_line(line[0]))
    closed = _CLOSED.match(text, following)
    return closed.end() if closed and body * DENSE > closing.start() - after else after


def _runs(text: str, after: int, limit: int) -> int:
    """The end of the lines that follow a begin, whatever stands around each; the place itself when there is none."""
    end, gap = after, ""
    for line in _BLOCK.finditer(text, after, limit):
        if line.start() - end > (APART if gap else HEAD) or not _is_line(line[0]):
            break
        gap, end = text[end : line.start()], line.end()
    last = _SHORT.search(text, end, min(limit, end + APART + SHORT_LINE)) if gap else None
    if last and _DIGITS.sub("", text[end : last.start()]) == _DIGITS.sub("", gap):
        end = last.end()
    return end


def _runs_back(text: str, before: int, limit: int) -> int:
    """The start of the lines that stand before an end."""
    start = before
    for line in reversed([*_BLOCK.finditer(text, limit, before)]):
        if start - line.end() > (APART if start < before else HEAD) or not _is_line(line[0]):
            break
        start = line.start()
    return start


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
    if end and text[end - 1] not in BASE64:
        parted = _PARTED.search(text, max(0, end - PARTED), end)
        stop = parted.start() if parted else end
    start = stop
    while start > max(0, stop - LONGEST_LINE) and text[start - 1] in BASE64:
        start -= 1
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
        low = max(0, stop - WHOLE)
        edge = max(low, text.rfind("PRIVATE KEY", low, stop))
        start = min(_walk_back(text, stop), _runs_back(text, stop, edge))
        return Found(name, start, after, after) if start < stop else None
    following = text.find("PRIVATE KEY", after, after + WHOLE)
    stop = _between(text, after, following)
    if stop == after:
        stop = max(_walk(text, after), _runs(text, after, following if following >= 0 else after + WHOLE))
        if stop == after:
            return None
        end = _END.match(text, stop)
        stop = end.end() if end else stop
    begin = _BEGINNING.search(front)
    return Found(name, low + begin.start() if begin else after, stop, stop)


def _putty(text: str, at: int) -> Found | None:
    """After ``Private-Lines: 14``, or before ``Private-MAC: …``."""
    if header := _LINES.match(text, at + 1):
        stop = _walk(text, header.end())
        return Found("pem", header.end(), stop, stop) if stop > header.end() else None
    stop = at - len("Private")
    start = _walk_back(text, stop)
    return Found("pem", start, stop, at) if start < stop else None


def _headless(text: str, at: int) -> Found | None:
    """A key without its first marker: what it begins with tells it from a certificate and a public key."""
    stop = _walk(text, at) if _HEADLESS.match(text, at) else at
    return Found("pem", at, stop, stop) if stop > at else None


KEYBLOCKS: tuple[Kind, ...] = (
    Kind("pem", "-", _marked, "(?<=PRIVATE KEY-)", "--"),
    Kind("pem", "-", _marked, "(?<=PRIVATE KEY -)", "--"),
    Kind("pem", "-", _marked, "(?<=PRIVATE KEY BLOCK-)", "--"),
    Kind(
        "pem",
        "M",
        _headless,
        r"(?<![A-Za-z0-9+/]M)",
        "II[A-Za-z0-9+/]{3}IBA(?:DAN|AKC)|H[cQ]CAQEEI|I[GH][A-Za-z0-9+/]AgEAM[BD][MA]G|C4CAQAwBQYDK2V",
    ),
    Kind("pem", "b", _headless, "(?<![A-Za-z0-9+/]b)", "3BlbnNzaC1rZXktdj"),
    Kind("pem", "-", _putty, "(?<=Private-)", r"Lines: ?\d|MAC|Hash"),
)
