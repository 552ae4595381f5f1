"""What values are: whether one is a secret, or only stands for one, or is a name, a number, a path, a word.

Where only a name says that a secret follows, most of what follows is none.

Secrets that a sentence gives away, or the words of a login file.
"""

from __future__ import annotations

import re
from functools import lru_cache

from skillopt_sleep.safety.redaction.kinds import Found, Kind, drawn_at_random, irregular, mixed, telling
from skillopt_sleep.safety.redaction.shapes import encodes_a_pair, encodes_text

LEAST = 6
"""Characters of a secret that only a name gives away."""
PHRASE = 80
"""Characters of the longest password of several words."""
MADE = 16
"""Characters of a value that is a made key, whatever it is called by."""

LONGEST_NAME = 72
"""Characters of the longest name that is compared with a value."""

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
"""How a value begins that only stands for a secret."""
_REFERENCE = re.compile(
    r"[a-z_$][\w$]{0,64}(?:\??\.[a-z_$][\w$]{0,64}){0,8}\??[(\[]"  # get_token(…), os.environ[…]
    r"|[a-z_$][\w$]{0,64}(?:(?:\??\.|::)[a-z_$][\w$]{0,64}){1,8}\W{0,3}$"  # settings.secret, Auth::token
    r"|(?:process\.env|os\.environ|import\.meta|System\.|env\.|config\.|self\.|this\.|secrets\.|var\.|data\.|local\.)",
    re.IGNORECASE,
)
"""A name in a program, or what calls for one."""
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_NUMBERED = re.compile(
    r"(?:[a-z]{3,}|(?:[A-Z][a-z]{2,}|[a-z]{2,})[0-9]{0,2}(?:[A-Z][a-z]{2,}){1,6}|[A-Z][a-z]{2,})[0-9]"
)
"""Names of one word or more with a digit behind or among them."""
_NUMBER = re.compile(r"[\d.,:_+-]*|0x[0-9a-fA-F]{1,8}|#[0-9a-fA-F]{3,8}")
_HEX = re.compile(r"[0-9a-f]*")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_NO_SECRET = re.compile(r"%[sd](?!\w)|\{[a-z_]*\}|abcdefghijklm|ABCDEFGHIJKLM")
"""What a template has, or all the letters there are."""
_WORDS = re.compile(r"_{0,2}[A-Za-z]{1,99}(?:[._/ -][A-Za-z]{1,99}){0,9}(?:-[0-9]{1,3}|_{1,2})?\W{0,3}")
_PATH = re.compile(r"(?:\w{1,20}:/)?(?:\.{0,2}|~|[A-Za-z]:)[/\\].*", re.DOTALL)
_VARIABLE = re.compile(r"[a-z]+(?:[A-Z][a-z]+)*(?:Password|Passphrase|Passwd|Secret|Token|Key)[0-9]{1,2}\b")
_SENTENCE = re.compile(
    r"\b(?:the|your|you|is|are|must|be|to|for|and|or|not|with|please|enter|a|an|of|in|at|least|contain|again|forgot)\b",
    re.IGNORECASE,
)

_KEPT = re.compile(r"(?:cache|sort|partition|idempotency|primary|foreign|index|session)_?key", re.IGNORECASE)
"""Keys that open nothing, unless they are drawn at random."""


def stands_for(value: str) -> bool:
    """Whether a value only stands for a secret: a variable, a placeholder, a word of a schema."""
    return _STANDS_FOR.match(value) is not None


def _is_path(value: str) -> bool:
    """A path; Base64 may begin with a slash too."""
    if _PATH.match(value) is None:
        return False
    random = len(value) >= 2 * MADE and mixed(value) and "." not in value and any(map(str.isupper, value))
    return not random


def _stated(value: str, name: str) -> bool:
    """Whether the value is the secret itself, where the form says that one stands here: a line of an .env."""
    return not (
        stands_for(value)
        or _is_path(value)
        or _NO_SECRET.search(value)
        or (_REFERENCE.match(value) and not (drawn_at_random(value) or irregular(value)))
        or (len(value) <= LONGEST_NAME and _letters(value) == _letters(name))
        or (_NUMBER.fullmatch(value) and "pass" not in name.lower() and "pwd" not in name.lower())
    )


