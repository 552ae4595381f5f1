"""Secrets are taken out of a text before it is stored or sent anywhere.

Session files hold whatever was pasted into them. Every text passes here once, at harvest, so nothing after it needs
to care. A secret becomes ``[redacted:kind:1a2b3c]``: the same secret the same placeholder, so that what is said about
it stays readable, and six hex digits of a digest, which do not lead back to it.

Linear time: a kind's pattern is tried only where one of the kind's hints stands, which plain substring search finds,
and repeats nothing that could be matched in two ways. Nearly all texts are told to hold nothing by a single search for
``_SIGNS``, at about 3 ns a character.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from skillopt_sleep.domain.session import Session

__all__ = ["KINDS", "Kind", "Redactor", "redact_session"]

LITERAL = 8
"""Characters a literal value has at least; a shorter one would be found in ordinary words."""

REJECTED = 200
"""Characters up to which what turned out to be no secret is looked through for others, so that time stays linear."""


class Kind(NamedTuple):
    """One kind of secret.

    ``hints`` are what its secrets, or what gives them away, begin with, in lower case; the pattern is tried there
    (``anywhere``: in the whole text if it has a hint). The secret is the pattern's one group that matched, or all of
    it; ``accept`` has the last word.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    accept: Callable[[str], bool]
    anywhere: bool


