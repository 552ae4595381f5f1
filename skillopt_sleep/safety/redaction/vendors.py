"""Find the keys of known issuers, by the public rules of gitleaks and by some forms that these lack.

``vendors.json`` is the rules as ``tests/benchmarks/convert_rules.py`` converts them. A key is looked for only where one
of the words of its rule stands.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.safety.redaction.kinds import EDGE, Found, Kind, join_parts, lazy
from skillopt_sleep.safety.redaction.looks import is_mixed, measure_entropy

BACK, AHEAD = 200, 600
"""Characters around the word of a rule that contain the key, where the key does not begin with the word."""
LEAST_ENTROPY = 2.5
"""Bits a character of a value must hold beside the name of its issuer."""
DISTINCT = 6
HEAD = 64
"""Characters at the beginning of a value that contain the word of its rule."""

_BESIDE = r"[ \t\w.-]{0,20}[\s'\"`\\]{0,4}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\\`'\"\s=]{0,5}"
"""From the name of an issuer to a value: the rest of a longer name, quotes, a sign of assignment."""
_HALF = lazy(r"[\w-]{4,400}")
_EDGE = lazy(EDGE)
_STANDIN = lazy(
    r"(?<![A-Za-z0-9])(?i:your|example|placeholder|redacted|dummy|insert|replace)|x{4}|X{4}|\.{3}|(?i:key|token)[-_]?(?i:here)"
)


class Rule(Struct, frozen=True, kw_only=True):
    """What keys of an issuer look like."""

    id: str
    kind: str
    """What the placeholder calls it."""
    words: tuple[str, ...]
    """Lower-case words, one of which is there with every such key."""
    form: str = ""
    """The pattern of a key, with a group ``secret`` if that is only a part of it."""
    beside: str = ""
    """The pattern of a value that is assigned to the name of the issuer."""
    inside: bool = False
    """The key does not begin with the word."""
    entropy: float = 0.0
    """Least bits that a character of it holds."""


class _File(Struct, frozen=True, kw_only=True):
    rules: tuple[Rule, ...]


OWN = (
    Rule(id="google-refresh", kind="google", words=("1//0",), form=r"1//0[a-z0-9][\w-]{30,400}"),
    Rule(id="atlassian", kind="atlassian", words=("atatt3", "atctt3"), form=r"AT[AC]TT3[\w=-]{60,300}"),
    Rule(id="gitlab-runner", kind="gitlab", words=("gr1348941",), form=r"GR1348941[\w-]{20,64}"),
    Rule(
        id="slack",
        kind="slack",
        words=("xox", "xapp-"),
        form=r"xox[a-z](?:\.xox[bp])?-[A-Za-z0-9-]{10,400}|xapp-\d-[A-Za-z0-9-]{10,400}",
    ),
    Rule(id="google-access", kind="google", words=("ya29.",), form=r"ya29\.[\w.-]{20,2000}"),
    Rule(id="vault", kind="vault", words=("hvs.", "hvb.", "hvr."), form=r"hv[sbr]\.[\w-]{20,800}"),
    Rule(id="docker", kind="docker", words=("dckr_",), form=r"dckr_[po]at_[\w-]{20,64}"),
    Rule(id="heroku", kind="heroku", words=("hrku-",), form=r"HRKU-[\w-]{30,80}"),
    Rule(id="azure", kind="azure", words=("q~",), form=r"[\w~.]{3}\dQ~[\w~.-]{30,40}(?![\w~.-])", inside=True),
    Rule(
        id="slack-webhook",
        kind="slack",
        words=("hooks.slack",),
        form=r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?P<secret>[\w/-]{16,400})",
    ),
    Rule(
        id="discord-webhook",
        kind="discord",
        words=("discord",),
        form=r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(?P<secret>\d{8,22}/[\w-]{20,140})",
    ),
    Rule(id="discord-mfa", kind="discord", words=("mfa.",), form=r"mfa\.[\w-]{60,100}"),
    Rule(id="telegram", kind="telegram", words=(":aa",), form=r"[0-9]{6,12}:AA[\w-]{31,36}", inside=True),
    Rule(
        id="age-post-quantum",
        kind="age",
        words=("age-secret-key-",),
        form=r"(?i:AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{30,4000})",
    ),
    Rule(id="aws", kind="aws", words=("akia", "asia"), form=r"(?:AKIA|ASIA)[A-Z0-9]{16}"),
    Rule(
        id="hubspot",
        kind="hubspot",
        words=("pat-",),
        form=r"pat-(?:na|eu|ap)[0-9]-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
    ),
    Rule(
        id="password-hash",
        kind="hash",
        words=(
            "$2a$",
            "$2b$",
            "$2y$",
            "$2x$",
            "$1$",
            "$5$",
            "$6$",
            "$8$",
            "$9$",
            "$y$",
            "$7$",
            "$apr1$",
            "$argon2",
            "$krb5",
        ),
        form=r"\$(?:2[abxy]\$\d\d\$[./A-Za-z0-9]{53}|(?:[156789y]|apr1)\$(?:[\w=,.]{1,24}\$)?[./A-Za-z0-9]{4,24}\$[./A-Za-z0-9]{20,120}"
        r"|argon2(?:id|i|d)\$[\w=,$+/]{20,300}|krb5[a-z]{2,8}\$[\w$*./@:-]{40,8000})",
    ),
)
"""Forms that gitleaks does not have, or takes for shorter or longer than they occur."""


def build_kinds() -> tuple[Kind, ...]:
    """Return one kind for each rule."""
    data = Path(__file__).with_name("vendors.json").read_bytes()
    return tuple(map(_build_kind, (*OWN, *msgspec.json.decode(data, type=_File).rules)))


def _build_kind(rule: Rule) -> Kind:
    edge = EDGE if not rule.form.startswith(r"\$") else ""
    pattern = (
        lazy(f"{edge}(?:{rule.form})(?![A-Za-z0-9])")
        if rule.form
        else lazy(rf"{_BESIDE}(?P<secret>{rule.beside})(?![\w-])")
    )

    def find_beside(text: str, _: int, end: int) -> Found | None:
        match = pattern.match(text, end)
        if match is None or not (is_mixed(match["secret"]) or match["secret"].isdigit()):
            return None
        return _accept(rule, match, max(rule.entropy, LEAST_ENTROPY))

    def find_inside(text: str, start: int, end: int) -> Found | None:
        match = pattern.search(text, max(0, start - BACK), end + AHEAD)
        return _accept(rule, match, rule.entropy) if match else None

    def find_form(text: str, start: int, _: int) -> Found | None:
        match = pattern.match(text, start)
        return _accept(rule, match, rule.entropy) if match else _find_parted(rule, pattern, text, start)

    return Kind(rule.words, find_beside if rule.beside else find_inside if rule.inside else find_form)


def _accept(rule: Rule, match: re.Match[str], entropy: float) -> Found | None:
    start, stop = match.span("secret" if "secret" in match.re.groupindex else 0)
    value = match.string[start:stop]
    if len(set(value)) <= DISTINCT or measure_entropy(value) < entropy or _STANDIN.search(value):
        return None
    return Found(rule.kind, start, stop, match.end())


def _find_parted(rule: Rule, pattern: re.Pattern[str], text: str, start: int) -> Found | None:
    """Find a key of which the end of a line or string separates two halves."""
    half = _HALF.match(text, start)
    parts = join_parts(text, half.end()) if half and _EDGE.match(text, start) else None
    if half is None or parts is None:
        return None
    rest, begins = parts
    whole = pattern.match(half[0] + rest)
    found = _accept(rule, whole, rule.entropy) if whole else None
    if found is None or found.stop <= len(half[0]) or not is_mixed(half[0] + rest):
        return None
    stop = begins + found.stop - len(half[0])
    return Found(rule.kind, start + found.start, stop, stop)
