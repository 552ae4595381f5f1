"""Passwords in URLs, however their signs are escaped."""

from __future__ import annotations

import re

from skillopt_sleep.domain.redact.kind import Found, Kind, mixed, telling
from skillopt_sleep.domain.redact.values import stands_for

__all__ = ["URLS"]

_USER = r"[^\s/:@\"'<>`\\]{0,255}"
_URL = re.compile(rf"://{_USER}:(?P<secret>[^\s/\"'<>`\\]{{2,400}})@")
_SLASHED = re.compile(
    r"://[^\s/:@\"'<>`\\.]{0,64}:(?![0-9]{1,5}/)(?P<secret>[^\s/\"'<>`\\?#]{1,100}/[^\s\"'<>`\\?#]{1,200})@(?=[\w\[])"
)
"""With a slash in the password: nobody's port, and no host before it."""
_ALONE = re.compile(r"://(?P<secret>[\w.~-]{20,255})@")
_ORACLE = re.compile(r"(?:://|:)[\w$#.-]{1,64}/(?P<secret>[^\s\"'<>`\\]{2,128})@(?=[\w/\[(])")
_ENCODED = re.compile(
    r"%(?:25)?3[Aa](?:%(?:25)?2[Ff]){2}[^\s%:\"'<>\\]{0,255}(?:%(?:25)?3[Aa]|:)"
    r"(?P<secret>(?:(?!%(?:25)?40|%(?:25)?2[Ff])[^\s\"'<>`\\]){2,400}?)(?:%(?:25)?40(?!.{0,100}%(?:25)?40[\w.])|@[\w.]{1,100}(?:%(?:25)?(?:2[Ff]|3[Aa])|[\s\"']))"
)


def _url(text: str, at: int) -> Found | None:
    """From the colon of the scheme on."""
    match = _URL.match(text, at) or _SLASHED.match(text, at) or _ALONE.match(text, at)
    if match is None:
        return None
    value = match["secret"]
    if stands_for(value) or (match.re is _ALONE and not (mixed(value) and telling(value))):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _oracle(text: str, at: int) -> Found | None:
    """``jdbc:oracle:thin:user/password@host``, ``oracle://user/password@host``."""
    return _plainly(_ORACLE.match(text, at))


def _encoded(text: str, at: int) -> Found | None:
    """A URL that is a part of another."""
    return _plainly(_ENCODED.match(text, at))


def _plainly(match: re.Match[str] | None) -> Found | None:
    if match is None or stands_for(match["secret"]):
        return None
    return Found("secret", *match.span("secret"), match.end())


_HOLDS = r"[^\s/:@\"'<>`\\]{0,255}+(?::[^\s/\"'<>`\\@][^\s\"'<>`\\@]{0,400}+|:@[^\s\"'<>`\\@]{1,400}+)?@"
URLS: tuple[Kind, ...] = (
    Kind(
        "oracle",
        ":",
        _oracle,
        r"(?:(?<=thin:)|(?<=oci:)|(?<=oci8:)|(?<=oracle:)(?=//))",
        r"(?://)?[\w$#.-]{1,64}/[^/\s]",
    ),
    Kind("url", ":", _url, rf"(?=//{_HOLDS})"),
    Kind("url", "%", _encoded, r"(?=(?:25)?3[Aa]%(?:25)?2[Ff]%)"),
)
