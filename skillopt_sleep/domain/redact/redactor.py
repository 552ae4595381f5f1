"""One walk over a text, from sign to sign; what is found is put into other words for good."""

from __future__ import annotations

import enum
import hashlib
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from skillopt_sleep.domain.environ import worth_hiding
from skillopt_sleep.domain.redact.apart import APART
from skillopt_sleep.domain.redact.commands import COMMANDS
from skillopt_sleep.domain.redact.keyblocks import KEYBLOCKS
from skillopt_sleep.domain.redact.kind import LONG, Found, Kind, continued, drawn_at_random, goes_on, telling
from skillopt_sleep.domain.redact.naming import NAMING
from skillopt_sleep.domain.redact.pipes import PIPES
from skillopt_sleep.domain.redact.shapes import SHAPES
from skillopt_sleep.domain.redact.urls import URLS
from skillopt_sleep.domain.session import Session
from skillopt_sleep.domain.task import TaskRecord

__all__ = ["KINDS", "Redactor", "redact_session", "redact_task"]

REMEMBERED = 10
"""Characters of a secret from which on it is hidden in the rest of a session too, wherever it stands alone."""
PLACEHOLDER = 40
"""Characters of the longest placeholder."""
FREQUENT = frozenset("ckpb./_=:-")
"""Anchors that texts have most of; they are tried first."""
GATES = {".": r"(?=[\w-]{16}|slack|com/|c\.)"}
"""What anything wanted behind an anchor begins with, where that is not what most often follows it."""
AROUND = 1_000
"""Characters around what was taken out that are looked at again."""
PARTS = frozenset("\n\r\\\"'`")
"""What a secret that goes on in the next line ends with."""
PASSES = 6
"""Walks at most. One finds nearly all; what is around is walked again until nothing is found."""

V = TypeVar("V")
Windows = tuple[tuple[int, int], ...]

KINDS: tuple[Kind, ...] = (*KEYBLOCKS, *SHAPES, *URLS, *COMMANDS, *PIPES, *NAMING, *APART)
"""Every kind, in the order in which they are asked at one place."""

_PLACEHOLDER = r"\[redacted:[\w-]+:[0-9a-f]{6}\]"
_STANDING = re.compile(_PLACEHOLDER)
_MARKER = re.compile(r"-{1,5} ?(?:BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{1,5}")
_GLUE = re.compile(r"\\+[nr]|[^A-Za-z0-9\\]+|\\+")
"""What is none of a key: its markers, and what parts its lines."""


def _signs(kinds: Iterable[Kind]) -> re.Pattern[str]:
    """One pattern for all signs: an anchor, then what must hold at it, the cheapest first."""
    wanted: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for kind in kinds:
        for anchor in kind.anchors:
            wanted[anchor][kind.peek if kind.peek == LONG else ""].append(
                kind.sign if kind.peek == LONG else kind.sign + (f"(?={kind.peek})" if kind.peek else "")
            )
    branches = []
    for anchor in sorted(wanted, key=lambda each: (each not in FREQUENT, each)):
        peeks = wanted[anchor]
        conditions = []
        for peek, signs in peeks.items():
            behind = "" if "" in signs else f"(?:{'|'.join(dict.fromkeys(signs))})"
            conditions.append((f"(?={peek})" if peek else "") + behind)
        branches.append(f"{re.escape(anchor)}{GATES.get(anchor, '')}(?:{'|'.join(conditions)})")
    return re.compile("|".join(branches))


_SIGNS = _signs(KINDS)
_BY_ANCHOR: Mapping[str, tuple[tuple[re.Pattern[str], Kind], ...]] = {
    anchor: tuple((_signs([kind._replace(anchors=anchor)]), kind) for kind in KINDS if anchor in kind.anchors)
    for anchor in sorted({anchor for kind in KINDS for anchor in kind.anchors})
}
"""The kinds that may stand at an anchor, each with its own sign."""


