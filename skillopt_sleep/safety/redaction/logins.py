"""Find the passwords of files that hold logins: .netrc, .pgpass, the manifest of a Kubernetes secret."""

from __future__ import annotations

import re
from collections.abc import Iterator

from skillopt_sleep.safety.redaction.kinds import Found, Kind, lazy
from skillopt_sleep.safety.redaction.looks import looks_made
from skillopt_sleep.safety.redaction.values import is_identifier, is_stand_in

BACK = 300
MANIFEST = 3_000
"""Most characters of the manifest of a secret."""

_NETRC = lazy(r"password\s{1,8}\\?[\"']?(?P<secret>[^\s\"'\\]{3,400}?)(?=[\s\"'\\]|</|\Z)")
_LOGIN = {"machine", "login", "account", "default"}
_WIFI = lazy(r"\bnmcli\b[^\n;|]*\Z")
_PLAIN = lazy(r"[A-Za-z]{1,99}(?:[._/-][A-Za-z]{1,99}){0,9}\W{0,3}|[\d.,:]*|-.*")
_HOST = lazy(r"[\w-]*(?:[.:\d]|localhost)[\w.:-]*")

_PGPASS = lazy(
    r":(?:[0-9]{4,5}|\*):[A-Za-z*][^\s:/]{0,63}:[A-Za-z*][^\s:/]{0,63}:(?P<secret>[^\s:\"'\\]{4,200})(?=[\"'\s]|\Z)"
)
_HOST_BEFORE = lazy(r"(?:^|[\s>+\"'])[\w.*-]{1,100}\Z")
_SECRET = "kind: Secret"  # noqa: S105 -- what the manifest of one says
_ENTRY = lazy(r"(?<=\w):[ ](?P<secret>[A-Za-z0-9+/]{8,12000}={0,2})(?=\s|\Z)")


def _find_netrc(text: str, at: int, _: int) -> Found | None:
    """Find the password of ``machine host login user password …``, in one line or several."""
    match = _NETRC.match(text, at)
    if match is None or is_stand_in(match["secret"]):
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


def _find_pgpass(text: str, at: int, _: int) -> Found | None:
    """Find the password of ``host:5432:database:user:password``."""
    match = _PGPASS.match(text, at)
    if match is None or _HOST_BEFORE.search(text, max(0, at - 101), at) is None:
        return None
    value = match["secret"]
    if is_stand_in(value) or not looks_made(value) or is_identifier(value):
        return None
    return Found("secret", *match.span("secret"), match.end())


def find_in_manifests(text: str) -> Iterator[Found]:
    """Yield the entries below ``data:`` in every manifest of a Kubernetes secret."""
    after, at = 0, text.find(_SECRET)
    while at >= 0:
        for match in _ENTRY.finditer(text, max(after, at - MANIFEST), at + MANIFEST):
            if _is_datum(text, match):
                yield Found("secret", *match.span("secret"), match.end())
        after, at = at + MANIFEST, text.find(_SECRET, at + 1)


def _is_datum(text: str, match: re.Match[str]) -> bool:
    at = match.start()
    above = text[max(0, at - MANIFEST) : at].split("\n")
    depth = _measure_indent(above[-1])
    parent = next((line for line in reversed(above[:-1]) if line.strip() and _measure_indent(line) < depth), "").strip()
    made = parent == "stringData:" and looks_made(match["secret"])
    return (parent == "data:" or made) and not is_stand_in(match["secret"])


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


LOGINS: tuple[Kind, ...] = (
    Kind(("password",), _find_netrc),
    Kind((":5432:", ":5433:", ":6432:", ":*:"), _find_pgpass),
)
"""Passwords of login files. ``find_in_manifests`` finds those of manifests."""