_PLACEHOLDER = r"\[redacted:[\w-]+:[0-9a-f]{6}\]"
_STANDS_FOR = re.compile(
    r"""[$<{%*#&@\[(]                           # $TOKEN, <token>, {{token}}, ****, [redacted:…]
    | \.{0,2}[/~\\] | \.{3} | \w{1,20}:// | [a-z]:\\    # a path, a URL
    | [a-z_]\w{0,64}(?:\.[a-z_]\w{0,64}){0,8}[.\[(]     # os.environ[…], get_token(…)
    | (?:your|my|the|example|dummy|fake|sample|test)[-_]?(?:\w{1,20}[-_]){0,3}(?:key|token|secret|passw\w{0,10})\b
    | (?:[\w-]{0,20}x{3,99}|true|false|null|none|nil|undefined|string|required|optional|passw\w{0,10}|passphrase
        |secret|token|change-?me|changeit|redacted|hidden|masked|placeholder|unset|empty|missing|invalid|expired)\W{0,9}$
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""How a value begins that only stands for a secret."""
_NUMBER = re.compile(r"[\d.,:_+-]*")
_WORDS = re.compile(r"[A-Za-z]{1,99}(?:[._-][A-Za-z]{1,99}){0,9}\W{0,3}")
_PATH = re.compile(r"(?:\w{1,20}:/)?(?:\.{0,2}|~|[A-Za-z]:)[/\\].*", re.DOTALL)


def _any(value: str) -> bool:
    return bool(value)


def _mixed(value: str) -> bool:
    """Letters and digits together, as in made keys and unlike in words."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _stated(value: str) -> bool:
    """Whether a value is the secret itself, where the form says that one stands here (a URL, a line of .env)."""
    return not _STANDS_FOR.match(value)


def _assigned(value: str) -> bool:
    """The same where a number, a word or a name in a program may stand as well."""
    return _stated(value) and not _NUMBER.fullmatch(value) and not _WORDS.fullmatch(value)


def _ends_a_key(value: str) -> bool:
    return value.endswith("-----")


_BREAK = r"(?:\\{1,4}[nrt]|\s)"
"""A line end, also one escaped in JSON."""
_BASE64 = r"[A-Za-z0-9+/=]"
_END_KEY = rf"(?:{_BREAK}{{0,4}}{_BASE64}{{0,16}}{_BREAK}{{0,4}}-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)?"

_MERELY_ABOUT = r"(?![_.-]?(?:name|id|ur[il]|path|file|type|count|limit|len|length|ttl|header|field|param|helper)s?\b)"
"""``token_url``, ``secret_name``: what is said about a secret, not the secret."""
_NAME = (
    r"(?:secret|token|passw(?:or)?d|passphrase|credential|(?:api|access|private|auth|encryption|signing|master)[_-]?key)"
    rf"s?{_MERELY_ABOUT}(?:[_-]\w{{1,32}}|\d{{1,4}})?"
)
_UPPER_NAME = (
    r"(?:SECRET|TOKEN|PASS|PASSW(?:OR)?D|PWD|PASSPHRASE|CREDENTIAL|(?:API|ACCESS|PRIVATE|AUTH)_?KEY|_PAT)"
    rf"S?(?i:{_MERELY_ABOUT})(?:_[A-Z0-9_]{{1,32}}|\d{{1,4}})?"
)
_TO = r"\\{0,4}[\"']?[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}"
_TELLING = "secret token passw passphrase credential api access private auth encryption signing master"
_START = r"(?<![A-Za-z0-9])"


def _kind(
    name: str,
    hints: str,
    pattern: str,
    accept: Callable[[str], bool] = _any,
    flags: re.RegexFlag = re.NOFLAG,
    *,
    anywhere: bool = False,
) -> Kind:
    return Kind(name, tuple(hints.split()), re.compile(pattern, flags), accept, anywhere)


KINDS: tuple[Kind, ...] = (
    _kind(
        "pem",
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:{_BREAK}{{0,4}}(?:[A-Za-z-]{{4,20}}: [^\n\\]{{0,200}}|{_BASE64}{{16,}}+))++" + _END_KEY,
    ),
    _kind(
        "pem",  # cut off in front
        "-----end",
        rf"(?<!{_BASE64})(?:{_BASE64}{{16,}}+{_BREAK}{{1,4}}+)++" + _END_KEY,
        _ends_a_key,
        anywhere=True,
    ),
    _kind("aws", "akia asia abia acca", _START + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    _kind("github", "ghp_ gho_ ghu_ ghs_ ghr_", _START + r"gh[pousr]_[A-Za-z0-9]{20,255}"),
    _kind("github", "github_pat_", _START + r"github_pat_\w{20,255}"),
    _kind("gitlab", "glpat- gldt- glrt- glcbt- glptt- glft- glimt-", _START + r"gl[a-z]{2,5}-[\w.-]{18,255}", _mixed),
    _kind("npm", "npm_", _START + r"npm_[A-Za-z0-9]{30,64}"),
    _kind("pypi", "pypi-", _START + r"pypi-[\w-]{40,1000}", _mixed),
    _kind("slack", "xox", _START + r"xox[a-z]-[A-Za-z0-9-]{10,255}", _mixed),
    _kind("slack", "xapp-", _START + r"xapp-\d-[A-Za-z0-9-]{10,255}"),
    _kind("slack", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/]{20,255})", _mixed),
    _kind(
        "stripe",
        "rk_live_ sk_live_ pk_live_ rk_test_ sk_test_ pk_test_",
        _START + r"[rsp]k_(?:live|test)_[A-Za-z0-9]{10,255}",
    ),
    _kind("stripe", "whsec_", _START + r"whsec_[A-Za-z0-9+/=]{16,255}"),
    _kind("google", "aiza", _START + r"AIza[\w-]{35}"),
    _kind("google", "ya29.", _START + r"ya29\.[\w.-]{20,2000}"),
    _kind("google", "gocspx-", _START + r"GOCSPX-[\w-]{20,64}"),
    _kind("anthropic", "sk-ant-", _START + r"sk-ant-[\w-]{16,255}"),
    _kind("openai", "sk-", _START + r"sk-[\w-]{20,255}", _mixed),
    _kind("hugging-face", "hf_", _START + r"hf_[A-Za-z0-9]{30,64}"),
    _kind("jwt", "eyj", r"(?<![\w-])eyJ[\w-]{8,4000}\.eyJ[\w-]{4,8000}(?:\.[\w-]{0,4000})?"),
    _kind(
        "authorization",
        "authorization",
        rf"authorization{_TO}\\{{0,4}}[\"']?(?:(?:bearer|basic|token|digest|apikey)[ ]{{1,4}})?"
        r"(?P<secret>[\w.~+/=-]{8,8000})",
        _mixed,
        re.IGNORECASE,
    ),
    _kind("bearer", "bearer", r"\b(?:[Bb]earer|BEARER)\s{1,4}(?P<secret>[\w.~+/=-]{16,8000})", _mixed),
    _kind("url", "://", r"://[^\s/:@\"'<>]{0,255}:(?P<secret>[^\s/@\"'<>]{3,255})@", _stated),
    _kind(
        "environment",
        f"{_TELLING} pass pwd _pat",
        _UPPER_NAME + r"=\\{0,4}[\"']?(?P<secret>[^\s\"'`;\\]{6,4000})",
        _stated,
    ),
    _kind(
        "assigned",
        _TELLING,
        rf"{_NAME}{_TO}(?:\\{{0,4}}[\"'](?P<secret>[^\s\"'\\]{{6,4000}}+)\\{{0,4}}[\"']"
        r"|(?P<bare>[^\s\"'`,;<>()\[\]{}\\]{6,4000}+)(?![(\[]))",
        _assigned,
        re.IGNORECASE,
    ),
    _kind(
        "assigned",
        "secret token passw passphrase api",
        r"(?:(?<=--)|(?<=[a-z]-))(?:secret|token|passw(?:or)?d|passphrase|api-?key)[ \t]{1,4}[\"']?"
        r"(?P<secret>[^\s\"'`;<>()\[\]{}-][^\s\"'`;<>()\[\]{}]{5,4000})",
        _assigned,
        re.IGNORECASE,
    ),
)
"""Looked for in this order; what an earlier kind took is no more there for a later one."""

_ASSIGNED = r"""(?=[>=]?[ \t]{0,4}\\{0,4}["']?[^\s"'\\]{5})"""
_SIGNS = re.compile(
    rf"""                                       # one of these characters is in whatever gives a secret away, and rare
    _(?:(?<=hf_)|(?<=gh[pousr]_|npm_)|(?<=whsec_)|(?<=k_live_|k_test_)|(?<=github_pat_))
  | -(?:(?<=sk-)(?<![A-Za-z0-9]sk-)|(?<=gldt-|glrt-|glft-|pypi-|xapp-|xox[a-z]-)|(?<=glpat-|glcbt-|glptt-|glimt-)
      | (?<=GOCSPX-)|(?<=-----)(?=BEGIN|END)
      | (?=(?i:secret|token|passw(?:or)?d|passphrase|api-?key)[ \t]))
  | \.(?:(?=eyJ|slack\.com/)|(?<=ya29\.))
  | A(?=KIA|SIA|BIA|CCA|Iza)
  | :(?:(?=//[^\s/:@"'<>]{{0,255}}:[^\s/@"'<>]{{3,255}}@)|(?P<colon>{_ASSIGNED}))
  | =(?P<equals>{_ASSIGNED})
    """,
    re.VERBOSE,
)
"""Where a secret of ``KINDS`` could be: at every one of them there is a sign, and few signs are of a secret.

A named sign counts only after a telling name; the kind ``bearer`` has none but its name.
"""
_TELLING_NAMES = ("secret", "token", "pass", "pwd", "credential", "key", "_pat", "authorization")
_NAMED = re.compile(
    rf"(?:{'|'.join(_TELLING_NAMES)})(?:wd|word|phrase)?s?(?:[_-]\w{{1,32}}|\d{{1,4}})?\\{{0,4}}[\"']?[ \t]{{0,4}}\Z"
)
LONGEST_NAME = 64
"""Characters in which a name that ``_NAMED`` tells has room."""
_BEARER = ("bearer", "Bearer", "BEARER")


class Redactor:
    """Takes secrets out of texts: those of ``KINDS``, and literal ``values`` (of the environment, say).

    A value that is short, a plain word, a number or a path is left alone: it would be found everywhere.
    """

    def __init__(self, values: Sequence[str] = ()) -> None:
        worth = sorted({value for value in values if _worth_hiding(value)}, key=lambda value: (-len(value), value))
        literal = "|".join(map(re.escape, worth))
        self._values = tuple(worth)
        self._literal = re.compile(f"{_PLACEHOLDER}|(?P<secret>{literal})") if worth else None

    def redact(self, text: str) -> str:
        """The text with a placeholder for each secret; redacting it once more changes nothing."""
        while self.suspects(text) and (redacted := self._pass(text)) != text:
            text = redacted  # what is left may now stand at a boundary; each pass leaves less of it
        return text

    def suspects(self, text: str) -> bool:
        """Whether anything in the text may be a secret; cheap, and False for nearly all of them."""
        if any(value in text for value in self._values) or any(word in text for word in _BEARER):
            return True
        return any(sign.lastgroup is None or _is_named(text, sign.start()) for sign in _SIGNS.finditer(text))

    def changes(self, texts: Sequence[str]) -> dict[str, str]:
        """Those of many texts that hold secrets, and what they are without them: as ``redact`` on each, but faster."""
        if not self.suspects("\n".join(texts)):
            return {}
        return {text: redacted for text in texts if (redacted := self.redact(text)) != text}

    def _pass(self, text: str) -> str:
        if self._literal:
            text = self._literal.sub(_hide_literal, text)
        lowered = _lower(text)
        for kind in KINDS:
            if secrets := tuple(_find(kind, text, lowered)):
                text = _hide(kind.name, text, secrets)
                lowered = _lower(text)
        return text


def redact_session(session: Session, redactor: Redactor) -> Session:
    """The session without secrets in anything said, run or touched; the very same value if it held none.

    ``source``, ``path``, ids and times stay: they are what a session is found by again.
    """
    changes = redactor.changes(tuple(dict.fromkeys(_texts(session))))
    if not changes:
        return session

    def redact(text: str) -> str:
        return changes.get(text, text)

    return replace(
        session,
        cwd=redact(session.cwd),
        branch=redact(session.branch),
        turns=tuple(
            replace(
                turn,
                prompt=redact(turn.prompt),
                final=redact(turn.final),
                tools=tuple(map(redact, turn.tools)),
                skills=tuple(map(redact, turn.skills)),
                commands=tuple(replace(command, line=redact(command.line)) for command in turn.commands),
                files=tuple(map(redact, turn.files)),
            )
            for turn in session.turns
        ),
    )


def _is_named(text: str, end: int) -> bool:
    """Whether a telling name stands right before this place."""
    before = _lower(text[max(0, end - LONGEST_NAME) : end])
    return any(name in before for name in _TELLING_NAMES) and _NAMED.search(before) is not None


def _lower(text: str) -> str:
    """The text in lower case, character for character: the one capital that has two for its small form is kept out."""
    return text.replace("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "I").lower()


def _find(kind: Kind, text: str, lowered: str) -> Iterator[slice]:
    """Where the secrets of one kind stand, in order, none over another."""
    end = 0
    for start in _starts(kind, text, lowered):
        match = kind.pattern.match(text, start) if start >= end else None
        if match is None:
            continue
        secret = slice(*match.span(match.lastgroup or 0))
        if kind.accept(text[secret]):
            yield secret
        elif secret.stop - secret.start < REJECTED:
            continue
        end = match.end()


def _starts(kind: Kind, text: str, lowered: str) -> list[int]:
    if kind.anywhere:
        hinted = any(hint in lowered for hint in kind.hints)
        return [match.start() for match in kind.pattern.finditer(text)] if hinted else []
    return sorted(start for hint in kind.hints for start in _occurrences(hint, lowered))


def _occurrences(hint: str, lowered: str) -> Iterator[int]:
    start = lowered.find(hint)
    while start >= 0:
        yield start
        start = lowered.find(hint, start + 1)


def _hide(kind: str, text: str, secrets: Sequence[slice]) -> str:
    pieces: list[str] = []
    end = 0
    for secret in secrets:
        pieces += (text[end : secret.start], _placeholder(kind, text[secret]))
        end = secret.stop
    return "".join((*pieces, text[end:]))


def _texts(session: Session) -> Iterator[str]:
    yield from (session.cwd, session.branch)
    for turn in session.turns:
        yield from (turn.prompt, turn.final, *turn.tools, *turn.skills, *turn.files)
        yield from (command.line for command in turn.commands)


def _worth_hiding(value: str) -> bool:
    plain = value.isalpha() or _NUMBER.fullmatch(value) or _PATH.match(value)
    return len(value) >= LITERAL and not plain


def _hide_literal(match: re.Match[str]) -> str:
    return _placeholder("environment", match["secret"]) if match["secret"] else match[0]


def _placeholder(kind: str, secret: str) -> str:
    return f"[redacted:{kind}:{hashlib.sha256(f'{kind}:{secret}'.encode('utf-8', 'replace')).hexdigest()[:6]}]"