class Redactor:
    """Takes secrets out of texts: those of ``KINDS``, and literal ``values`` (of the environment, say).

    A value that is short, a plain word, a number or a path is left alone: it would be found everywhere.
    """

    def __init__(self, values: Sequence[str] = ()) -> None:
        self._literals = {form: value for value in values if worth_hiding(value) for form in _forms(value)}
        self._literal = _any_of(self._literals)

    def redact(self, text: str) -> str:
        """The text with a placeholder for each secret; redacting it once more changes nothing."""
        return self._redact(text, [])

    def suspects(self, text: str) -> bool:
        """Whether anything in the text is a secret."""
        return any(value in text for value in self._literals) or next(_find(text), None) is not None

    def found(self, text: str, around: int = 0) -> list[tuple[str, str]]:
        """Each secret of a text as it stands there, with the ``around`` characters before it: for measurements."""
        return [(text[max(0, each.start - around) : each.start], text[each.start : each.stop]) for each in _find(text)]

    def changes(self, texts: Sequence[str]) -> dict[str, str]:
        """Those of many texts that hold secrets, and what they are without them.

        A secret that one text gives away is hidden in the others as well, where nothing does.
        """
        if not self.suspects("\n".join(texts)):
            return {}
        secrets: list[str] = []
        redacted = {text: self._redact(text, secrets) for text in texts}
        known = _any_of({each for each in secrets if len(each) >= REMEMBERED and telling(each) and "\n" not in each})
        if known:
            redacted = {text: known.sub(_hide_secret, done) for text, done in redacted.items()}
        return {text: done for text, done in redacted.items() if done != text}

    def clean(self, value: V) -> V:
        """A value without secrets in any text of it, however deep; the very same value if it held none."""
        changed: object = value
        if isinstance(value, str):
            changed = self.redact(value) if not isinstance(value, enum.Enum) else value
        elif isinstance(value, msgspec.Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            cleaned = {name: self.clean(field) for name, field in fields.items()}
            differs = {name: field for name, field in cleaned.items() if field is not fields[name]}
            changed = replace(value, **differs) if differs else value
        elif isinstance(value, dict):
            pairs = {key: self.clean(inner) for key, inner in value.items()}
            changed = pairs if any(pairs[key] is not value[key] for key in pairs) else value
        elif isinstance(value, tuple | list):
            items = [self.clean(each) for each in value]
            same = all(new is old for new, old in zip(items, value, strict=True))
            changed = value if same else type(value)(items)
        return cast("V", changed)

    def _redact(self, text: str, secrets: list[str]) -> str:
        if self._literals and self._literal and any(value in text for value in self._literals):
            text = self._literal.sub(self._hide_literal, text)
        windows: Windows = ((0, len(text)),)
        for _ in range(PASSES):
            found = [*_find(text, windows)]
            if not found:
                break
            secrets += (text[each.start : each.stop] for each in found if each.kind == "secret")
            text, windows = _without(text, found)
        return text

    def _hide_literal(self, match: re.Match[str]) -> str:
        secret = match["secret"]
        return placeholder("environment", self._literals[secret]) if secret else match[0]


def placeholder(kind: str, secret: str) -> str:
    """What stands in the place of a secret; that of a key is the same however its lines are parted."""
    plain = _GLUE.sub("", _MARKER.sub("", secret)) if kind in {"pem", "pgp"} else secret
    return f"[redacted:{kind}:{hashlib.sha256(plain.encode('utf-8', 'replace')).hexdigest()[:6]}]"


def _find(text: str, windows: Windows | None = None) -> Iterator[Found]:
    """Every secret whose sign stands in one of the windows (None: anywhere), in order, none over another."""
    end = 0
    passed: dict[Kind, int] = {}
    for sign in itertools.chain.from_iterable(_SIGNS.finditer(text, *each) for each in windows or ((0, len(text)),)):
        if sign.start() >= end and (found := _at(text, sign.start(), end, passed)) is not None:
            found = _known(text, found)
            yield found
            end = found.end


def _at(text: str, at: int, least: int, passed: dict[Kind, int]) -> Found | None:
    """The secret whose sign stands at a place, unless it begins before ``least``.

    ``passed`` says up to where a kind was looked for in vain.
    """
    for sign, kind in _BY_ANCHOR[text[at]]:
        if passed.get(kind, 0) > at or not sign.match(text, at):
            continue
        found = kind.find(text, at)
        if found is None:
            continue
        if not found.kind:
            passed[kind] = found.end
        elif found.start >= least and not _inside_placeholder(text, at):
            return found
    return None


def _inside_placeholder(text: str, at: int) -> bool:
    start = text.rfind("[redacted:", max(0, at - PLACEHOLDER), at + 1)
    return start >= 0 and _STANDING.match(text, start) is not None and text.find("]", start) >= at


def _known(text: str, found: Found) -> Found:
    """By its form, where what its surroundings gave away has one: the same secret gets the same placeholder."""
    if found.kind != "secret":
        return found
    value = text[found.start : found.stop]
    if text[found.stop : found.stop + 1] in PARTS and (longer := _longer(text, found)):
        return longer
    passed: dict[Kind, int] = {}
    for sign in _SIGNS.finditer(value):
        inner = _at(value, sign.start(), 0, passed)
        if inner is not None and inner.kind != "secret" and (inner.start, inner.stop) == (0, len(value)):
            return found._replace(kind=inner.kind)
    return found


def _longer(text: str, found: Found) -> Found | None:
    """The whole of a secret that goes on in the next line."""
    if not goes_on(text, found.stop):
        return None
    for sign in _SIGNS.finditer(text, found.start, min(len(text), found.stop + AROUND)):
        if sign.start() >= found.stop:
            break
        inner = _at(text, sign.start(), found.start, {})
        if inner is not None and inner.start == found.start and inner.stop > found.stop:
            return inner
    value = text[found.start : found.stop]
    stop = continued(text, found.start, found.stop) if drawn_at_random(value) else found.stop
    return found._replace(stop=stop, end=max(stop, found.end)) if stop > found.stop else None


def _without(text: str, found: Sequence[Found]) -> tuple[str, Windows]:
    """The text with placeholders, and where something new may have come about: around each of them."""
    pieces: list[str] = []
    windows: list[tuple[int, int]] = []
    end = length = 0
    for each in found:
        mark = placeholder(each.kind, text[each.start : each.stop])
        pieces += (text[end : each.start], mark)
        length += each.start - end + len(mark)
        start = max(0, length - len(mark) - AROUND)
        if windows and start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], length + AROUND)
        else:
            windows.append((start, length + AROUND))
        end = each.stop
    return "".join((*pieces, text[end:])), tuple(windows)


