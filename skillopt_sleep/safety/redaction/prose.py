"""Find secrets that a sentence gives away, in the languages of ``languages.json``: a word for it, any verb, the value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.safety.redaction import Found, Kind, lazy
from skillopt_sleep.safety.redaction.shapes import is_identifier_of_object, is_issued
from skillopt_sleep.safety.redaction.values import (
    is_identifier,
    is_irregular,
    is_mixed,
    is_random,
    is_sentence,
    is_stand_in,
    looks_made,
)

REACH = 110
"""Characters after the word in which its value is looked for."""
BACK = 90
"""Characters before the word in which its value is looked for: ``… is the password``."""
MOST_WORDS = 9
"""Most words between the word and its value."""
LEAST_PASSWORD, LEAST_KEY = 6, 8
LEAST_UNTOLD, LEAST_UNTOLD_KEY = 7, 16
"""Least characters of a value that no verb or colon introduces."""
LONGEST = 400
INSIDE_A_NAME = frozenset("/\\._(@")
"""Characters that follow the word in a path or a name, and in no sentence."""
SHORT = 4
"""Length in characters up to which a word for a secret must not be a part of another word."""
STRONG = 16
"""Least characters of a value right after the word, which nothing else gives away."""
PHRASE = 80
"""Most characters of a phrase that is a password."""

_VALUE = lazy(
    r"(?![-/.:=]{1,2}[\w])(?![:=])[!#$%&*+./0-9:=?@A-Z^_a-z|~\u00a1-\u00aa\u00ac-\u00ba\u00bc-\u052f-]{6,400}"
)
"""A word of letters with cases, digits and signs, also between letters of another script."""
_QUOTED = lazy(
    "[\"'`\u201c\u201e\u00ab\u300c](?P<secret>[^\"'`\u201c\u201d\u00bb\u300d\n]{6,80})[\"'`\u201c\u201d\u00bb\u300d]"
)
_LIVELY = lazy("[0-9@#$%^&*~|+!]")
_UNUSUAL = lazy("[a-z][A-Z]|[\"'`\u201c\u201e\u00ab\u300c][a-z]{2,12}[ -][a-z]{2,12}[ -][a-z]")
"""What every secret has that a sentence gives away: a digit, a sign, capitals inside a word, or a quoted phrase."""
_NO_PROSE = lazy(r"[.!?\u3002\uff01\uff1f](?=\s|\Z)|[\n={}]|:[!-~](?<![\"'`*_])")
"""The end of a sentence, an assignment, a block of code."""
_NEXT_LINE = lazy(r"[ \t:\uff1a]{0,3}\r?\n(?P<secret>[\w!#$%^&*+.-]{10,200})[ ]?(?=\r?\n|\Z)")
_ABOUT = lazy(
    r"s?[ _-](?:manager|policy|policies|hash\w*|field|input|prompt|reset|length|strength|generator|column|check|valid\w+|rotation|expir\w*"
    r"|count\w*|limit|usage|budget|bucket|type|name|id|url|file|path|store|vault|protect\w+|auth\w*|login|based|less|pair|word|board|stroke|point|value pair)s?\b",
    re.IGNORECASE,
)
_OF_SOMETHING = lazy(
    r"\b(?:user(?:name)?|login|account|host(?:name)?|server|database|branch|ticket|issue|version|commit|file|table|column|field|line|step|see|in|at|on|by|from|than|mit|von|in|auf|para|de|por)[ :#=`\"']{1,3}\Z",
    re.IGNORECASE,
)
_NO_VALUE = lazy(
    r".*(?:://|\(\)|\.\w{1,5}[:.,]?\Z)|[\w.+-]+@[\w-]+\.\w+.*|(?:~?/|\.{1,2}/|[A-Za-z]:\\).*|[vV]?[0-9]+(?:[.,:/-][0-9]+)*[%+]?|[0-9]{1,5}[- ]?[^\W\d_]{1,12}|#?[0-9]+"
    r"|[A-Z]{2,6}-[0-9]{1,6}(?:-[0-9]+)?|[a-z]+(?:-[a-z]+)*|[A-Z][a-z]+[0-9]|[\w-]+\.[\w.-]*[a-z]{2,4}|[a-z_]+[0-9]?(?:_[a-z0-9]+)+|x25519|[A-Za-z]+/[A-Za-z/]+",
)
"""A URL, a call, a file, an address, a path, a version, an amount, a ticket, words, a name in a program."""
_SYMBOL = lazy(r"[!@#$%^&*?+=~].|.[!@#$%^&*+=~]")
_DIGITS = lazy(r"[0-9].*[0-9]")
_HEX = lazy(r"[0-9a-f]{7,64}")
_UUID = lazy(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_NUMBERED_WORDS = lazy(r"[A-Za-z]{3,12}(?:[-_.][A-Za-z]{3,12}){1,4}[-_.]?[0-9]{2,4}")
"""What a generator of memorable passwords makes."""
_PIN = lazy(
    r"(?: codes?| (?:of|for|der|du|de|del|della) [^\n:.0-9]{1,30})?(?: (?:is|ist|est|es|\u00e8)|:| =)?[ ]{1,2}(?P<secret>[0-9]{4,8})(?![\w.])",
    re.IGNORECASE,
)
_WIDE = lazy(r"[^\W\d_a-zA-Z]{3,40}[0-9]{2}|[0-9]{2}.?[^\W\d_a-zA-Z]{3}")
"""Letters beyond ASCII beside digits."""
_PAIR = lazy(r"s?(?:[^\n:;]{0,24}:| [-\u2013\u2014=]|)[ \t]{1,4}[\w.@+-]{2,40}(?:[ ]?[/|:,][ ]?|[ ])(?=[!-~]{6})")
"""A user after ``login:``, and what separates a password from it."""
_PHRASE = lazy(r"[a-z]{2,12}(?:[ -][a-z]{2,12}){2,7}")
_BEFORE = lazy(
    r"(?:\A|[\s\"'`(])(?P<secret>[!-~]{7,64}?)[\"'`]?,? (?:is|as|was|ist|als|es|como|est|comme|is the|\u00e8|\u00e9|jest|to|\u044d\u0442\u043e) (?:[^\W\d_]{1,12} ){0,3}\Z"
)
_IN_A_NAME = lazy(r"[A-Za-z0-9][_. -]?\Z")
_ALNUM = lazy(r"(?=[A-Za-z]*[0-9]+[A-Za-z]+[0-9A-Za-z]*[0-9]|[0-9]{2,}[A-Za-z]|[A-Za-z]{4,}[0-9]{3})[A-Za-z0-9+=]+")
_GROUPS = lazy(r"(?=(?:[A-Za-z-]*[0-9]){4})(?=(?:[0-9-]*[A-Za-z]){4})[A-Za-z0-9]{4,16}(?:-[A-Za-z0-9]{4,16}){3,}")
_ONE_SORT = lazy(r"[a-z]{20,80}|[A-Z]{20,80}|[0-9]{24,80}")
"""A run longer than any word, or any number that names something."""
_IS = lazy(r"[\"'`*_]{0,2}(?: for [^\n:]{1,30})?(?: is|:|\uff1a)[\s\"'`*]")
_BETWEEN = lazy(
    r"[\s:=\"'`_.-]{1,4}(?:(?:key|token|tok|secret|access|private|value|is|was|ist|est|es)[\s:=\"'`_.-]{1,4}){0,2}",
    re.IGNORECASE,
)
_HARMLESS = lazy(
    r"(?:cache|sort|public|primary|foreign|commit|gpg|pgp|ssh|partition|object|row|hash|lookup|group|dedup\w*|idempotency|s3|map|dict|json|the|csrf|page|next)[ _-]?\Z",
    re.IGNORECASE,
)


class _Languages(Struct, frozen=True):
    password: Mapping[str, Sequence[str]]
    key: Mapping[str, Sequence[str]]
    told: Sequence[str]


@cache
def _load() -> _Languages:
    return msgspec.json.decode(Path(__file__).with_name("languages.json").read_bytes(), type=_Languages)


def list_secret_words() -> tuple[str, ...]:
    """List the words for passwords, keys and what else lets in, in every language."""
    named = _load()
    groups = (*named.password.values(), *named.key.values())
    return (*(word for words in groups for word in words), "credential", "cookie", "authorization header", "senhas")


@cache
def _told() -> re.Pattern[str]:
    """Return the pattern of what comes right before a value: a verb, a colon, an arrow."""
    words = "|".join(sorted(map(re.escape, _load().told), key=len, reverse=True))
    return re.compile(
        rf"(?:(?<![^\W_])|(?<=[^\x00-\u024f]))(?:{words})[\s:]{{0,3}}[\"'`*_\u201c\u201e\u00ab\u300c(]{{0,3}}\Z",
        re.IGNORECASE,
    )


def build_kinds() -> tuple[Kind, ...]:
    """Return the kinds for passwords and for keys."""
    named = _load()
    passwords, keys = (
        tuple(dict.fromkeys(word for words in group.values() for word in words))
        for group in (named.password, named.key)
    )
    return (
        Kind(passwords, lambda text, start, end: _find_said(text, start, end, password=True)),
        Kind(keys, lambda text, start, end: _find_said(text, start, end, password=False), in_plain_words=False),
        Kind(("pin", "2fa code", "otp"), _find_pin),
        Kind(("login", "logins", "creds", "credentials"), _find_beside_login),
        Kind(("key", "token", "secret", "access", "private"), _find_direct, in_plain_words=False),
    )


def _find_said(text: str, start: int, end: int, *, password: bool) -> Found | None:
    """Find what a sentence calls a password or key."""
    if text[end : end + 1] in INSIDE_A_NAME:
        return None
    line = text.find("\n", end, end + REACH)
    zone = line if line >= 0 else min(end + REACH, len(text))
    sentence = text.find(". ", end, zone)
    stop = sentence if sentence >= 0 else zone
    lively = _LIVELY.search(text, end, stop) is not None or (password and _UNUSUAL.search(text, end, stop) is not None)
    if not lively and zone - end > SHORT and not (password and _LIVELY.search(text, max(0, start - BACK), start)):
        return None
    if not _is_telling(text, start, end, password=password):
        return None
    below = _NEXT_LINE.match(text, end) if password else None
    if below and looks_made(below["secret"]) and not is_stand_in(below["secret"]):
        return Found("secret", *below.span("secret"), below.end())
    only_told = text[start:end].lower() == "pass" or (not password and text[end : end + 1] == "s")
    found = _find_after(text, end, stop, password=password, only_told=only_told) if lively else None
    return found or _find_before(text, start, password=password and not only_told)


def _is_telling(text: str, start: int, end: int, *, password: bool) -> bool:
    """Tell whether the word stands for a secret, and is no part of another one or of something about a secret."""
    if _ABOUT.match(text, end) or (end - start <= SHORT and not _stands_alone(text, start, end)):
        return False
    if text[start:end].lower() == "pass":  # or something passes, or is passed
        return _IS.match(text, end) is not None
    return password or not _HARMLESS.search(text, max(0, start - 14), start)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Tell whether a short word is a word of its own, and not the name of a test that passed."""
    around = text[max(0, start - 1) : start] + text[end : end + 1]
    if text[start] >= "\u2e80":  # no blanks between words
        return True
    return not any(c.isalnum() and c < "\u0250" for c in around) and text[start : end + 1] != "PASS:"