def _letters(value: str) -> str:
    return "".join(c for c in value.lower() if c.isalnum())


def _assigned(value: str, name: str) -> bool:
    """The same where a number, a word or a name in a program may stand as well."""
    plain = _NUMBER.fullmatch(value) or (
        are_words(value) and not (drawn_at_random(value) or irregular(value)) and not encodes_text(value)
    )
    return _stated(value, name) and not plain


def _word(value: str, name: str) -> bool:
    """A password between quotes that is a word, or a phrase of some."""
    words = value.split(" ")
    if len(words) > 3:  # noqa: PLR2004
        return all(word.isalpha() and word.islower() for word in words) and not _SENTENCE.search(value)
    return value.isascii() and value.isalpha() and value.islower() and len(value) > LEAST and _stated(value, name)


def is_variable(value: str, *, of_password: bool) -> bool:
    """Whether this is how a program calls a secret, or a constant: ``SOME_NAME2``, ``userPassword2``."""
    return _CONSTANT.fullmatch(value) is not None or (of_password and _VARIABLE.match(value) is not None)


def are_words(value: str) -> bool:
    """Whether this is a word, or words that a sign or two join."""
    return _WORDS.fullmatch(value) is not None


def is_sentence(words: str) -> bool:
    """Whether these words are of a sentence, and not of a password."""
    return _SENTENCE.search(words) is not None


def is_identifier(value: str) -> bool:
    """A name in a program with a number behind it: ``Token2``, ``hashedPassword1``."""
    return _NUMBERED.fullmatch(value) is not None and len(value) < 2 * MADE and not drawn_at_random(value)


def secret_by_name(value: str, name: str, which: str) -> bool:
    """Whether a value that stands apart from a telling name is a secret."""
    if which == "header":
        return mixed(value) or encodes_a_pair(value.partition(" ")[2])
    return is_secret(value, name, which, env=False, quoted=True)


@lru_cache(maxsize=512)
def is_secret(  # noqa: PLR0911 -- one row for each sort of name
    value: str, name: str, which: str, *, env: bool, quoted: bool
) -> bool:
    """Whether the value of a name is a secret; ``which`` says how the name tells, ``env`` that only values stand here."""
    made = mixed(value) and telling(value) and " " not in value
    match which:
        case "any" | "key" if _KEPT.search(name):
            return any(drawn_at_random(part) and not _HEX.fullmatch(part) for part in value.split("-"))
        case "any":
            return name.isupper() and len(value) >= MADE and made and _assigned(value, name)
        case "query":
            return len(value) >= MADE and made and drawn_at_random(value)
        case "auth" | "key" if not env and not quoted and is_identifier(value):
            return False
        case "auth":
            return len(value) >= 2 * LEAST and (encodes_a_pair(value) or (made and _assigned(value, name)))
        case "uuid":
            return _UUID.fullmatch(value) is not None
        case "heroku":
            return len(value) >= MADE and mixed(value) and _assigned(value, name)
    return _stated(value, name) if env else _told(value, name, quoted=quoted, password=which == "word")


def _told(value: str, name: str, *, quoted: bool, password: bool) -> bool:
    """Whether the value of a password or a key is one, where other things may stand as well."""
    if not quoted:
        likely = telling(value) or encodes_text(value) or _NUMBER.fullmatch(value) is not None
        return likely and _assigned(value, name)
    if " " not in value:
        return _assigned(value, name) or (password and _word(value, name))
    phrase = telling(value) and len(value) < PHRASE and not is_sentence(value)
    return password and (phrase or _word(value, name))


BACK = 300
MANIFEST = 3_000
"""Characters of the manifest of a secret."""
LEAST_PASSWORD = 6
SAID_LEAST = 8
LEAST_KEY = 16
"""Characters of something that is said to be a password, another secret, a key."""

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
"""To what is said, in the same sentence, or by itself in the next line."""
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