def _forms(value: str) -> set[str]:
    """How a value is written: as it is, in JSON, in a URL."""
    return {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe="", errors="replace"),
    }


def _any_of(literals: Iterable[str]) -> re.Pattern[str] | None:
    """Any of these strings, the longest first, but nothing of a placeholder."""
    ordered = sorted(literals, key=lambda each: (-len(each), each))
    if not ordered:
        return None
    return re.compile(f"{_PLACEHOLDER}|(?P<secret>{'|'.join(map(re.escape, ordered))})")


def _hide_secret(match: re.Match[str]) -> str:
    return placeholder("secret", match["secret"]) if match["secret"] else match[0]


def redact_session(session: Session, redactor: Redactor) -> Session:
    """The session without secrets in anything said, run or touched; the very same value if it held none.

    ``source``, ``path``, ids and times stay: they are what a session is found by again.
    """
    changes = redactor.changes(tuple(dict.fromkeys(_texts(session))))
    if not changes:
        return session

    def redact(text: str) -> str:
        return changes.get(text, text)

    return replace(
        session,
        cwd=redact(session.cwd),
        branch=redact(session.branch),
        turns=tuple(
            replace(
                turn,
                prompt=redact(turn.prompt),
                final=redact(turn.final),
                tools=tuple(map(redact, turn.tools)),
                skills=tuple(map(redact, turn.skills)),
                commands=tuple(replace(command, line=redact(command.line)) for command in turn.commands),
                files=tuple(map(redact, turn.files)),
            )
            for turn in session.turns
        ),
    )


def redact_task(task: TaskRecord, redactor: Redactor) -> TaskRecord:
    """The task without secrets in any of its words; the very same value if it held none."""
    return redactor.clean(task)


def _texts(session: Session) -> Iterator[str]:
    yield from (session.cwd, session.branch)
    for turn in session.turns:
        yield from (turn.prompt, turn.final, *turn.tools, *turn.skills, *turn.files)
        yield from (command.line for command in turn.commands)
