"""Secrets that a sentence gives away, or the words of a login file."""

from __future__ import annotations

import re

from skillopt_sleep.domain.redact.kind import Found, Kind, irregular, mixed, telling
from skillopt_sleep.domain.redact.values import is_identifier, stands_for

__all__ = ["SAID"]

BACK = 300
MANIFEST = 3_000
"""Characters of the manifest of a secret."""
LEAST_PASSWORD = 6
LEAST = 8
LEAST_KEY = 16
"""Characters of something that is said to be a password, another secret, a key."""

_NETRC = re.compile(r"password\s{1,8}\\?[\"']?(?P<secret>[^\s\"'\\]{3,400}?)(?=[\s\"'\\]|</|\Z)")
_LOGIN = {"machine", "login", "account", "default"}
_WIFI = re.compile(r"\bnmcli\b[^\n;|]*\Z")
_PLAIN = re.compile(r"[A-Za-z]{1,99}(?:[._/-][A-Za-z]{1,99}){0,9}\W{0,3}|[\d.,:]*|-.*")
_HOST = re.compile(r"[\w-]*(?:[.:\d]|localhost)[\w.:-]*")

_PGPASS = re.compile(
    r":(?:[0-9]{4,5}|\*):[A-Za-z*][^\s:/]{0,63}:[A-Za-z*][^\s:/]{0,63}:(?P<secret>[^\s:\"'\\]{4,200})(?=[\"'\s]|\Z)"
)
_HOST_BEFORE = re.compile(r"(?:^|[\s>+\"'])[\w.*-]{1,100}\Z")
_SECRET = "kind: Secret"  # noqa: S105 -- what the manifest of one says
_ENTRY = re.compile(r":[ ](?P<secret>[A-Za-z0-9+/]{8,12000}={0,2})(?=\s|\Z)")

_SAYS = (
    r"s?(?: (?:for|to|of|on|in) [^\n.:;,=]{1,24}?)?(?: (?:is|was|will be|to|ist|lautet|est|es)(?: now)?:?|:)"
    r"(?:[ ]{1,2}|[ ]?\r?\n(?=[\w!#$%^&*+.-]{10,200}[ ]?(?:\r?\n|\Z)))"
)
_SAYS = rf"(?:{_SAYS}|[ ](?=[A-Za-z]{{0,24}}[0-9][\w!#$%^&*+-]{{8}}))"
"""To what is said, in the same sentence, or by itself in the next line."""
_SAID = re.compile(
    r"(?:pass(?:word|phrase|code|wd)|token|key|secret)"
    rf"{_SAYS}[^\w\n]{{0,3}}?(?P<secret>[^\s\\\"'`,;<>()\[\]{{}}\u201c\u201d]{{6,400}})",
    re.IGNORECASE,
)
_TOLD = re.compile(r":[ ]|(?:is|was|be|to|ist|lautet|est|es|now):?[ ]")
_KEY_BEFORE = re.compile(
    r"(?:api|access|account|secret|private|auth|encryption|signing|master|storage|shared|unseal|recovery)[ _-]\Z",
    re.IGNORECASE,
)
_AWS = re.compile(
    r"secret[_. -]?(?:access[_. -]?)?key\b[^\n]{0,40}?(?:\n[ \t>]{0,8})?(?<![A-Za-z0-9+/])(?P<secret>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])",
    re.IGNORECASE,
)


def _netrc(text: str, at: int) -> Found | None:
    """``machine host login user password …``, in a line or in several."""
    match = _NETRC.match(text, at)
    if match is None or stands_for(match["secret"]):
        return None
    found = Found("secret", *match.span("secret"), match.end())
    before = text[max(0, at - BACK) : at]
    if not any(word in before for word in ("login", "machine", "default", "nmcli", "account")):
        return None
    if _WIFI.search(before):
        return found
    words = before.split()[-4:]
    default = words[-1:] == ["default"] or words[-3:-2] == ["default"]
    if not default and not _LOGIN & set(words[-2::-2]):
        return None
    lines = before.rstrip(" \t").endswith("\n") and bool({*before.rstrip().rpartition("\n")[2].split()[:1]} & _LOGIN)
    host = next((words[place + 1] for place in (-2, -4) if words[place:][:1] == ["machine"]), None)
    if lines or (host is not None and _HOST.fullmatch(host)):
        return found
    value = match["secret"]
    return None if _PLAIN.fullmatch(value) or is_identifier(value) else found