def _find_after(text: str, end: int, zone: int, *, password: bool, only_told: bool) -> Found | None:
    """Find the first word after the one for a secret that can be its value."""
    quoted = _QUOTED.search(text, end, zone + PHRASE) if password and not only_told else None
    if quoted and _told().search(text[end : quoted.start()]) and _is_phrase(quoted["secret"]):
        return Found("secret", *quoted.span("secret"), quoted.end())
    for match in _VALUE.finditer(text, end, zone + LONGEST):
        at, value = match.start(), _trim(match[0])
        if at >= zone or (at > end and _NO_PROSE.search(text, end, at + 1)):
            return None
        if _LIVELY.search(value) is None and not is_irregular(value):
            continue
        between = text[end:at]
        told = _told().search(between) is not None
        if len(between.split()) > MOST_WORDS or (only_told and not told):
            return None
        if _is_said_secret(value, password=password, told=told, before=text[max(end - 12, at - 20) : at]):
            return Found("secret", at, at + len(value), at + len(value))
    return None


def _find_before(text: str, start: int, *, password: bool) -> Found | None:
    """Find the value in ``… is the password``."""
    match = _BEFORE.search(text, max(0, start - BACK), start) if password else None
    if match is None or not _is_said_secret(_trim(match["secret"]), password=True, told=False, before=""):
        return None
    return Found(
        "secret", match.start("secret"), match.start("secret") + len(_trim(match["secret"])), match.end("secret")
    )


