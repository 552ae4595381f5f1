"""Find secrets that can be recognised by their form alone, such as provider keys with a fixed prefix.

The forms are those that providers document or that public secret scanners agree on. Other lengths are allowed too,
because a truncated key is still a secret.
"""

from __future__ import annotations

import base64
import binascii
import re

from skillopt_sleep.safety.redaction.kinds import (
    EDGE,
    LONG,
    RUN,
    Found,
    Kind,
    find_end,
    is_irregular,
    is_mixed,
    reject,
    shape,
)

DISTINCT = 6
RARE = "jkqvwxyz"
"""Letters that are 3 of 10 among random ones, and 1 of 10 in words."""
JOINED = 15
"""Letters and digits in a row that no name has which is joined by dashes."""
DISCORD_HEAD = 29
"""Characters of a bot's token before its second dot, at least."""
TEXT = 12
"""Characters of Base64 that tell whether it is that of a text."""
BESIDE = 160
"""Characters from the name of an account or a key in which its secret is looked for."""
SID = 34
"""Characters of an account's name at Twilio: AC and 32 hex digits."""

_STANDIN = re.compile(
    r"(?<![A-Za-z0-9])(?i:your|example|placeholder|redacted|dummy|insert|replace)|x{4}|X{4}|\.{3}|(?i:key|token)[-_]?(?i:here)"
)
_TWILIO = re.compile(EDGE + r"AC[0-9a-f]{32}(?![0-9A-Za-z])")
_TWILIO_TOKEN = re.compile(
    r"[\"'`\s,;:=|\\]{1,12}(?:[A-Za-z_.]{1,16}[\"'`\s,;:=|\\]{1,8}){0,6}(?P<secret>[0-9a-f]{32})(?![0-9A-Za-z])",
)
_AWS_NAME = re.compile(r"A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])")
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])")
_HEROKU = re.compile(r"(?<![0-9a-fA-F-])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9a-fA-F-])")
_KEY_OF_HEROKU = re.compile(
    r"[^\n]{0,60}(?:key|token|auth|api|secret|pass|cred|login)[^\n]{0,80}\n?[ \t>]{0,8}", re.IGNORECASE
)
_DISCORD_HEAD = re.compile(EDGE + r"[MNO][\w-]{21,27}\.[\w-]{6}\Z")
_DISCORD_TAIL = re.compile(r"\.[\w-]{25,110}")
_BASIC = re.compile(r"[Bb](?:asic|ASIC)[ \t]{1,4}(?P<secret>[A-Za-z0-9+/_-]{6,4000}={0,2})")
_BEARER = re.compile(r"[Bb](?:earer|EARER)\s{1,4}[\"']?(?P<secret>[\w.~+/=-]{16,8000})")
_JWT = re.compile(
    EDGE
    + r"eyJ[\w-]{8,4000}+\.(?:\\?\n[ \t]{0,8})?(?:eyJ[\w-]{4,8000}|[\w-]{0,800}\.[\w-]{8,8000}\.)(?:\.?[\w-]{0,8000}){0,4}"
)
_RUN = re.compile(r"[\w-]{1,4000}")
_NUMBERS = re.compile(r"[0-9]+")


def _made(value: str) -> bool:
    """Not a stand-in such as ``xxxxxxxx`` or ``your-key-here``."""
    return len(set(value)) > DISTINCT and not _STANDIN.search(value)


def _made_mixed(value: str) -> bool:
    return _made(value) and is_mixed(value)


def _three_sorts(value: str) -> bool:
    return _made_mixed(value) and any(c.isupper() for c in value) and any(c.islower() for c in value)


def _likely(value: str) -> bool:
    """Capitals and small letters are enough: one of twenty random characters in thirty has no digit."""
    return _made(value) and (is_mixed(value) or (any(map(str.isupper, value)) and any(map(str.islower, value))))


def _random(key: str) -> bool:
    """Drawn from letters and digits alike behind its prefix, unlike the name of something in a program."""
    value = key.partition(".")[2]
    capitals, rare = sum(map(str.isupper, value)), sum(map(value.lower().count, RARE))
    return _made(value) and (
        is_irregular(value)
        or len(_NUMBERS.findall(value)) > 1
        or len(value) / 2 < capitals < len(value)
        or (rare > len(value) / 4 and 0 < capitals < len(value))
    )


