"""One walk over a text, from sign to sign; what is found is put into other words for good."""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from skillopt_sleep.model.session import Session
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.safety.receivers import worth_hiding
from skillopt_sleep.safety.redaction.arguments import COMMANDS, PIPES
from skillopt_sleep.safety.redaction.escapes import Reading, read, unmarked
from skillopt_sleep.safety.redaction.key_blocks import KEYBLOCKS
from skillopt_sleep.safety.redaction.kinds import (
    PLACEHOLDER,
    Found,
    Kind,
    Signs,
    continued,
    drawn_at_random,
    goes_on,
    telling,
)
from skillopt_sleep.safety.redaction.names import NAMING, URLS
from skillopt_sleep.safety.redaction.pairs import APART
from skillopt_sleep.safety.redaction.shapes import SHAPES
from skillopt_sleep.safety.redaction.values import SAID

REMEMBERED = 10
"""Characters of a secret from which on it is hidden in the rest of a session too, wherever it stands alone."""
FORM = 64
"""Characters in which the sign of a form stands, from its beginning."""
AROUND = 1_000
"""Characters around what was taken out that are looked at again."""
PARTS = frozenset("\n\r\\\"'`")
"""What a secret that goes on in the next line ends with."""
PASSES = 6
"""Walks at most. One finds nearly all; what is around is walked again until nothing is found."""

V = TypeVar("V")
Windows = tuple[tuple[int, int], ...]

KINDS: tuple[Kind, ...] = (*KEYBLOCKS, *SHAPES, *URLS, *COMMANDS, *SAID, *PIPES, *NAMING, *APART)
"""Every kind, in the order in which they are asked at one place."""

_MARKER = re.compile(r"-{1,5} ?(?:BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{1,5}")
_GLUE = re.compile(r"[^A-Za-z0-9]+")
"""What is none of a key: its markers, and what parts its lines."""


_SIGNS = Signs(KINDS)
_FORMS = Signs(SHAPES)


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
        return any(value in text for value in self._literals) or next(_find(_readings(text)[-1].text), None) is not None

    def found(self, text: str, around: int = 0) -> list[tuple[str, str]]:
        """Each secret of a text as it stands there, with the ``around`` characters before it: for measurements."""
        readings = _readings(text)
        places = [_back(readings, (each.start, each.stop)) for each in _find(readings[-1].text)]
        return [(text[max(0, start - around) : start], text[start:stop]) for start, stop in places]

    def changes(self, texts: Sequence[str]) -> dict[str, str]:
        """Those of many texts that hold secrets, and what they are without them.

        A secret that one text gives away is hidden in the others as well, where nothing does.
        """
        if not self.suspects("\n".join(texts)):
            return {}
        secrets: list[str] = []
        redacted = {text: self._redact(text, secrets) for text in texts}
        told = [each for each in secrets if len(each) >= REMEMBERED and telling(each) and "\n" not in each]
        known = _any_of(form for each in told for form in _forms(each))
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
        readings = _readings(text)
        taken: list[tuple[int, int, str]] = []
        windows: Windows | None = None
        for _ in range(PASSES):
            reads = readings[-1].text
            found = [*_find(reads, windows)]
            if not found:
                break
            secrets += (reads[each.start : each.stop] for each in found if each.kind == "secret")
            marks = [placeholder(each.kind, reads[each.start : each.stop]) for each in found]
            places = [(each.start, each.stop) for each in found]
            taken += ((*_back(readings, place), mark) for place, mark in zip(places, marks, strict=True))
            readings.append(readings[-1].without(places, marks))
            windows = _around(readings[-1])
        return _with_marks(text, taken)

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
    passed: dict[int, int] = {}
    for at in chain.from_iterable(_SIGNS.places(text, *each) for each in windows or ((0, len(text)),)):
        if at >= end and (found := _SIGNS.secret(text, at, end, passed)) is not None:
            found = _known(text, found)
            yield found
            end = found.end


def _known(text: str, found: Found) -> Found:
    """By its form, where what its surroundings gave away has one: the same secret gets the same placeholder."""
    if found.kind != "secret":
        return found
    value = text[found.start : found.stop]
    if text[found.stop : found.stop + 1] in PARTS and (longer := _longer(text, found)):
        return longer
    for at in _FORMS.places(value, 0, FORM):
        inner = _FORMS.secret(value, at, 0, {})
        if inner is not None and (inner.start, inner.stop) == (0, len(value)):
            return found._replace(kind=inner.kind)
    return found


def _longer(text: str, found: Found) -> Found | None:
    """The whole of a secret that goes on in the next line."""
    if not goes_on(text, found.stop):
        return None
    for at in _FORMS.places(text, found.start, found.start + FORM):
        inner = _FORMS.secret(text, at, found.start, {})
        if inner is not None and inner.start == found.start and inner.stop > found.stop:
            return inner
    value = text[found.start : found.stop]
    stop = continued(text, found.start, found.stop) if drawn_at_random(value) else found.stop
    return found._replace(stop=stop, end=max(stop, found.end)) if stop > found.stop else None


def _readings(text: str) -> list[Reading]:
    """The steps from the text as it stands to the text as it reads."""
    plain = read(text)
    return [plain, unmarked(plain.text)]


def _back(readings: Sequence[Reading], place: tuple[int, int]) -> tuple[int, int]:
    """A place of the last reading in the text that the first one was made of."""
    for reading in reversed(readings):
        place = reading.original(*place)
    return place


def _around(reading: Reading) -> Windows:
    """Where something new may have come about: around each mark."""
    windows: list[tuple[int, int]] = []
    for start, stop in zip(reading.reads[1:-1:2], reading.reads[2::2], strict=True):
        opening = max(0, start - AROUND)
        if windows and opening <= windows[-1][1]:
            windows[-1] = (windows[-1][0], stop + AROUND)
        else:
            windows.append((opening, stop + AROUND))
    return tuple(windows)


def _with_marks(text: str, taken: Sequence[tuple[int, int, str]]) -> str:
    """The text with the marks of what was taken out; one that was found around another stands for both."""
    pieces: list[str] = []
    end = 0
    for start, stop, mark in sorted(taken, key=lambda each: (each[0], -each[1])):
        if start >= end:
            pieces += (text[end:start], mark)
            end = stop
    return "".join((*pieces, text[end:]))


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
    return re.compile(f"{PLACEHOLDER}|(?P<secret>{'|'.join(map(re.escape, ordered))})")


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