def _pgpass(text: str, at: int) -> Found | None:
    """``host:5432:database:user:password``."""
    match = _PGPASS.match(text, at)
    if match is None or _HOST_BEFORE.search(text, max(0, at - 101), at) is None:
        return None
    value = match["secret"]
    if stands_for(value) or not telling(value) or is_identifier(value):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _manifest(text: str, at: int) -> Found | None:
    """An entry below ``data:`` in the manifest of a secret of Kubernetes."""
    following = text.find(_SECRET, at)
    if text.rfind(_SECRET, max(0, at - MANIFEST), at) < 0 and not 0 <= following - at < MANIFEST:
        return Found("", at, at, max(at, following - MANIFEST + 1) if following >= 0 else len(text))
    match = _ENTRY.match(text, at)
    above = text[max(0, at - MANIFEST) : at].split("\n")
    depth = _depth(above[-1])
    parent = next((line for line in reversed(above[:-1]) if line.strip() and _depth(line) < depth), "")
    written = parent.strip() == "data:" or (parent.strip() == "stringData:" and match and telling(match["secret"]))
    if match is None or not written or stands_for(match["secret"]):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _said(text: str, at: int) -> Found | None:
    """``the password is …``; ``at`` is inside the word, whose start is looked for."""
    start = at
    while start > 0 and at - start < 3 and text[start - 1].isalpha():  # noqa: PLR2004
        start -= 1
    if text[start] in "sS" and (aws := _AWS.match(text, start)):
        value = aws["secret"]
        if mixed(value) and any(map(str.isupper, value)) and any(map(str.islower, value)):
            return Found("aws", *aws.span("secret"), aws.end())
    match = _SAID.match(text, start)
    if match is None:
        return None
    value = match["secret"].rstrip(".,;:!?)*")
    word = text[start : start + 3].lower()
    if word == "key" and not (_KEY_BEFORE.search(text, max(0, start - 14), start) and len(value) >= LEAST_KEY):
        return None
    if not _is_said(value, password=word == "pas", told=_TOLD.search(text, start, match.start("secret")) is not None):
        return None
    return Found("secret", match.start("secret"), match.start("secret") + len(value), match.end())


def _is_said(value: str, *, password: bool, told: bool) -> bool:
    """Whether what is said is a secret; where it is not ``told`` by a verb or a colon, it must show by itself."""
    if len(value) < (LEAST_PASSWORD if password else LEAST) or stands_for(value) or not telling(value):
        return False
    return (told or irregular(value)) and (password or not is_identifier(value))


SAID: tuple[Kind, ...] = (
    Kind("manifest", ":", _manifest, r"(?<=[\w]:)", r"[ ][A-Za-z0-9+/]{8,12000}={0,2}(?:[ \r]?\n|\Z)"),
    Kind(
        "pgpass",
        ":",
        _pgpass,
        r"(?<=[\w*]:)",
        r"(?:[0-9]{4,5}|\*):[A-Za-z*][^\s:/]{0,63}:[A-Za-z*][^\s:/]{0,63}:[^\s:]{4}",
    ),
    Kind("netrc", "p", _netrc, "(?=assword)", r"assword\s"),
    Kind("said", "p", _said, "(?=ass[wpc])", r"ass(?:word|phrase|code|wd)" + _SAYS),
    Kind("said", "P", _said, "(?=[aA])", r"(?i:ass(?:word|phrase|code|wd))" + _SAYS),
    Kind("said", "kK", _said, r"(?=[eE][nNyY][sS]?[ :])(?:(?<=[oO][kK])|(?<=[ _-][kK]))", r"(?i:en|ey)" + _SAYS),
    Kind(
        "said",
        "cC",
        _said,
        r"(?=[rR][eE][tT])(?<=[eE][cC])",
        r"(?i:ret)(?:[_. -]?(?:access[_. -]?)?key\b|" + _SAYS + ")",
    ),
)
