"""Find keys of issuers that no rule knows: a short prefix, a sign, and a random body.

Many issuers mark their keys like this (``acme_live_5f…``), so that they can be found in public code. Identifiers of
messages, requests and other objects look the same; the prefixes of those are listed in ``issuers.json``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from skillopt_sleep.safety.redaction.kinds import EDGE, Found, find_end, lazy
from skillopt_sleep.safety.redaction.looks import is_irregular, is_random

LEAST = 20
"""Characters of the shortest run of letters, digits, dashes and underscores that is looked at."""
BODY = 16
"""Characters of the shortest random body."""
HEX_BODY = 24
LETTERS_BODY = 24
"""The same for a body of letters alone."""
URLSAFE_BODY = 28
"""The same for a body with dashes and underscores in it."""
LONGEST_ISSUER = 28
SHARE = 4
"""Letters and digits change in a body of two sorts at least at every so many characters."""
DOTTED = 24
DISCORD_LONGEST = 28
SID = 34
WORD = 3
"""Characters of the shortest word of a language."""
LONGEST = 4_000

_CLASSES = bytes(
    ord("a") if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "-_") else 32 for code in range(256)
)
_FULL = b"a" * LEAST
ESCAPING = frozenset("\\%")
_ESCAPE = lazy(r"\\[A-Za-z0-9]|%(?:25)?[0-9A-Fa-f]{2}|")
"""What may stand right before a key and ends in a letter or digit."""
_UUID = lazy(r"(?i:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})")
_ISSUER = lazy(r"[A-Za-z][A-Za-z]{0,11}[0-9]{0,2}|[a-z][a-z0-9]{1,5}|[A-Z][A-Z0-9]{1,5}|v?[0-9]{1,2}|o?[0-9]{2}")
_HEX = lazy(r"(?i:[0-9a-f]+)")
_CHANGE = lazy(r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])")
_ULID = lazy(r"(?i:0[0-7][0-9a-hjkmnp-tv-z]{24})")
_IDENTIFIER = lazy(r"01[A-Za-z0-9]{20,24}(?![A-Za-z0-9])|k[a-zA-Z]DO")
"""Identifiers of the agents' records, and of GitHub's."""
_DATE = lazy(r"(?:19|20)[0-9]{2}-?[01][0-9]-?[0-3][0-9]")
_VOWEL = lazy(r"[aeiouy]")
_FILE = lazy(
    r"\.(?:c?[jt]sx?|mjs|css|map|html?|json|ya?ml|toml|md|py|rs|go|rb|java|png|jpe?g|svg|gif|webp|woff2?|log|txt|jsonl|lock|zip|gz|tgz|pdf)\b"
)
_DOTTED = lazy(EDGE + r"(?<!\.)(?:[sbr]|[A-Za-z][A-Za-z0-9]{1,7})(?:\.[a-z]{2,4})?\.\Z")
_VAULT = lazy(r"[A-Za-z0-9]{24}(?![A-Za-z0-9])")
_DISCORD_TAIL = lazy(r"\.[\w-]{6}\.[\w-]{25,110}")
_DISCORD_HEAD = lazy(r"[MNO][\w-]{21,27}")
_SID = lazy(r"SK[0-9a-fA-F]{32}|AC[0-9a-f]{32}")
_AUTH_TOKEN = lazy(
    r"[\"'`\s,;:=|\\]{1,12}(?:[A-Za-z_.]{1,16}[\"'`\s,;:=|\\]{1,8}){0,6}(?P<secret>[0-9a-f]{32})(?![0-9A-Za-z])",
)


def find_tokens(text: str) -> Iterator[Found]:
    """Yield every key of an unknown issuer, in order."""
    classes = text.encode("ascii", "replace").translate(_CLASSES)
    start = classes.find(_FULL)
    while start >= 0:
        stop = classes.find(b" ", start)
        stop = stop if stop >= 0 else len(text)
        found = _look_at(text, start, stop) if stop - start < LONGEST else None
        if found is not None:
            yield found
            stop = max(stop, found.stop)
        start = classes.find(_FULL, stop)


def is_issued(value: str) -> bool:
    """Tell whether a value is a key by its form alone."""
    found = next(find_tokens(value), None)
    return found is not None and (found.start, found.stop) == (0, len(value))


def is_identifier_of_object(value: str) -> bool:
    """Tell whether a value has the prefix of an identifier: of a message, a request, a commit."""
    return _is_listed(re.split("[-_]", value.lower())[:-1])


def _look_at(text: str, start: int, stop: int) -> Found | None:
    start = _ESCAPE.match(text, max(0, start - 1)).end() if text[start - 1 : start] in ESCAPING else start  # type: ignore[union-attr]
    run = text[start:stop]
    if run.startswith(("SK", "AC")) and len(run) == SID and _SID.fullmatch(run):
        return _find_twilio(text, start, stop)
    if tail := _DISCORD_TAIL.match(text, stop):
        head = run[-DISCORD_LONGEST:]
        if _DISCORD_HEAD.fullmatch(head) and _is_drawn(head.replace("-", "").replace("_", "")):
            return Found("discord", start, tail.end(), tail.end())
    body = _find_body(run)
    if body is None and len(run) >= DOTTED and text[start - 1 : start] == ".":
        issuer = _DOTTED.search(text, max(0, start - 16), start)
        if issuer and _is_dotted_body(run, issuer[0]):
            start, body = issuer.start(), run
    if body is None or _FILE.match(text, stop):
        return None
    stop = find_end(text, stop)
    return Found("key", start, stop, stop)


def _is_dotted_body(run: str, issuer: str) -> bool:
    """Tell whether what follows ``hvs.`` is a key; a name in a program may be as long, and one of Vault has no prefix."""
    plain = re.sub("[-_]", "", run)
    if len(issuer) == len("s."):
        return _VAULT.match(run) is not None and is_irregular(run[:DOTTED])
    return _has_three_sorts(plain) and (is_random(plain) or is_irregular(plain))


def _find_twilio(text: str, start: int, stop: int) -> Found:
    """Return the auth token that follows an account's name; the name itself when none does."""
    if text.startswith("AC", start) and (token := _AUTH_TOKEN.match(text, stop)):
        return Found("twilio", *token.span("secret"), token.end())
    return Found("twilio", start, stop, stop)