def _netrc(text: str, at: int) -> Found | None:
    """``machine host login user password …``, in a line or in several."""
    match = _NETRC.match(text, at)
    if match is None or stands_for(match["secret"]):
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


def _pgpass(text: str, at: int) -> Found | None:
    """``host:5432:database:user:password``."""
    match = _PGPASS.match(text, at)
    if match is None or _HOST_BEFORE.search(text, max(0, at - 101), at) is None:
        return None
    value = match["secret"]
    if stands_for(value) or not telling(value) or is_identifier(value):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _manifest(text: str, at: int) -> Found | None:
    """An entry below ``data:`` in the manifest of a secret of Kubernetes."""
    following = text.find(_SECRET, at)
    if text.rfind(_SECRET, max(0, at - MANIFEST), at) < 0 and not 0 <= following - at < MANIFEST:
        return Found("", at, at, max(at, following - MANIFEST + 1) if following >= 0 else len(text))
    match = _ENTRY.match(text, at)
    above = text[max(0, at - MANIFEST) : at].split("\n")
    depth = _depth(above[-1])
    parent = next((line for line in reversed(above[:-1]) if line.strip() and _depth(line) < depth), "")
    written = parent.strip() == "data:" or (parent.strip() == "stringData:" and match and telling(match["secret"]))
    if match is None or not written or stands_for(match["secret"]):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _said(text: str, at: int) -> Found | None:
    """``the password is …``; ``at`` is inside the word, whose start is looked for."""
    start = at
    while start > 0 and at - start < 3 and text[start - 1].isalpha():  # noqa: PLR2004
        start -= 1
    if text[start] in "sS" and (aws := _AWS.match(text, start)):
        value = aws["secret"]
        if mixed(value) and any(map(str.isupper, value)) and any(map(str.islower, value)):
            return Found("aws", *aws.span("secret"), aws.end())
    match = _SAID.match(text, start)
    if match is None:
        return None
    value = match["secret"].rstrip(".,;:!?)*")
    word = text[start : start + 3].lower()
    if word == "key" and not (_KEY_BEFORE.search(text, max(0, start - 14), start) and len(value) >= LEAST_KEY):
        return None
    if not _is_said(value, password=word == "pas", told=_TOLD.search(text, start, match.start("secret")) is not None):
        return None
    return Found("secret", match.start("secret"), match.start("secret") + len(value), match.end())


def _is_said(value: str, *, password: bool, told: bool) -> bool:
    """Whether what is said is a secret; where it is not ``told`` by a verb or a colon, it must show by itself."""
    if len(value) < (LEAST_PASSWORD if password else SAID_LEAST) or stands_for(value) or not telling(value):
        return False
    return (told or irregular(value)) and (password or not is_identifier(value))


SAID: tuple[Kind, ...] = (
    Kind("manifest", ":", _manifest, r"(?<=[\w]:)", r"[ ][A-Za-z0-9+/]{8,12000}={0,2}(?:[ \r]?\n|\Z)"),
    Kind(
        "pgpass",
        ":",
        _pgpass,
        r"(?<=[\w*]:)",
        r"(?:[0-9]{4,5}|\*):[A-Za-z*][^\s:/]{0,63}:[A-Za-z*][^\s:/]{0,63}:[^\s:]{4}",
    ),
    Kind("netrc", "p", _netrc, "(?=assword)", r"assword\s"),
    Kind("said", "p", _said, "(?=ass[wpc])", r"ass(?:word|phrase|code|wd)" + _SAYS),
    Kind("said", "P", _said, "(?=[aA])", r"(?i:ass(?:word|phrase|code|wd))" + _SAYS),
    Kind("said", "kK", _said, r"(?=[eE][nNyY][sS]?[ :])(?:(?<=[oO][kK])|(?<=[ _-][kK]))", r"(?i:en|ey)" + _SAYS),
    Kind(
        "said",
        "cC",
        _said,
        r"(?=[rR][eE][tT])(?<=[eE][cC])",
        r"(?i:ret)(?:[_. -]?(?:access[_. -]?)?key\b|" + _SAYS + ")",
    ),
)