def _find_beside_login(text: str, start: int, end: int) -> Found | None:
    """Find the password of ``login: ada / …``."""
    pair = _PAIR.match(text, end) if _stands_alone(text, start, end) else None
    match = _VALUE.match(text, pair.end()) if pair else None
    value = _trim(match[0]) if match else ""
    strong = (
        _SYMBOL.search(value) and looks_made(value) and any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    )
    if match is None or not strong or not _is_said_secret(value, password=True, told=False, before=""):
        return None
    return Found("secret", match.start(), match.start() + len(value), match.end())


def _find_pin(text: str, start: int, end: int) -> Found | None:
    """Find the digits of ``the PIN of the card is 1234``."""
    match = _PIN.match(text, end) if _stands_alone(text, start, end) else None
    return Found("secret", *match.span("secret"), match.end()) if match else None


def _find_direct(text: str, start: int, end: int) -> Found | None:
    """Find a long random value right after the word: ``acme TOKEN 5f3a…``, ``acme-secret-5f3a…``, ``acme_key=5f3a…``."""
    between = _BETWEEN.match(text, end)
    match = _VALUE.match(text, between.end()) if between else None
    if match is None or (text[start:end].lower() == "key" and not _IN_A_NAME.search(text, max(0, start - 2), start)):
        return None
    value = _trim(match[0])
    if len(value) < STRONG or set("/:$@") & set(value) or is_stand_in(value):
        return None
    forms = (_ALNUM, _UUID, _GROUPS) if is_mixed(value) else (_ONE_SORT,)
    drawn = any(form.fullmatch(value) for form in forms) or (is_mixed(value) and is_random(value))
    innocent = (
        (forms != (_ONE_SORT,) and _NO_VALUE.fullmatch(value)) or is_identifier(value) or is_identifier_of_object(value)
    )
    if not drawn or innocent or _HARMLESS.search(text, max(0, start - 14), start):
        return None
    return Found("secret", match.start(), match.start() + len(value), match.end())