def _find_body(run: str) -> str | None:
    """Return the random body of a key; None when the run is none."""
    at = 0
    while 0 <= (cut := _find_sign(run, at)) <= LONGEST_ISSUER:
        if not _ISSUER.fullmatch(run, at, cut) or not run[0].isalpha():
            return None
        issuer, body = re.split("[-_]+", run[:cut].lower()), run[cut + 1 :]
        if _is_body(body, issuer, run[cut]):
            named = not _is_keyish(issuer) and _IDENTIFIER.match(body) is not None
            return None if named or _is_listed(issuer) or _UUID.search(run) or _DATE.match(body) else body
        at = cut + 1
    return None


def _find_sign(run: str, at: int) -> int:
    """Return where the next dash or underscore is; -1 without one."""
    places = [place for place in (run.find("-", at), run.find("_", at)) if place >= 0]
    return min(places, default=-1)


def _is_body(body: str, issuer: list[str], sign: str) -> bool:
    """Tell whether what follows the sign after an issuer is random."""
    if len(body) < BODY:
        return False
    first = re.split("[-_]", body, maxsplit=1)[0]
    if len(first) >= BODY:
        return _is_random_part(first, issuer, sign)
    plain = re.sub("[-_]", "", body)
    least = BODY if _is_keyish(issuer) else URLSAFE_BODY
    urlsafe = len(plain) >= least and _has_three_sorts(body) and is_random(plain) and is_irregular(plain)
    return urlsafe and max(map(len, re.split("[-_]", body))) >= BODY // 2


def _is_random_part(part: str, issuer: list[str], sign: str) -> bool:
    if _HEX.fullmatch(part):
        told = _is_keyish(issuer) or (sign == "_" and len(issuer[0]) > 1)
        short = all(len(word) < WORD or not _VOWEL.search(word) for word in issuer)
        return len(part) >= HEX_BODY and not part.isdigit() and (told or short)
    if _ULID.fullmatch(part):
        return _is_keyish(issuer)
    return _is_drawn(part)


def _is_drawn(part: str) -> bool:
    """Tell whether letters and digits follow each other as if drawn by lot."""
    if not any(map(str.isdigit, part)):
        return (
            len(part) >= LETTERS_BODY
            and not (part.islower() or part.isupper())
            and is_irregular(part)
            and is_random(part)
        )
    if _has_three_sorts(part):
        return is_irregular(part) or is_random(part)
    return len(_CHANGE.findall(part)) * SHARE >= len(part) or (
        len(part) >= URLSAFE_BODY and len(_CHANGE.findall(part)) * 6 >= len(part)
    )


def _has_three_sorts(value: str) -> bool:
    return any(map(str.isupper, value)) and any(map(str.islower, value)) and any(map(str.isdigit, value))


def _is_keyish(issuer: list[str]) -> bool:
    """Tell whether the prefix itself says that a key follows."""
    return any(_load()["keyish"].get(word) or word.endswith(("pat", "key", "token", "secret")) for word in issuer)


def _is_listed(issuer: list[str]) -> bool:
    """Tell whether the prefix is that of an identifier and not of a key."""
    listed = _load()
    return not _is_keyish(issuer) and any(listed["identifiers"].get(word) for word in issuer)


@cache
def _load() -> Mapping[str, Mapping[str, bool]]:
    data = msgspec.json.decode(Path(__file__).with_name("issuers.json").read_bytes(), type=dict[str, str])
    return {name: dict.fromkeys(words.split(), True) for name, words in data.items()}
