"""Passwords that are handed to a command by another one, or stand at a place of their own among its arguments."""

from __future__ import annotations

import re

from skillopt_sleep.domain.redact.kind import Found, Kind, mixed, telling
from skillopt_sleep.domain.redact.values import stands_for

__all__ = ["PIPES"]

LEAST = 3
BACK = 200
"""Characters of a command in which its beginning is looked for."""

_S = r"(?:[ \t]{1,4}|\\?[\"'],[ \t]{0,4}\\?[\"'])"
_ASKS = re.compile(
    r"\|[&]?[ ]{0,2}[^\n|]{0,120}?(?:--password-stdin|--passphrase-fd|sudo (?:-\w{1,20} ){0,3}-\w{0,9}S|su\b|chpasswd|passwd\b|--stdin|--with-token"
    r"|vault login|cryptsetup|gh auth|kinit|-passin stdin|--password\b|-K\b)"
)
_ECHOED = re.compile(
    r"(?:echo|printf|print|Write-Output)(?: -{1,2}\w{1,8}){0,3} (?:\\?[\"']?%s\n?\\?[\"']? )?"
    r"\\?(?:[\"'](?P<quoted>[^\"'\\\n|]{3,400})\n?\\?[\"']|(?P<bare>[^\s\"'\\|;&()]{3,400})) ?\Z"
)
_PAIR = re.compile(r"[\w.@-]{1,64}:(?P<secret>.{3,400})\Z")
_HERE = re.compile(r"<<<[ ]?\\?[\"']?(?P<secret>[^\s\"'\\;|&<>()]{3,400})")
_READS = re.compile(r"--with-token|--password|-stdin|pwprompt|passw|login|sudo|token|secret|cryptsetup|kinit")
_SUB = re.compile(r"\((?:echo|printf)(?: -\w{1,3})? \\?[\"']?(?P<secret>[^\s\"'\\()]{3,400})")
_SUB_BEFORE = re.compile(r"(?:pass|key|secret|token)[\w-]{0,16}[= ]<\Z")
_AFTER_LOGIN = re.compile(
    rf"vault{_S}login{_S}(?:(?:-[\w-]{{1,40}}(?:=\S{{1,200}})?|token=){_S}?)?(?P<secret>[\w.-]{{6,400}})"
)
_WINDOWS = re.compile(r"/[uU][sS][eE][rR]:[\w.\\@-]{1,64} (?P<secret>[^\s/\"'\\][^\s\"'\\]{2,100})")
_WINDOWS_LATER = re.compile(r"net use[^\n|;]*\Z")


def _piped(text: str, at: int) -> Found | None:
    """``echo password | docker login --password-stdin``, from the pipe on."""
    if not _ASKS.match(text, at):
        return None
    echoed = _ECHOED.search(text, max(0, at - BACK), at)
    if echoed is None:
        return None
    group = "quoted" if echoed["quoted"] else "bare"
    start, stop = echoed.span(group)
    value = text[start:stop]
    pair = _PAIR.match(value)
    if pair and "chpasswd" in text[at : at + BACK]:
        start += pair.start("secret")
        value = pair["secret"]
    return None if stands_for(value) or value.startswith("$") else Found("secret", start, stop, stop)


def _here(text: str, at: int) -> Found | None:
    """``gh auth login --with-token <<< token``."""
    before = text[max(0, at - BACK) : at]
    line = before[before.rfind("\n") + 1 :]
    return _told(_HERE.match(text, at)) if _READS.search(line) else None


def _substituted(text: str, at: int) -> Found | None:
    """``--password-file=<(echo password)``."""
    return _told(_SUB.match(text, at)) if _SUB_BEFORE.search(text, max(0, at - 40), at) else None


def _vault(text: str, at: int) -> Found | None:
    """``vault login token``."""
    match = _AFTER_LOGIN.match(text, at)
    return _told(match) if match and mixed(match["secret"]) and telling(match["secret"]) else None


def _net_use(text: str, at: int) -> Found | None:
    r"""``net use z: \\\\host\\share /user:name password``."""
    match = _WINDOWS.match(text, at)
    return _told(match) if match and _WINDOWS_LATER.search(text, max(0, at - BACK), at) else None


def _told(match: re.Match[str] | None) -> Found | None:
    if match is None or stands_for(match["secret"]) or match["secret"].startswith("$"):
        return None
    return Found("secret", *match.span("secret"), match.end())


PIPES: tuple[Kind, ...] = (
    Kind("piped", "|", _piped, r"(?<=[\w\"' ]\|)", r"[&]?[ ]{0,2}(?=[a-z/])"),
    Kind("here", "<", _here, r"(?=<<[ \"'\w\\])"),
    Kind("substituted", "(", _substituted, r"(?<=<\()", r"(?:echo|printf)[ ]"),
    Kind("vault", "v", _vault, "(?=ault)", rf"ault{_S}login"),
    Kind("net use", "/", _net_use, r"(?=[uU][sS][eE][rR]:[\w.\\@-]{1,64} )"),
)
