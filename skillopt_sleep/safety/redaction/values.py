"""Decide whether a value is a secret, or only a stand-in, a name, a number, a path or a word.

Most of what follows a telling name is no secret. The kinds here are secrets that a sentence or a login file gives away.
"""

from __future__ import annotations

import re
from functools import lru_cache

from skillopt_sleep.safety.redaction.kinds import Found, Kind, is_irregular, is_mixed, is_random, looks_made
from skillopt_sleep.safety.redaction.shapes import encodes_a_pair, encodes_text

LEAST = 6
"""Least characters of a secret that only a name gives away."""
PHRASE = 80
"""Most characters of a password of several words."""
MADE = 16
"""Characters from which on a value is a generated key, whatever its name is."""

LONGEST_NAME = 72
"""Most characters of a value that is compared with its name."""

_STANDS_FOR = re.compile(
    r"""\[redacted: | \$(?:[{(]|[A-Za-z_][\w:]*(?:[{\[]|\W{0,4}$)|\d\b) | \#[a-z][a-z-]*$ | <[^>\n]{0,80}>? | [({] | \#\{ | %(?:\w{1,40}%(?!\w)|[({]|[sd]\b)
    | -{3} | \*{3} | [*&][a-z_]{1,40}$ | \[[A-Za-z _.-]{0,60}\]?$    # $TOKEN, <token>, {{token}}, %s, ****, [token]
    | [\w-]{0,20}(?:\.{3}|\u2026) | (?:\w{1,20}://|urn:)         # what is left out; a URL, or a reference to a vault
    | (?:your|my|the|an?|some|any|example|dummy|fake|sample|test|new|old|insert|enter|replace|not|real)[-_ ]
        (?:[\w-]{1,20}[-_ ]){0,4}(?:key|token|secret|passw\w{0,10}|here|value|string)s?\b
    | (?:your|example|placeholder|change[-_]?me|change[-_]?it|replace[-_]?me|redacted)
    | (?:[\w-]{0,20}x{3,99}|-{2}|true|false|null|none|nil|undefined|string|str|bytes|number|integer|boolean|object|required
        |optional|nullable|pass|pwd|pw|passw\w{0,10}|passphrase|secrets?|tokens?|bearer|basic|credentials?|hidden|masked|private
        |public|unset|empty|missing|invalid|expired|default|hashed|encrypted|sensitive|confirmed|plaintext|text|value
        |@\w{1,40}:|enabled|disabled|inherit|always|never|write|read|github|include|same-origin|omit|username|login)\W{0,9}$
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""How a value begins that only stands in for a secret."""
_REFERENCE = re.compile(
    r"[a-z_$][\w$]{0,64}(?:\??\.[a-z_$][\w$]{0,64}){0,8}\??[(\[]"  # get_token(…), os.environ[…]
    r"|[a-z_$][\w$]{0,64}(?:(?:\??\.|::)[a-z_$][\w$]{0,64}){1,8}\W{0,3}$"  # settings.secret, Auth::token
    r"|(?:process\.env|os\.environ|import\.meta|System\.|env\.|config\.|self\.|this\.|secrets\.|var\.|data\.|local\.)",
    re.IGNORECASE,
)
"""A name in a program, or a call or an access by name."""
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_NUMBERED = re.compile(
    r"(?:[a-z]{3,}|(?:[A-Z][a-z]{2,}|[a-z]{2,})[0-9]{0,2}(?:[A-Z][a-z]{2,}){1,6}|[A-Z][a-z]{2,})[0-9]"
)
"""Names of one or more words, with a digit after or between them."""
_NUMBER = re.compile(r"[\d.,:_+-]*|0x[0-9a-fA-F]{1,8}|#[0-9a-fA-F]{3,8}")
_HEX = re.compile(r"[0-9a-f]*")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_NO_SECRET = re.compile(r"%[sd](?!\w)|\{[a-z_]*\}|abcdefghijklm|ABCDEFGHIJKLM")
"""Signs of a template, or the alphabet."""
_WORDS = re.compile(r"_{0,2}[A-Za-z]{1,99}(?:[._/ -][A-Za-z]{1,99}){0,9}(?:-[0-9]{1,3}|_{1,2})?\W{0,3}")
_PATH = re.compile(r"(?:\w{1,20}:/)?(?:\.{0,2}|~|[A-Za-z]:)[/\\].*", re.DOTALL)
_VARIABLE = re.compile(r"[a-z]+(?:[A-Z][a-z]+)*(?:Password|Passphrase|Passwd|Secret|Token|Key)[0-9]{1,2}\b")
_SENTENCE = re.compile(
    r"\b(?:the|your|you|is|are|must|be|to|for|and|or|not|with|please|enter|a|an|of|in|at|least|contain|again|forgot)\b",
    re.IGNORECASE,
)

_KEPT = re.compile(r"(?:cache|sort|partition|idempotency|primary|foreign|index|session)_?key", re.IGNORECASE)
"""Keys that open nothing, unless they look random."""


def is_stand_in(value: str) -> bool:
    """Tell whether a value only stands in for a secret: a variable, a placeholder, a word of a schema."""
    return _STANDS_FOR.match(value) is not None


def _is_path(value: str) -> bool:
    """Tell whether a value is a path; Base64 may begin with a slash too."""
    if _PATH.match(value) is None:
        return False
    random = len(value) >= 2 * MADE and is_mixed(value) and "." not in value and any(map(str.isupper, value))
    return not random


def _is_stated(value: str, name: str) -> bool:
    """Tell whether the value itself is a secret where the form demands one, as a line of an .env does."""
    return not (
        is_stand_in(value)
        or _is_path(value)
        or _NO_SECRET.search(value)
        or (_REFERENCE.match(value) and not (is_random(value) or is_irregular(value)))
        or (len(value) <= LONGEST_NAME and _normalize(value) == _normalize(name))
        or (_NUMBER.fullmatch(value) and "pass" not in name.lower() and "pwd" not in name.lower())
    )


def _normalize(value: str) -> str:
    return "".join(c for c in value.lower() if c.isalnum())


def _is_assigned(value: str, name: str) -> bool:
    """Tell the same where a number, a word or a name in a program is possible too."""
    plain = _NUMBER.fullmatch(value) or (
        are_words(value) and not (is_random(value) or is_irregular(value)) and not encodes_text(value)
    )
    return _is_stated(value, name) and not plain


def _is_word(value: str, name: str) -> bool:
    """Tell whether a quoted password is a word, or a phrase."""
    words = value.split(" ")
    if len(words) > 3:  # noqa: PLR2004
        return all(word.isalpha() and word.islower() for word in words) and not _SENTENCE.search(value)
    return value.isascii() and value.isalpha() and value.islower() and len(value) > LEAST and _is_stated(value, name)


def is_variable(value: str, *, of_password: bool) -> bool:
    """Tell whether a value is the name of a secret or constant: ``SOME_NAME2``, ``userPassword2``."""
    return _CONSTANT.fullmatch(value) is not None or (of_password and _VARIABLE.match(value) is not None)


def are_words(value: str) -> bool:
    """Tell whether a value is a word, or words joined by signs."""
    return _WORDS.fullmatch(value) is not None


def is_sentence(words: str) -> bool:
    """Tell whether these words belong to a sentence, and not to a password."""
    return _SENTENCE.search(words) is not None


def is_identifier(value: str) -> bool:
    """Tell whether a value is a name in a program with a number after it: ``Token2``, ``hashedPassword1``."""
    return _NUMBERED.fullmatch(value) is not None and len(value) < 2 * MADE and not is_random(value)


def is_secret_beside(value: str, name: str, which: str) -> bool:
    """Tell whether a value apart from its telling name is a secret."""
    if which == "header":
        return is_mixed(value) or encodes_a_pair(value.partition(" ")[2])
    return is_secret(value, name, which, env=False, quoted=True)


@lru_cache(maxsize=512)
def is_secret(  # noqa: PLR0911 -- one row for each sort of name
    value: str, name: str, which: str, *, env: bool, quoted: bool
) -> bool:
    """Tell whether the value of a name is a secret; ``which`` is the telling group, ``env`` a file of only settings."""
    made = is_mixed(value) and looks_made(value) and " " not in value
    match which:
        case "any" | "key" if _KEPT.search(name):
            return any(is_random(part) and not _HEX.fullmatch(part) for part in value.split("-"))
        case "any":
            return name.isupper() and len(value) >= MADE and made and _is_assigned(value, name)
        case "query":
            return len(value) >= MADE and made and is_random(value)
        case "auth" | "key" if not env and not quoted and is_identifier(value):
            return False
        case "auth":
            return len(value) >= 2 * LEAST and (encodes_a_pair(value) or (made and _is_assigned(value, name)))
        case "uuid":
            return _UUID.fullmatch(value) is not None
        case "heroku":
            return len(value) >= MADE and is_mixed(value) and _is_assigned(value, name)
    return _is_stated(value, name) if env else _is_likely(value, name, quoted=quoted, password=which == "word")


def _is_likely(value: str, name: str, *, quoted: bool, password: bool) -> bool:
    """Tell whether the value of a password or key is a secret where other things are possible too."""
    if not quoted:
        likely = looks_made(value) or encodes_text(value) or _NUMBER.fullmatch(value) is not None
        return likely and _is_assigned(value, name)
    if " " not in value:
        return _is_assigned(value, name) or (password and _is_word(value, name))
    phrase = looks_made(value) and len(value) < PHRASE and not is_sentence(value)
    return password and (phrase or _is_word(value, name))


BACK = 300
MANIFEST = 3_000
"""Most characters of the manifest of a secret."""
LEAST_PASSWORD = 6
SAID_LEAST = 8
LEAST_KEY = 16
"""Least characters of what a sentence calls a password, another secret, a key."""

_NETRC = re.compile(r"password\s{1,8}\\?[\"']?(?P<secret>[^\s\"'\\]{3,400}?)(?=[\s\"'\\]|</|\Z)")
_LOGIN = {"machine", "login", "account", "default"}
_WIFI = re.compile(r"\bnmcli\b[^\n;|]*\Z")
_PLAIN = re.compile(r"[A-Za-z]{1,99}(?:[._/-][A-Za-z]{1,99}){0,9}\W{0,3}|[\d.,:]*|-.*")
_HOST = re.compile(r"[\w-]*(?:[.:\d]|localhost)[\w.:-]*")

_PGPASS = re.compile(
    r":(?:[0-9]{4,5}|\*):[A-Za-z*][^\s:/]{0,63}:[A-Za-z*][^\s:/]{0,63}:(?P<secret>[^\s:\"'\\]{4,200})(?=[\"'\s]|\Z)"
)
_HOST_BEFORE = re.compile(r"(?:^|[\s>+\"'])[\w.*-]{1,100}\Z")
_SECRET = "kind: Secret"  # noqa: S105 -- what the manifest of one says
_ENTRY = re.compile(r":[ ](?P<secret>[A-Za-z0-9+/]{8,12000}={0,2})(?=\s|\Z)")

_SAYS = (
    r"s?(?: (?:for|to|of|on|in) [^\n.:;,=]{1,24}?)?(?: (?:is|was|will be|to|ist|lautet|est|es)(?: now)?:?|:)"
    r"(?:[ ]{1,2}|[ ]?\r?\n(?=[\w!#$%^&*+.-]{10,200}[ ]?(?:\r?\n|\Z)))"
)
_SAYS = rf"(?:{_SAYS}|[ ](?=[A-Za-z]{{0,24}}[0-9][\w!#$%^&*+-]{{8}}))"
"""From the word to the secret, in the same sentence or alone in the next line."""
_SAID = re.compile(
    r"(?:pass(?:word|phrase|code|wd)|token|key|secret)"
    rf"{_SAYS}[^\w\n]{{0,3}}?(?P<secret>[^\s\\\"'`,;<>()\[\]{{}}\u201c\u201d]{{6,400}})",
    re.IGNORECASE,
)
_TOLD = re.compile(r":[ ]|(?:is|was|be|to|ist|lautet|est|es|now):?[ ]")
_KEY_BEFORE = re.compile(
    r"(?:api|access|account|secret|private|auth|encryption|signing|master|storage|shared|unseal|recovery)[ _-]\Z",
    re.IGNORECASE,
)
_AWS = re.compile(
    r"secret[_. -]?(?:access[_. -]?)?key\b[^\n]{0,40}?(?:\n[ \t>]{0,8})?(?<![A-Za-z0-9+/])(?P<secret>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])",
    re.IGNORECASE,
)


def _find_netrc(text: str, at: int) -> Found | None:
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


def _find_pgpass(text: str, at: int) -> Found | None:
    """Find the password of ``host:5432:database:user:password``."""
    match = _PGPASS.match(text, at)
    if match is None or _HOST_BEFORE.search(text, max(0, at - 101), at) is None:
        return None
    value = match["secret"]
    if is_stand_in(value) or not looks_made(value) or is_identifier(value):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _find_in_manifest(text: str, at: int) -> Found | None:
    """Find an entry below ``data:`` in the manifest of a Kubernetes secret."""
    following = text.find(_SECRET, at)
    if text.rfind(_SECRET, max(0, at - MANIFEST), at) < 0 and not 0 <= following - at < MANIFEST:
        return Found("", at, at, max(at, following - MANIFEST + 1) if following >= 0 else len(text))
    match = _ENTRY.match(text, at)
    above = text[max(0, at - MANIFEST) : at].split("\n")
    depth = _measure_indent(above[-1])
    parent = next((line for line in reversed(above[:-1]) if line.strip() and _measure_indent(line) < depth), "")
    written = parent.strip() == "data:" or (parent.strip() == "stringData:" and match and looks_made(match["secret"]))
    if match is None or not written or is_stand_in(match["secret"]):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _find_said(text: str, at: int) -> Found | None:
    """Find the secret of ``the password is …``; ``at`` is inside the word."""
    start = at
    while start > 0 and at - start < 3 and text[start - 1].isalpha():  # noqa: PLR2004
        start -= 1
    if text[start] in "sS" and (aws := _AWS.match(text, start)):
        value = aws["secret"]
        if is_mixed(value) and any(map(str.isupper, value)) and any(map(str.islower, value)):
            return Found("aws", *aws.span("secret"), aws.end())
    match = _SAID.match(text, start)
    if match is None:
        return None
    value = match["secret"].rstrip(".,;:!?)*")
    word = text[start : start + 3].lower()
    if word == "key" and not (_KEY_BEFORE.search(text, max(0, start - 14), start) and len(value) >= LEAST_KEY):
        return None
    if not _is_said_secret(
        value, password=word == "pas", told=_TOLD.search(text, start, match.start("secret")) is not None
    ):
        return None
    return Found("secret", match.start("secret"), match.start("secret") + len(value), match.end())


def _is_said_secret(value: str, *, password: bool, told: bool) -> bool:
    """Tell whether the words are a secret; if neither a verb nor a colon introduced (``told``) it, it must look like one."""
    if len(value) < (LEAST_PASSWORD if password else SAID_LEAST) or is_stand_in(value) or not looks_made(value):
        return False
    return (told or is_irregular(value)) and (password or not is_identifier(value))


SAID: tuple[Kind, ...] = (
    Kind("manifest", ":", _find_in_manifest, r"(?<=[\w]:)", r"[ ][A-Za-z0-9+/]{8,12000}={0,2}(?:[ \r]?\n|\Z)"),
    Kind(
        "pgpass",
        ":",
        _find_pgpass,
        r"(?<=[\w*]:)",
        r"(?:[0-9]{4,5}|\*):[A-Za-z*][^\s:/]{0,63}:[A-Za-z*][^\s:/]{0,63}:[^\s:]{4}",
    ),
    Kind("netrc", "p", _find_netrc, "(?=assword)", r"assword\s"),
    Kind("said", "p", _find_said, "(?=ass[wpc])", r"ass(?:word|phrase|code|wd)" + _SAYS),
    Kind("said", "P", _find_said, "(?=[aA])", r"(?i:ass(?:word|phrase|code|wd))" + _SAYS),
    Kind("said", "kK", _find_said, r"(?=[eE][nNyY][sS]?[ :])(?:(?<=[oO][kK])|(?<=[ _-][kK]))", r"(?i:en|ey)" + _SAYS),
    Kind(
        "said",
        "cC",
        _find_said,
        r"(?=[rR][eE][tT])(?<=[eE][cC])",
        r"(?i:ret)(?:[_. -]?(?:access[_. -]?)?key\b|" + _SAYS + ")",
    ),
)