def _opaque(value: str) -> bool:
    """Capitals, small letters and digits, or a long run of letters and digits: unlike names joined by dashes."""
    return _three_sorts(value) or (
        _made_mixed(value) and any(len(run) > JOINED and is_mixed(run) for run in re.split(r"[-_]", value))
    )


def _private_key(value: str) -> bool:
    """Tell whether this Base64 begins a private key: certificates begin alike."""
    head = value[: min(88, len(value)) // 4 * 4]
    try:
        return b"PRIVATE KEY" in base64.b64decode(head)
    except (binascii.Error, ValueError):
        return False


def encodes_a_pair(value: str) -> bool:
    """Tell whether this is the Base64 of ``user:password``."""
    try:
        plain = base64.b64decode(
            value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4), altchars=b"-_" if set("-_") & set(value) else None
        )
    except (binascii.Error, ValueError):
        return False
    try:
        return b":" in plain and plain.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False


def encodes_text(value: str) -> bool:
    """Tell whether this is the Base64 of a text: chance seldom makes a dozen bytes that can all be printed."""
    if len(value) < TEXT or len(value) % 4:
        return False
    try:
        plain = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return plain.isascii() and plain.decode("ascii").isprintable()


def _service_account(value: str) -> bool:
    """Tell whether this Base64 begins the key file of a service account."""
    head = value[: min(120, len(value)) // 4 * 4]
    return b"service_account" in base64.b64decode(head)


def _twilio(text: str, at: int) -> Found | None:
    """Return the auth token that follows an account's name; the name itself when none does."""
    if at < 1 or not _TWILIO.match(text, at - 1):
        return None
    end = at - 1 + SID
    if token := _TWILIO_TOKEN.match(text, end):
        return Found("twilio", *token.span("secret"), token.end())
    return Found("twilio", at - 1, end, end)


def _aws_pair(text: str, at: int) -> Found | None:
    """Return the secret that stands beside the name of its key: in a table, as the next argument, in the next line."""
    name = _AWS_NAME.match(text, at)
    if name is None:
        return None
    for match in _AWS_SECRET.finditer(text, name.end(), name.end() + BESIDE):
        if _three_sorts(match[0]):
            return Found("aws", *match.span(), match.end())
    return None


def _heroku(text: str, at: int) -> Found | None:
    """Return a UUID near the name, when it is said to be a key."""
    match = _HEROKU.search(text, at, at + BESIDE)
    if match is None:
        return Found("", at, at, at + BESIDE // 2)
    if _KEY_OF_HEROKU.fullmatch(text, at, match.start()) is None:
        return None
    return Found("heroku", *match.span(), match.end())


def _discord(text: str, at: int) -> Found | None:
    """Return a bot's token, at the second of its dots."""
    if at < DISCORD_HEAD or text[at - 7] != ".":
        return None
    head, tail = _DISCORD_HEAD.search(text, max(0, at - 36), at), _DISCORD_TAIL.match(text, at)
    if head is None or tail is None or not _likely(head[0] + tail[0]):
        return None
    return Found("discord", head.start(), tail.end(), tail.end())


def _jwt(text: str, at: int) -> Found | None:
    match = _JWT.match(text, at - 2)
    if match is None:
        run = _RUN.match(text, at)
        return reject(at, run.end()) if run else None  # what begins further on in this run is none either
    stop = find_end(text, match.start(), match.end())
    return Found("jwt", match.start(), stop, stop)


def _basic(text: str, at: int) -> Found | None:
    match = _BASIC.match(text, at)
    if match is None or not encodes_a_pair(match["secret"]):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _bearer(text: str, at: int) -> Found | None:
    match = _BEARER.match(text, at)
    if match is None or not (is_mixed(match["secret"]) and _made(match["secret"])):
        return None
    return Found("secret", *match.span("secret"), match.end())


SHAPES: tuple[Kind, ...] = (
    Kind("aws", "A", _aws_pair, peek="(?:KIA|SIA)[A-Z0-9]{16}"),
    shape(
        "aws",
        "",
        "A",
        r"(?:KIA|SIA|BIA|CCA|3T[A-Z0-9])[A-Z0-9]{16}(?![A-Za-z0-9])",
        _made,
        peek="KIA[A-Z2-7]{3}|SIA[A-Z2-7]{3}|BIA|CCA|3T",
        whole=20,
    ),
    shape("aws", "", "A", r"BSK[A-Za-z0-9+/]{100,300}={0,2}", _made, peek="BSK"),
    shape("google", "", "A", r"Iza[\w-]{35}(?![A-Za-z0-9])", _made, peek="Iza", whole=39),
    shape("google", "1/", "/", r"0[a-z0-9][\w-]{30,400}", _made_mixed, peek=r"0[a-z0-9][\w-]{20}"),
    shape("atlassian", "", "A", r"TATT3[\w=-]{60,300}", _made, peek="TATT3"),
    shape(
        "github",
        "gh[pousr]",
        "_",
        r"[A-Za-z0-9]{20,255}(?:_[A-Za-z0-9]{10,255})?",
        _made,
        edge=False,
        peek=RUN,
        whole=40,
    ),
    shape("github", "github_pat", "_", r"\w{20,255}", _made, edge=False, whole=93),
    shape("gitlab", "gl[drf]t", "-", r"[\w.-]{18,320}", _likely),
    shape("gitlab", "gl[pci][abtm]t", "-", r"[\w.-]{18,320}", _likely),
    shape("gitlab", "gloas", "-", r"[\w.-]{18,320}", _likely),
    shape("gitlab", "gl[sf][of][ac]t", "-", r"[\w.-]{18,320}", _likely),
    shape("gitlab", "glagent", "-", r"[\w.-]{18,320}", _likely),
    shape("gitlab", "G", "R", r"1348941[\w-]{20,64}", _likely, peek="1348941"),
    shape("npm", "npm", "_", r"[A-Za-z0-9]{30,64}", _made, peek=RUN, whole=40),
    shape("pypi", "pypi", "-", r"[\w-]{40,2000}", _made_mixed, edge=False),
    shape("slack", "xox[a-z]", "-", r"[A-Za-z0-9-]{10,400}", _made_mixed, edge=False, peek=r"[A-Za-z0-9]"),
    shape("slack", "xoxe.xox[bp]", "-", r"[A-Za-z0-9-]{10,400}", _made_mixed, edge=False, peek=r"[A-Za-z0-9]"),
    shape("slack", "xapp", "-", r"\d-[A-Za-z0-9-]{10,400}", _made_mixed, edge=False, peek=r"\d"),
    shape(
        "slack",
        "hooks",
        ".",
        r"slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?P<secret>[\w/-]{16,400})",
        _likely,
        peek="slack",
    ),
    shape(
        "discord",
        "discord",
        ".",
        r"com/api/(?:v\d+/)?webhooks/(?P<secret>\d{8,22}/[\w-]{20,140})",
        _made_mixed,
        edge=False,
        peek="com/api",
    ),
    shape(
        "discord",
        "discordapp",
        ".",
        r"com/api/(?:v\d+/)?webhooks/(?P<secret>\d{8,22}/[\w-]{20,140})",
        _made_mixed,
        edge=False,
        peek="com/api",
    ),
    shape("discord", "mfa", ".", r"[\w-]{60,100}", _made_mixed),
    Kind("discord", ".", _discord, r"(?<=\.[\w-]{6}\.)", LONG),
    shape("stripe", "[rsp]k_live", "_", r"[A-Za-z0-9]{10,255}", _made, peek=RUN),
    shape("stripe", "[rsp]k_test", "_", r"[A-Za-z0-9]{10,255}", _made, peek=RUN),
    shape("stripe", "whsec", "_", r"[A-Za-z0-9+/=]{16,255}", _made, peek="[A-Za-z0-9+/=]{16}"),
    shape("sendgrid", "SG", ".", r"[\w-]{16,40}\.[\w-]{16,80}", _made_mixed),
    shape("twilio", "S", "K", r"[0-9a-fA-F]{32}(?![0-9A-Za-z])", _made_mixed, peek="[0-9a-fA-F]{32}"),
    Kind("twilio", "C", _twilio, "(?<=AC)", "[0-9a-f]{32}"),
    shape("google", "ya29", ".", r"[\w.-]{20,2000}", _made_mixed, peek=r"[\w.-]{16}"),
    shape("google", "GOCSPX", "-", r"[\w-]{20,64}", _made, peek=r"[\w-]{20}"),
    shape(
        "azure",
        r"[\w~.][\w~.][\w~.]\dQ",
        "~",
        r"[\w~.-]{30,40}(?![\w~.-])",
        is_mixed,
        edge=False,
        peek=r"[\w~.-]{30}",
    ),
    shape("anthropic", "sk-ant", "-", r"[\w-]{16,400}", _made_mixed, edge=False),
    shape("openai", "sk", "-", r"[\w-]{20,400}", _opaque),
    shape("hugging-face", "hf", "_", r"[A-Za-z0-9]{30,64}(?![A-Za-z0-9])", _likely, peek=RUN, whole=37),
    shape("hugging-face", "api_org", "_", r"[A-Za-z0-9]{30,64}(?![A-Za-z0-9])", _likely, peek=RUN),
    shape("pem", "ey", "J", r"0eXBlIjo[A-Za-z0-9+/=]{100,40000}", _service_account, peek="0eXBlIjo"),
    shape("pem", "ewogIC", "J", r"0eXBlIjo[A-Za-z0-9+/=]{100,40000}", _service_account, peek="0eXBlIjo"),
    Kind("jwt", "J", _jwt, "(?<=eyJ)", r"[\w-]{8}"),
    shape("telegram", r"[0-9]" * 6, ":", r"A[\w-]{32,36}(?![A-Za-z0-9])", _three_sorts, edge=False, peek=r"A[\w-]{32}"),
    shape("digitalocean", "do[opr]_v1", "_", r"[0-9a-f]{40,80}", _made, edge=False, peek=RUN),
    shape("databricks", "da", "p", r"i[0-9a-f]{32}(?:-\d{1,2})?(?![0-9A-Za-z])", _made_mixed, peek="i[0-9a-f]{32}"),
    shape("docker", "dckr_[po]at", "_", r"[\w-]{20,64}", _made, edge=False, peek=r"[\w-]{20}"),
    shape("heroku", "HRKU", "-", r"[\w-]{30,80}", _likely),
    Kind("heroku", "kK", _heroku, "(?=[uU])(?<=[Ee][Rr][Oo][kK])"),
    shape("shopify", "shp[a-z][a-z]", "_", r"[0-9a-fA-F]{32,64}", _made, peek=RUN),
    shape("vault", "hv[sbr]", ".", r"[\w-]{20,800}", _likely),
    shape("vault", "[sbr]", ".", r"[A-Za-z0-9]{24}(?![A-Za-z0-9])", _random, peek="[A-Za-z0-9]{24}"),
    shape("age", "AGE-SECRET-KEY", "-", r"(?:PQ-)?1[0-9A-Z]{30,4000}", _made, edge=False, peek="1|PQ", whole=74),
    shape("age", "age-secret-key", "-", r"(?:pq-)?1[0-9a-z]{30,4000}", _made, edge=False, peek="1|pq"),
    shape("pem", "", "L", r"S0tLS1CRUdJTi[A-Za-z0-9+/=]{40,40000}", _private_key, peek="S0tLS1CRUdJTi"),
    Kind("basic", "Bb", _basic, peek=r"(?:asic|ASIC)[ \t]"),
    Kind("bearer", "Bb", _bearer, peek=r"(?:earer|EARER)\s"),
    shape("key", "r8", "_", r"[A-Za-z0-9]{37}(?![\w-])", _made_mixed, peek=RUN),
    *(  # providers beyond the list, whose keys are as easily told
        shape("key", before, "_", r"[\w-]{20,400}", _made_mixed)
        for before in (
            "gsk",
            "glsa",
            "lin_api",
            "ntn",
            "sbp",
            "sntry[su]",
            "figd",
            "rubygems",
            "pscale_tkn",
            "nvapi",
            "tskey",
        )
    ),
    *(
        shape("key", before, "-", r"[\w-]{20,400}", _opaque)
        for before in ("xai", "pplx", "PMAK", "NRAK", "nvapi", "tskey-[a-z][a-z][a-z][a-z]", "key")
    ),
)
"""Keys by their form. What is told by two rows is told by the first."""
