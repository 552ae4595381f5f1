"""Secrets are taken out of a text before it is stored or sent anywhere.

Session files hold whatever was pasted into them. Every text passes here once, at harvest, so nothing after it needs
to care. A secret becomes ``[redacted:kind:1a2b3c]``: the same secret the same placeholder, so that what is said about
it stays readable, and six hex digits of a digest, which do not lead back to it.

Linear time: a kind is looked for only where one of its hints occurs, and its pattern starts with a literal or after a
boundary and repeats nothing that could be matched in two ways.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from skillopt_sleep.domain.session import Command, Session, Turn

__all__ = ["KINDS", "Kind", "Redactor"]

LITERAL = 8
"""Characters a literal value has at least; a shorter one would be found in ordinary words."""

_PLACEHOLDER = re.compile(r"\[redacted:[\w-]+:[0-9a-f]{6}\]")


class Kind(NamedTuple):
    """One kind of secret.

    ``hints`` are lower case; without one of them in the text (in any case) the pattern is not tried. The secret is
    the pattern's group ``secret``, or all it matches; ``accept`` has the last word on it.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    accept: Callable[[str], bool] = bool


def _mixed(value: str) -> bool:
    """Letters and digits together, as in made keys and unlike in words."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


_REFERENCE = re.compile(
    r"""[$<{%*#&@\[(]                               # $TOKEN, <token>, {{token}}, ****, [redacted:…]
    | [./~\\] | \w+:// | [a-z]:\\                   # a path, a URL
    | (?:[a-z_]\w*[.\[(])+                          # os.environ[…], get_token(…), settings.token
    | (?:your|my|the|example|dummy|fake|sample|test)[-_]?\w*(?:key|token|secret|passw\w*)\b
    | (?:x{3,}|\.{3}|true|false|null|none|nil|undefined|string|required|optional|password|passwd|passphrase|secret|token
        |change-?me|changeit|redacted|hidden|masked|placeholder|unset|empty|missing|invalid|expired)\W*$
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""How a value begins that only stands for a secret."""


def _assigned(value: str) -> bool:
    """Whether an assigned value is a secret itself: no reference to one, no number, no plain word."""
    return not _REFERENCE.match(value) and not re.fullmatch(r"[\d.,:_-]*|[A-Za-z]+(?:[_-][A-Za-z]+)*", value)


def _spelled_out(value: str) -> bool:
    """As ``_assigned`` where the form itself says that a value is meant (quotes, an environment line): words count."""
    return not _REFERENCE.match(value) and not re.fullmatch(r"[\d.,:_-]*", value)


_NAME = (
    r"(?:secret|token|passw(?:or)?d|passphrase|credential|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key"
    r"|encryption[_-]?key|signing[_-]?key|master[_-]?key)"
    r"s?(?![_-]?(?:name|id|ur[il]|path|file|type|count|limit|length|len|ttl|ids|names|header|field|param)s?\b)"
    r"(?:[_.-]\w{1,32}|\d{1,4})?"
)
_SAYS_SECRET = ("secret", "token", "passw", "passphrase", "credential", "key")


def _kind(name: str, hints: str, pattern: str, accept: Callable[[str], bool] = bool, flags: int = 0) -> Kind:
    return Kind(name, tuple(hints.split()), re.compile(pattern, flags), accept)


KINDS: tuple[Kind, ...] = (
    _kind(
        "private-key",
        "private",
        # whole, cut off behind, or with its line ends escaped: header lines, then lines of base64
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:\\[nrt]|\s)*(?:[A-Za-z-]{4,20}: [^\n\\]{0,200}|[A-Za-z0-9+/=]{16,}))*"
        r"(?:(?:\\[nrt]|\s)*[A-Za-z0-9+/=]{0,16}(?:\\[nrt]|\s)*-----END [A-Z0-9 ]{0,40}-----)?",
    ),
    _kind("aws", "akia asia abia acca", r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    _kind("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{20,255}"),
    _kind("github", "github_pat_", r"(?<![A-Za-z0-9])github_pat_\w{20,255}"),
    _kind("gitlab", "gl", r"(?<![A-Za-z0-9])gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas)-[\w.-]{18,255}"),
    _kind("npm", "npm_", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,64}(?![A-Za-z0-9])"),
    _kind("pypi", "pypi-", r"(?<![A-Za-z0-9])pypi-[\w-]{40,1000}", _mixed),
    _kind("slack", "xox", r"(?<![A-Za-z0-9])xox[a-z]-[A-Za-z0-9-]{10,255}", _mixed),
    _kind("slack", "xapp-", r"(?<![A-Za-z0-9])xapp-\d-[A-Za-z0-9-]{10,255}"),
    _kind("slack", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/]{20,255})"),
    _kind("stripe", "k_live_ k_test_", r"(?<![A-Za-z0-9])[rsp]k_(?:live|test)_[A-Za-z0-9]{10,255}"),
    _kind("stripe", "whsec_", r"(?<![A-Za-z0-9])whsec_[A-Za-z0-9+/=]{16,255}"),
    _kind("google", "aiza", r"(?<![A-Za-z0-9])AIza[\w-]{35}(?![\w-])"),
    _kind("google", "ya29.", r"(?<![A-Za-z0-9])ya29\.[\w.-]{20,2000}"),
    _kind("google", "gocspx-", r"(?<![A-Za-z0-9])GOCSPX-[\w-]{20,64}"),
    _kind("anthropic", "sk-ant-", r"(?<![A-Za-z0-9])sk-ant-[\w-]{16,255}"),
    _kind("openai", "sk-", r"(?<![A-Za-z0-9])sk-(?!ant-)[\w-]{20,255}", _mixed),
    _kind("hugging-face", "hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,64}"),
    _kind("jwt", "eyj", r"(?<![A-Za-z0-9])eyJ[\w-]{8,4000}\.eyJ[\w-]{4,8000}(?:\.[\w-]{0,4000})?"),
    _kind(
        "authorization",
        "authorization",
        r"authorization\\*[\"']?\s{0,4}[:=]\s{0,4}\\*[\"']?(?:(?:bearer|basic|token|digest|apikey)\s{1,4})?"
        r"(?P<secret>[\w.~+/=-]{8,8000})",
        _mixed,
        re.IGNORECASE,
    ),
    _kind("bearer", "bearer", r"\bbearer\s{1,4}(?P<secret>[\w.~+/=-]{16,8000})", _mixed, re.IGNORECASE),
    _kind("url", "://", r"://[^\s/:@\"'<>]{0,255}:(?P<secret>[^\s/@\"'<>]{3,255})@", _spelled_out),
    _kind(
        "environment",
        "=",
        # an upper case name, "=" and no blanks: a line of .env or an export
        r"(?:SECRET|TOKEN|PASS|PASSW(?:OR)?D|PWD|PASSPHRASE|CREDENTIALS?|KEY|PAT)\d{0,4}="
        r"(?P<quote>\\*[\"'])?(?P<secret>(?(quote)[^\s\"'\\]{6,4000}|[^\s\"'`;,)]{6,4000}))",
        _spelled_out,
    ),
    _kind(
        "assigned",
        " ".join(_SAYS_SECRET),
        _NAME + r"\\*[\"']?\s{0,4}(?:=>|:=|[:=])\s{0,4}\\*[\"'](?P<secret>[^\s\"'\\]{6,4000})\\*[\"']",
        _assigned,
        re.IGNORECASE,
    ),
    _kind(
        "assigned",
        " ".join(_SAYS_SECRET),
        _NAME + r"\\*[\"']?\s{0,4}(?:=>|:=|[:=])[ \t]{0,4}(?P<secret>[^\s\"'`,;<>()\[\]{}\\]{6,4000})(?![(\[])",
        _assigned,
        re.IGNORECASE,
    ),
    _kind(
        "assigned",
        "--",
        r"--(?:[a-z]{1,20}-){0,3}(?:secret|token|passw(?:or)?d|passphrase|api-?key)[ \t]{1,4}[\"']?"
        r"(?P<secret>[^\s\"'`;<>()\[\]{}-][^\s\"'`;<>()\[\]{}]{5,4000})",
        _assigned,
        re.IGNORECASE,
    ),
)
"""Looked for in this order; what an earlier kind took is no more there for a later one."""


class Redactor:
    """Takes secrets out of texts: those of ``KINDS``, and literal ``values`` (of the environment, say).

    A value that is short, a plain word, a number or a path is left alone: it would be found everywhere.
    """

    def __init__(self, values: Sequence[str] = ()) -> None:
        worth = sorted({value for value in values if _worth_hiding(value)}, key=lambda value: (-len(value), value))
        literal = "|".join(map(re.escape, worth))
        self._literal = re.compile(f"{_PLACEHOLDER.pattern}|(?P<secret>{literal})") if worth else None

    def redact(self, text: str) -> str:
        """The text with a placeholder for each secret; redacting it once more changes nothing."""
        while (redacted := self._pass(text)) != text:
            text = redacted  # what is left may now stand at a boundary; each pass leaves less of it
        return text

    def redact_session(self, session: Session) -> Session:
        """The session without secrets in anything said, run or touched; the very same one if it held none.

        ``source``, ``path``, ids and times stay: they are what a session is found by again.
        """
        if not self._suspect("\n".join(_texts(session))):
            return session
        return replace(
            session,
            cwd=self.redact(session.cwd),
            branch=self.redact(session.branch),
            turns=tuple(self._redact_turn(turn) for turn in session.turns),
        )

    def _redact_turn(self, turn: Turn) -> Turn:
        return replace(
            turn,
            prompt=self.redact(turn.prompt),
            final=self.redact(turn.final),
            tools=tuple(map(self.redact, turn.tools)),
            skills=tuple(map(self.redact, turn.skills)),
            commands=tuple(replace(command, line=self.redact(command.line)) for command in turn.commands),
            files=tuple(map(self.redact, turn.files)),
        )

