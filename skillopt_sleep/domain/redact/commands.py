"""Secrets that a flag of a command, a login file or a sentence gives away."""

from __future__ import annotations

import re

from skillopt_sleep.domain.redact.kind import BREAK, Found, Kind, mixed, telling
from skillopt_sleep.domain.redact.naming import stands_for

__all__ = ["COMMANDS"]

BACK = 300
"""Characters of a command in which its name is looked for."""
LEAST = 3
"""Characters of a password where the form leaves no doubt that one stands there."""

_S = r"(?:[ \t]{1,4}|\\{0,3}[\"'],[ \t]{0,4}(?=\\{0,3}[\"']))"
"""From one argument of a command to the next, which may be a string in a list."""
_WORD = r"[^\s\"'`\\;|&<>]{1,800}"
_QUOTED = r"\\{0,4}(?P<q>[\"'])(?P<quoted>[^\"'\n\\]{1,800})|(?P<bare>" + _WORD + ")"
_USER = re.compile(
    rf"-(?:-(?:proxy-)?user|-auth|[A-Za-z]{{0,6}}[uUa])(?:=|{_S}|"
    r"(?:[ \t]?\\{1,4}n?\s{0,2}\n?[ \t]{0,8})|(?=[\w\"'\\]))"
    r"\\{0,4}[\"']?[^\s:\"'\\/]{0,128}\\{0,4}[\"']?:\\{0,4}[\"']?"
    r"(?:(?<=[\"'])(?P<bare>[^\"'\n\\]{1,400})|(?P<open>[^\s\"'\\]{1,400}))"
)
_FETCHES = ("curl", "wget", "http ", "https ", "xh ", "http'", 'http"')
_FLAGS = tuple(
    (tuple(names.split()), re.compile(command.replace("NAMES", "|".join(names.split()))), re.compile(flag))
    for names, command, flag in (
        (
            "sshpass",
            r"\bsshpass(?:[ \t]+-[vhP]\S*(?:[ \t]+[^-\s]\S*)?){0,4}[ \t\"',\\]+\Z",
            rf"-p(?:{_S}|=)?(?:{_QUOTED})",
        ),
        ("mysql mariadb 7z", r"\b(?:NAMES)[\w-]{0,12}[ ][^;|]*\Z", rf"-p(?:{_QUOTED})"),
        (
            "login",
            r"\b(?:docker|podman|helm|nerdctl|buildah|skopeo|az|oc|oras|cf)\b[^;|]*\blogin\b",
            rf"-p(?:{_S}|=)(?:{_QUOTED})",
        ),
        ("mongo", r"\bmongo\w{0,12} [^;|]*\Z", rf"-p(?:{_S}|=)(?:{_QUOTED})"),
        ("redis-cli", r"\bNAMES\b[^;|]*\Z", rf"-a(?:{_S}|=)(?:{_QUOTED})"),
        ("ldap zip", r"\b(?:ldap\w{1,12}|(?:un)?zip)\b[^;|]*\Z", rf"-[wP](?:{_S}|=)(?:{_QUOTED})"),
        ("sqlcmd bcp osql isql tsql", r"\b(?:NAMES)\b[^;|]*\Z", rf"-P(?:{_S}|=)?(?:{_QUOTED})"),
        ("openssl", r"\bNAMES enc\b[^;|]*\Z", rf"-[kK](?:{_S})(?:{_QUOTED})"),
        ("lftp", r"\bNAMES\b[^;|]*\Z", r"-u[ \t]{1,4}[^\s,]{1,64},(?P<bare>[^\s\"'\\;|]{3,200})"),
        (
            "smbclient rpcclient smbmap smbget net",
            r"\b(?:NAMES)\b[^;|]*\Z",
            r"-(?:U|-user)(?:[ \t]{1,4}|=)\\{0,3}[\"']?[\w.@/\\-]{1,64}%(?P<bare>[^\s\"'\\;|]{3,200})",
        ),
        ("htpasswd", r"\bNAMES\b[^;|]*\Z", r"-\w{0,6}b\w{0,6} \S{1,200} [\w.@-]{1,64} (?P<bare>[^\s\"'\\;|]{3,200})"),
        ("gh", r"\bNAMES secret set\b[^;|]*\Z", rf"-(?:b|-body)(?:{_S}|=)(?:{_QUOTED})"),
        (
            "curl http xh",
            r"\b(?:NAMES)\b[^;|]*\Z",
            r"-(?:b|-cookie)[ \t=]{1,4}\\{0,4}[\"']?[\w.-]{1,64}=(?P<bare>[^\s\"'\\]{4,4000})",
        ),
    )
)
"""Commands, each with the flag that a password of theirs follows."""
_LONG_FLAG = re.compile(
    r"--?(?:[a-z0-9]{1,24}-){0,4}(?:passw(?:or)?d|pass|passphrase|secret|token|api-?key|access-?key|account-?key|secret-?key|auth-?key|pat|(?:src|dest)?(?:store|key)pass)"
    rf"(?:-(?:string|value))?{_S}(?:\\?\n[ \t]{{0,8}})?(?:{_QUOTED})",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[A-Za-z]{1,99}(?:[._/-][A-Za-z]{1,99}){0,9}\W{0,3}|[\d.,:]*|-.*")

_NETRC = re.compile(rf"password(?:{BREAK}){{1,8}}\\{{0,3}}[\"']?(?P<secret>[^\s\"'\\]{{3,400}})")
_WIFI = re.compile(r"\bnmcli\b[^\n;|]*\Z")
_NETRC_BEFORE = re.compile(
    rf"(?:\b(?:machine|login|account)(?:{BREAK}){{1,8}}[^\s\\]{{1,200}}(?:{BREAK}){{1,8}}|\bdefault(?:{BREAK}){{1,8}}){{1,3}}\Z"
)

_SAYS = (
    r"s?(?: (?:for|to|of|on|in) [^\n.:;,=]{1,24}?)?(?: (?:is|was|will be|to|ist|lautet|est|es)(?: now)?:?|:)[ ]{1,2}"
)
_SAID = re.compile(
    r"(?:pass(?:word|phrase|code|wd)|token|key|secret)"
    rf"{_SAYS}"
    r"\W{0,3}?(?P<secret>[^\s\\\"'`,;<>()\[\]{}\u201c\u201d]{6,400})",
    re.IGNORECASE,
)
_KEY_BEFORE = re.compile(
    r"(?:api|access|account|secret|private|auth|encryption|signing|master|storage|shared)[ _-]\Z", re.IGNORECASE
)
_AWS = re.compile(
    r"secret[_ -]?(?:access[_ -]?)?key\b[^\n]{0,40}?(?:\\n|\n[ \t>]{0,8})?(?<![A-Za-z0-9+/])(?P<secret>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])",
    re.IGNORECASE,
)


def _user(text: str, at: int) -> Found | None:
    """``curl -u user:password``."""
    if not any(text.rfind(name, max(0, at - BACK), at) >= 0 for name in _FETCHES):
        return None
    match = _USER.match(text, at)
    if match is None:
        return None
    group = "bare" if match["bare"] else "open"
    value = match[group]
    if text[at + 1 : at + 3] in {"a ", "-a"} and "http" not in text[max(0, at - BACK) : at]:
        return None
    return None if len(value) < LEAST or stands_for(value) else Found("secret", *match.span(group), match.end())


def _flag(text: str, at: int) -> Found | None:
    """``sshpass -p password``, and what other commands have for it."""
    low = max(0, at - BACK)
    before = text[max(low, text.rfind("\n", low, at) + 1) : at]
    for names, command, flag in _FLAGS:
        if not any(name in before for name in names):
            continue
        match = flag.match(text, at)
        if match is None or not command.search(before):
            continue
        group = match.lastgroup if match.lastgroup != "q" else "quoted"
        value = match[group or 0]
        if len(value) >= LEAST and not stands_for(value):
            return Found("secret", *match.span(group or 0), match.end())
    return None


def _long_flag(text: str, at: int) -> Found | None:
    match = _LONG_FLAG.match(text, at)
    if match is None:
        return None
    group = match.lastgroup if match.lastgroup != "q" else "quoted"
    value = match[group or 0]
    if len(value) < LEAST + 3 or stands_for(value) or _PLAIN.fullmatch(value):
        return None
    return Found("secret", *match.span(group or 0), match.end())


def _netrc(text: str, at: int) -> Found | None:
    match = _NETRC.match(text, at)
    if match is None or stands_for(match["secret"]):
        return None
    if _WIFI.search(text, max(0, at - 200), at):
        return Found("secret", *match.span("secret"), match.end())
    before = _NETRC_BEFORE.search(text[max(0, at - 300) : at])
    if before is None or ("machine" not in before[0] and _PLAIN.fullmatch(match["secret"])):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _said(text: str, at: int) -> Found | None:
    """``the password is …``; ``at`` is inside the word, whose start is looked for."""
    start = at
    while start > 0 and at - start < 3 and text[start - 1].isalpha():  # noqa: PLR2004
        start -= 1
    if aws := _AWS.match(text, start):
        value = aws["secret"]
        if mixed(value) and any(map(str.isupper, value)) and any(map(str.islower, value)):
            return Found("aws", *aws.span("secret"), aws.end())
    match = _SAID.match(text, start)
    if match is None:
        return None
    value = match["secret"].rstrip(".,;:!?)*")
    word = text[start : start + 3].lower()
    if word == "key" and not (_KEY_BEFORE.search(text, max(0, start - 14), start) and len(value) > 15):  # noqa: PLR2004
        return None
    if len(value) < (6 if word == "pas" else 8) or stands_for(value) or not telling(value):
        return None
    return Found("secret", match.start("secret"), match.start("secret") + len(value), match.end())


COMMANDS: tuple[Kind, ...] = (
    Kind(
        "user",
        "-",
        _user,
        r"(?:(?<=[\s\"'`]-)|(?<=^-))",
        r"-(?:proxy-)?user[ =\\]|-auth[ =\"']|[A-Za-z]{0,6}[uU][ \t=\\\w\"']|a[ \"']",
    ),
    Kind(
        "flag",
        "-",
        _flag,
        r"(?:(?<=[\s\"'`]-)|(?<=^-))",
        r"[pawPbkKuU][^\s-]|[pawPbkKuU][ \t]|-cookie[ =]|-body[ =]|-user[ =]|\w{0,6}b\w{0,6} ",
    ),
    Kind(
        "flag",
        "-",
        _long_flag,
        r"(?<=[\s\"'`]-)",
        r"-?[\w-]{0,60}?(?i:passw(?:or)?d|pass|passphrase|secret|token|key|pat|value|string)(?:[ \t]|\\{0,3}[\"'],)",
    ),
    Kind("netrc", "p", _netrc, "(?=assword)", rf"assword{BREAK}"),
    Kind("said", "p", _said, "(?=ass[wpc])", r"ass(?:word|phrase|code|wd)" + _SAYS),
    Kind("said", "P", _said, "(?=[aA])", r"(?i:ass(?:word|phrase|code|wd))" + _SAYS),
    Kind("said", "kK", _said, r"(?=[eE][nNyY][sS]?[ :])(?:(?<=[oO][kK])|(?<=[ _-][kK]))", r"(?i:en|ey)" + _SAYS),
    Kind(
        "said", "cC", _said, r"(?=[rR][eE][tT])(?<=[eE][cC])", r"(?i:ret)(?:[_ -]?(?:access[_ -]?)?key\b|" + _SAYS + ")"
    ),
)
