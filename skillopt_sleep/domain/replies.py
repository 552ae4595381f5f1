"""Read JSON out of what a model wrote.

Structured output mostly is pure JSON, but a CLI may wrap it in a code fence, put a sentence before it or a remark
after it. Reading is tolerant about what stands around the JSON, never about the JSON itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NoReturn

from skillopt_sleep.domain import Json

__all__ = ["extract_json"]

ATTEMPTS = 64
"""Places in a text where JSON is looked for; each may read to the end, so their number bounds the time."""

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)


def extract_json(text: str) -> Json:
    """The JSON in a text: all of it, what a code fence holds, else the first object, else the first array.

    Raises ``ValueError`` when there is none.
    """
    for candidate in (text, *_FENCE.findall(text)):
        try:
            return _decode(candidate.strip(), whole=True)
        except ValueError:
            continue
    for opening in "{[":
        for start in _starts(text, opening):
            try:
                return _decode(text[start:], whole=False)
            except ValueError:
                continue
    raise ValueError(f"no JSON in a reply of {len(text)} characters that begins {text[:60]!r}")


def _starts(text: str, opening: str) -> Iterator[int]:
    start = -1
    for _ in range(ATTEMPTS):
        start = text.find(opening, start + 1)
        if start < 0:
            return
        yield start


def _decode(text: str, *, whole: bool) -> Json:
    try:
        value: Json
        value, end = _DECODER.raw_decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if whole and end != len(text):
        raise ValueError(f"more text after the JSON, at {end}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
