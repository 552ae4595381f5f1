"""The signs of many kinds in one pattern, and which of the kinds have theirs at a place."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress

from skillopt_sleep.domain.redact.kind import LONG, RUN, Found, Kind

__all__ = ["PLACEHOLDER", "Signs"]

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