def _trim(value: str) -> str:
    value = value.rstrip("*_")
    return value.rstrip(".,;:?)")


def _is_phrase(value: str) -> bool:
    return (looks_made(value) and " " in value and not is_sentence(value) and not is_stand_in(value)) or (
        _PHRASE.fullmatch(value) is not None and not is_sentence(value) and not is_stand_in(value)
    )


def _is_said_secret(value: str, *, password: bool, told: bool, before: str) -> bool:
    """Tell whether a word of a sentence is a secret; if neither verb nor colon introduced it, it must look like one."""
    if (
        is_stand_in(value)
        or (_NO_VALUE.fullmatch(value) and not _NUMBERED_WORDS.fullmatch(value))
        or (is_identifier(value) and not password)
    ):
        return False
    if told:
        made = looks_made(value) or (password and any(form.search(value) for form in (_WIDE, _NUMBERED_WORDS)))
        return len(value) >= (LEAST_PASSWORD if password else LEAST_KEY) and made
    if (
        len(value) < (LEAST_UNTOLD if password else LEAST_UNTOLD_KEY)
        or not looks_made(value)
        or _OF_SOMETHING.search(before)
    ):
        return False
    if _HEX.fullmatch(value) or _UUID.fullmatch(value) or is_identifier(value):
        return False
    letters = any(map(str.isalpha, value))
    strong = letters and (
        _DIGITS.search(value) is not None or (_SYMBOL.search(value) is not None and any(map(str.isdigit, value)))
    )
    return strong and (password or is_random(value) or is_irregular(value) or is_issued(value))
