"""Find secrets by their own form where that takes more than a pattern: tokens in parts, Base64 that can be decoded."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from skillopt_sleep.safety.redaction.kinds import EDGE, Found, Kind, find_end, is_opaque, lazy, reject
from skillopt_sleep.safety.redaction.looks import encodes_a_pair, is_mixed, is_random

BESIDE = 160
"""Characters from the name of a key in which its secret is looked for."""
DISTINCT = 6

_AWS_NAME = lazy(r"(?<![A-Za-z0-9])A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])")
_AWS_SECRET = lazy(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])")
_BASIC = lazy(r"[Bb](?:asic|ASIC)[ \t]{1,4}(?P<secret>[A-Za-z0-9+/_-]{6,4000}={0,2})")
_BEARER = lazy(r"[Bb](?:earer|EARER)\s{1,4}[\"']?(?P<secret>[\w.~+/=-]{16,8000})")
_JWT = lazy(
    EDGE
    + r"eyJ[\w-]{8,4000}+\.(?:\\?\n[ \t]{0,8})?(?:eyJ[\w-]{4,8000}|[\w-]{0,800}\.[\w-]{8,8000}\.)(?:\.?[\w-]{0,8000}){0,4}"
)
_RUN = lazy(r"[\w-]{1,4000}")
_ENCODED = lazy(r"(?:eyJ0eXBlIjo|ewogICJ0eXBlIjo|LS0tLS1CRUdJTi)[A-Za-z0-9+/=]{40,40000}")


def _find_aws_pair(text: str, at: int, _: int) -> Found | None:
    """Find the secret that stands beside the name of its key: in a table, as the next argument, in the next line."""
    name = _AWS_NAME.match(text, at)
    if name is None:
        return None
    for match in _AWS_SECRET.finditer(text, name.end(), name.end() + BESIDE):
        if is_opaque(match[0]) and is_random(match[0]):
            return Found("aws", *match.span(), match.end())
    return None


def _find_jwt(text: str, at: int, _: int) -> Found | None:
    match = _JWT.match(text, at)
    if match is None:
        run = _RUN.match(text, at)
        return reject(at, run.end()) if run else None  # what begins further on in this run is none either
    stop = find_end(text, match.end())
    return Found("jwt", match.start(), stop, stop)


def _find_basic(text: str, at: int, _: int) -> Found | None:
    match = _BASIC.match(text, at)
    if match is None or not encodes_a_pair(match["secret"]):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _find_bearer(text: str, at: int, _: int) -> Found | None:
    match = _BEARER.match(text, at)
    if match is None or not is_mixed(match["secret"]) or len(set(match["secret"])) <= DISTINCT:
        return None
    return Found("secret", *match.span("secret"), match.end())


def _build_find_encoded(sign: bytes, head: int) -> Callable[[str, int, int], Found | None]:
    def find(text: str, at: int, _: int) -> Found | None:
        """Find the Base64 of a key file; that of a certificate begins alike."""
        match = _ENCODED.match(text, at)
        if match is None:
            return None
        try:
            begins = base64.b64decode(match[0][: min(head, len(match[0])) // 4 * 4])
        except (binascii.Error, ValueError):
            return None
        return Found("pem", *match.span(), match.end()) if sign in begins else reject(*match.span())

    return find


SHAPES: tuple[Kind, ...] = (
    Kind(("akia", "asia"), _find_aws_pair),
    Kind(("eyj",), _find_jwt),
    Kind(("basic ", "basic\t"), _find_basic),
    Kind(("bearer",), _find_bearer),
    Kind(("ls0tls1crudjti",), _build_find_encoded(b"PRIVATE KEY", 88)),
    Kind(("eyj0exblijo", "ewogicj0exblijo"), _build_find_encoded(b"service_account", 120)),
)
"""Secrets by their form."""
