"""Secrets that a name gives away: assignments in any notation, lines of an .env, headers, cookies, tags of XML."""

from __future__ import annotations

import re
from functools import lru_cache

from skillopt_sleep.domain.redact.kind import NEWLINE, Found, Kind, drawn_at_random, irregular, mixed, rejected, telling
from skillopt_sleep.domain.redact.shapes import encodes_a_pair, encodes_text

__all__ = ["LEAST", "MADE", "NAMING", "is_identifier", "name_before", "secret_by_name", "stands_for"]

ROOM = 72
"""Characters in which a name that tells has room, with what stands between it and its sign."""
NAME = 20
"""Characters of the longest name before the last word in it that tells."""
LEAST = 6
"""Characters of a secret that only a name gives away."""
SHORT = 4
"""Characters of a password in an .env, where nothing but values stand."""
AFTER_A_QUOTE = frozenset("+,;)]}.")
"""What follows a string that has ended, and seldom begins one."""
LINE_BEFORE = 400
"""Characters of a line before, to see whether it sets something too."""
PHRASE = 80
"""Characters of the longest password of several words."""
MADE = 16
"""Characters of a value that is a made key, whatever it is called by."""

_STANDS_FOR = re.compile(
    r"""\[redacted: | \\?u003c | \$(?:[{(]|[A-Za-z_]\w*\W{0,4}$|\d\b) | <[^>\n]{0,80}>? | [({] | \#\{ | %(?:\w{1,40}%(?!\w)|[({]|[sd]\b)
    | \*{3} | [*&][a-z_]{1,40}$ | \[[A-Za-z _.-]{0,60}\]?$    # $TOKEN, <token>, {{token}}, %s, ****, [token]
    | [\w-]{0,20}(?:\.{3}|\u2026) | \w{1,20}://         # what is left out; a URL, or a reference to a vault
    | (?:your|my|the|an?|some|any|example|dummy|fake|sample|test|new|old|insert|enter|replace|not|real)[-_ ]
        (?:[\w-]{1,20}[-_ ]){0,4}(?:key|token|secret|passw\w{0,10}|here|value|string)s?\b
    | (?:your|example|placeholder|change[-_]?me|change[-_]?it|replace[-_]?me|redacted)
    | (?:[\w-]{0,20}x{3,99}|-{2,99}|true|false|null|none|nil|undefined|string|str|bytes|number|integer|boolean|object|required
        |optional|nullable|pass|pwd|pw|passw\w{0,10}|passphrase|secrets?|tokens?|bearer|basic|credentials?|hidden|masked|private
        |public|unset|empty|missing|invalid|expired|default|hashed|encrypted|sensitive|confirmed|plaintext|text|value
        |enabled|disabled|inherit|always|never|write|read|github|include|same-origin|omit|username|login)\W{0,9}$
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""How a value begins that only stands for a secret."""
_REFERENCE = re.compile(
    r"[a-z_$][\w$]{0,64}(?:\??\.[a-z_$][\w$]{0,64}){0,8}\??[(\[]"  # get_token(…), os.environ[…]
    r"|[a-z_$]+(?:\??\.[a-z_$][\w$]{0,64}){1,8}\W{0,3}$"  # settings.secret
    r"|(?:process\.env|os\.environ|import\.meta|System\.|env\.|config\.|self\.|this\.|secrets\.|var\.|data\.|local\.)",
    re.IGNORECASE,
)
"""A name in a program, or what calls for one."""
_NUMBERED = re.compile(
    r"(?:[a-z]{3,}|(?:[A-Z][a-z]{2,}|[a-z]{2,})[0-9]{0,2}(?:[A-Z][a-z]{2,}){1,6}|[A-Z][a-z]{2,})[0-9]"
)
"""Names of one word or more with a digit behind or among them."""
_NUMBER = re.compile(r"[\d.,:_+-]*")
_WORDS = re.compile(r"[A-Za-z]{1,99}(?:[._/ -][A-Za-z]{1,99}){0,9}\W{0,3}")
_PATH = re.compile(r"(?:\w{1,20}:/)?(?:\.{0,2}|~|[A-Za-z]:)[/\\].*", re.DOTALL)
_VARIABLE = re.compile(r"[a-z]+(?:[A-Z][a-z]+)*(?:Password|Passphrase|Passwd|Secret|Token|Key)[0-9]{1,2}\b")
_MORE_WORDS = re.compile(r"(?: [A-Za-z]{1,24}[0-9!.?]{0,4}){1,9}(?=[ \t]*(?:\r?\n|\Z))")
_EXPORT = re.compile(r"[ \t+>#-]*(?:export |set )?")
_SETTING = re.compile(r"[ \t]*\r?\n[ \t+>#-]*(?:export )?[A-Z_][A-Z0-9_]*=")
_SETTING_BEFORE = re.compile(r"(?:^|\n)[ \t+>#-]*(?:export )?[A-Z_][A-Z0-9_]*=[^\n]*\n\Z")
_RUNS = re.compile(
    r" (?:sudo|env|exec|time|nohup|ba?sh|zsh|sh|make|just|task|n(?:px|pm|ode)|p?npm|yarn|bun|deno|tsx?|vite|next|jest|vitest|python[23]?"
    r"|pytest|tox|nox|uv|pip|poetry|hatch|flask|django\S*|uvicorn|gunicorn|celery|ruby|rails|rake|bundle|php|composer|java|mvn"
    r"|gradle|dotnet|go|cargo|docker|podman|kubectl|helm|terraform|ansible\S*|aws|gcloud|az|git|gh|glab|vault|psql|pg_\w+"
    r"|createdb|mysql\w*|mongo\w*|redis-cli|curl|wget|ssh|scp|rsync|restic|borg|twine|echo|cat|read)\b"
)
"""Commands that a variable is often set for."""
_SENTENCE = re.compile(
    r"\b(?:the|your|you|is|are|must|be|to|for|and|or|not|with|please|enter|a|an|of|in|at|least|contain|again|forgot)\b",
    re.IGNORECASE,
)

_WORD = r"(?<!hashed)(?<!hashed[_-])(?<!encrypted)(?<!encrypted[_-])passw(?:or)?ds?|passwd|passwort|kennwort|contrase\xf1a|sshpass|(?<![a-z])pw(?![a-z])|pass(?:phrase|code)|pwd|(?<![a-z])pass|(?:db|smtp|user|mail|ftp|root|admin|http|proxy)pass"
_KEY = (
    r"(?:api|access|private|auth|encryption|signing|master|account|secret|shared|storage|service|session|license"
    r"|webhook|client|deploy|server|app|hmac|unseal|recovery|heroku|stripe|aws|azure|openai)[ _.-]?key"
)
_ABOUT = (
    r"(?![_.-]?(?:name|id|ur[il]|path|file|type|count|limit|len|length|ttl|header|field|param|helper|policy|hash|size"
    r"|expir\w*|version|label|format|prefix|class|store|manager|provider|scope|ref|arn|source|regex|pattern|min|max)s?\b)"
)
"""``token_url``, ``secret_name``: what is said about a secret, not the secret."""
_BETWEEN = r"[*_]{0,2}\\?[\"'`]?\]?[ \t]{0,4}(?:\[[^\]\n]{0,24}\][ \t]?)?(?::[ \t]?[\w\[\]| .&']{1,24}?[ \t])?:?"
"""From the name to the sign: quotes, blanks, a former value in brackets, a type, the colon of ``:=``."""
_NAMED = re.compile(
    rf"(?:(?P<word>{_WORD})|(?P<key>secret|token|credential|jwt|{_KEY}|client-key-data|_pat)s?"
    r"|(?P<header>(?:proxy-)?authorization|x-amz-security-token)|(?P<cookie>(?:set-)?cookie)|(?P<auth>\b_?auth)|(?P<sig>(?<![a-z])sig)|(?<=[?&])(?P<query>key)"
    r"|(?P<heroku>heroku[\w-]{0,24})|(?P<any>(?<!public)(?<!publishable)_key))"
    rf"{_ABOUT}(?:[_-][a-z0-9_]{{1,32}}|[ ]?\d{{1,4}})?{_BETWEEN}\Z"
)
_TELLING = (
    "pass",
    "pwd",
    "secret",
    "token",
    "cred",
    "key",
    "_pat",
    "auth",
    "cookie",
    "jwt",
    "sig",
    "heroku",
    "pw",
    "wort",
)
_PARTING = re.compile(r"[\n,;(){}<>]")
"""What never stands between a name and its sign."""
_IDENTIFIER = re.compile(r"[\w.-]{0,64}\Z")

_REST = re.compile(r"[^\w].*", re.DOTALL)
_GAP = rf"[*_]{{0,2}}[ \t]{{0,40}}(?:(?:[|>][+-]?[ \t]{{0,4}})?{NEWLINE}[ \t]{{1,40}})?(?:![\w-]{{1,20}}[ ])?"
"""To the value, which may stand in the next line, behind the sign of bold type or a tag of YAML."""
_VALUE = re.compile(
    rf"[=:]>?{_GAP}(?:"
    r"(?:(?P<call>[A-Za-z_][\w.]{0,40}\()?[brufBRUF]{0,2}(?P<q>[\"'`])(?P<quoted>(?:\\.|(?!(?P=q))[^\\\n]){4,8000}+))"
    r"|\\[\"'`](?P<escaped>[^\"'`\\\n]{4,8000}+)"
    r"|(?P<bare>[^\s\"'`\\]{4,400}+[A-Za-z0-9+/_-]{0,12000}+={0,2}))"
)
_TAGGED = re.compile(r">(?P<bare>[^<>\s\"\\]{4,4000})</")
_HEADER = re.compile(
    r"[=:]>?[ \t]{0,4}\\?[\"'`]?(?:(?:bearer|basic|token|digest|apikey|api-key|negotiate|key|aws4-hmac-sha256)[ \t]{1,4}|sharedkey(?:lite)?[ \t]{1,4}[\w-]{1,64}:)?"
    r"(?P<secret>[^\s\"'`\\,;<>(){}]{8,400}+[\w.~+/=-]{0,8000}+)",
    re.IGNORECASE,
)
_COOKIE = re.compile(r"[=:]>?[ \t]{0,4}\\?[\"'`]?(?P<secret>[\w.-]{1,64}=[^\r\n\"'`\\]{4,8000})")
_ATTRIBUTES = re.compile(r";\s*(?:path|max-age|expires|domain|samesite|secure|httponly)\b", re.IGNORECASE)
_COOKIE_PLAIN = re.compile(r"[\w.-]{1,64}=(?:[$<{%*\[]|\W|[a-z]{0,12}(?:[;, ]|$))")
_KEPT = re.compile(r"(?:cache|sort|partition|idempotency|primary|foreign|index|session)_?key", re.IGNORECASE)
"""Keys that open nothing, unless they are drawn at random."""
_SIG_BEFORE = re.compile(r"(?:[?&; \"']|\\u0026|%26)\Z")
_SIG = re.compile(r"=(?P<secret>[A-Za-z0-9%+/=_-]{20,400})")


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
        or (_REFERENCE.match(value) and not drawn_at_random(value))
        or (len(value) <= ROOM and _letters(value) == _letters(name))
        or (_NUMBER.fullmatch(value) and "pass" not in name.lower() and "pwd" not in name.lower())
    )


def _letters(value: str) -> str:
    return "".join(c for c in value.lower() if c.isalnum())


def _assigned(value: str, name: str) -> bool:
    """The same where a number, a word or a name in a program may stand as well."""
    plain = _NUMBER.fullmatch(value) or (
        _WORDS.fullmatch(value) and not (drawn_at_random(value) or irregular(value)) and not encodes_text(value)
    )
    return _stated(value, name) and not plain


def _word(value: str, name: str) -> bool:
    """A password between quotes that is a word, or a phrase of some."""
    words = value.split(" ")
    if len(words) > 3:  # noqa: PLR2004
        return all(word.isalpha() and word.islower() for word in words) and not _SENTENCE.search(value)
    return value.isascii() and value.isalpha() and value.islower() and len(value) > LEAST and _stated(value, name)


def _value(text: str, at: int, name: str, which: str) -> Found | None:
    tagged = text[at] == ">"
    match = (_TAGGED if tagged else _VALUE).match(text, at)
    if match is None:
        return None
    group = next(each for each in ("quoted", "escaped", "bare") if match.groupdict().get(each) is not None)
    start, stop = match.span(group)
    value = text[start:stop]
    env = name.isupper() and text[at] == "=" and text[at - 1] not in " :"
    if _is_none(match, value, name, env=env, telling_name=which == "word"):
        return None
    if group == "bare" and not tagged:
        if not env:
            value = re.split(r"[,;<>()\[\]{}]", value, maxsplit=1)[0]
            if text[start + len(value) : start + len(value) + 1] in {"(", "["} and value:
                return None
        value = value.rstrip(",;") if env else value.rstrip(",;.")
    if (group in {"quoted", "escaped"} and value[:1] in AFTER_A_QUOTE and not drawn_at_random(value)) or (
        name == "PASS" and text[at] == ":"
    ):  # "password=" + it; a test that passed
        return None
    least = SHORT if env and which == "word" else LEAST
    if len(value) < least or not _is_secret(value, name, which, env=env, quoted=group != "bare"):
        return rejected(at, stop)
    end = start + len(value)
    if env and which == "word" and group == "bare":
        end = _phrase(text, at - len(name), end)
    return Found("secret", start, end, end)


def _is_none(match: re.Match[str], value: str, name: str, *, env: bool, telling_name: bool) -> bool:
    """Whether it is clear at once that this is no secret, whatever it looks like."""
    groups = match.groupdict()
    if groups.get("call") and not (len(value) >= MADE and irregular(value)):
        return True  # what a function is asked for
    if env and groups.get("q") == "`" and " " in value:
        return True  # what a command prints
    if telling_name and not env and groups.get("bare") and _VARIABLE.match(value):
        return True
    return "HEADER" in name or value.startswith("session:{")


def _phrase(text: str, start: int, end: int) -> int:
    """The end of a password of several words without quotes, in a file where each line has a name and a value.

    In front of a command there may be such a line as well; then the value is its first word.
    """
    line = text.rfind("\n", 0, start) + 1
    words = _MORE_WORDS.match(text, end)
    if (
        words is None
        or _EXPORT.fullmatch(text, line, start) is None
        or _RUNS.match(text, end)
        or _SENTENCE.search(words[0])
    ):
        return end
    beside = _SETTING.match(text, words.end()) or _SETTING_BEFORE.search(text, max(0, line - LINE_BEFORE), line)
    plain = text[text.rfind("=", 0, end) + 1 : end].isalpha()
    return words.end() if beside or plain else end


def _is_secret(  # noqa: PLR0911 -- one row for each sort of name
    value: str, name: str, which: str, *, env: bool, quoted: bool
) -> bool:
    match which:
        case "any" | "key" if _KEPT.search(name):
            return any(map(drawn_at_random, value.split("-")))
        case "any":
            return (
                name.isupper()
                and len(value) >= MADE
                and mixed(value)
                and _assigned(value, name)
                and telling(value)
                and " " not in value
            )
        case "query":
            return len(value) >= MADE and mixed(value) and telling(value) and drawn_at_random(value)
        case "auth" | "key" if not env and not quoted and is_identifier(value):
            return False
        case "auth":
            return len(value) >= 2 * LEAST and (
                encodes_a_pair(value)
                or (mixed(value) and _assigned(value, name) and telling(value) and " " not in value)
            )
        case "heroku":
            return len(value) >= MADE and mixed(value) and _assigned(value, name)
    if env:
        return _stated(value, name)
    if " " in value and quoted:
        return which == "word" and (
            (telling(value) and not _SENTENCE.search(value) and len(value) < PHRASE) or _word(value, name)
        )
    return _assigned(value, name) or (quoted and which == "word" and _word(value, name))


def _header(text: str, at: int) -> Found | None:
    match = _HEADER.match(text, at)
    if match is None:
        return None
    value = match["secret"]
    if is_identifier(value):
        return rejected(at, match.end())
    told = mixed(value) or encodes_a_pair(value) or (len(value) > 2 * MADE and not _WORDS.fullmatch(value))
    if told and not stands_for(value):
        return Found("secret", *match.span("secret"), match.end())
    return rejected(at, match.end())


def _cookie(text: str, at: int) -> Found | None:
    match = _COOKIE.match(text, at)
    if match is None:
        return None
    whole = match["secret"]
    value = whole.partition("=")[2]
    first = _ATTRIBUTES.split(whole, maxsplit=1)[0]
    plain = (
        not mixed(first.partition("=")[2])
        or _COOKIE_PLAIN.fullmatch(whole)
        or stands_for(value)
        or "=[redacted:" in whole
    )
    if plain or not (mixed(value) or len(whole) > 2 * MADE):
        return rejected(at, match.end())
    return Found("cookie", *match.span("secret"), match.end())


def _sig(text: str, at: int) -> Found | None:
    match = _SIG.match(text, at)
    if match is None or not _SIG_BEFORE.search(text, max(0, at - 12), at - 3) or not mixed(match["secret"]):
        return None
    return Found("azure", *match.span("secret"), match.end())


def name_before(text: str, at: int) -> tuple[str, str] | None:
    """How a name tells that ends before a place, and the name itself; None when none does."""
    return _name_at_end(text[max(0, at - ROOM) : at])


@lru_cache(maxsize=1024)
def _name_at_end(before: str) -> tuple[str, str] | None:
    lowered = before.replace("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "I").lower()
    last = max(map(lowered.rfind, _TELLING))
    if last < 0 or _PARTING.search(lowered, last):
        return None
    match = _NAMED.search(lowered, max(0, last - NAME))
    if match is None or match.lastgroup is None:
        return None
    which = match.lastgroup
    whole = _IDENTIFIER.search(before, 0, match.end(which))
    return which, (whole[0] if whole else "") + _REST.sub("", before[match.end(which) :])


def is_identifier(value: str) -> bool:
    """A name in a program with a number behind it: ``Token2``, ``hashedPassword1``."""
    return _NUMBERED.fullmatch(value) is not None and len(value) < 2 * MADE and not drawn_at_random(value)


def secret_by_name(value: str, name: str, which: str) -> bool:
    """Whether a value that stands apart from a telling name is a secret."""
    if which == "header":
        return mixed(value) or encodes_a_pair(value.partition(" ")[2])
    return _is_secret(value, name, which, env=False, quoted=True)


def _named(text: str, at: int) -> Found | None:
    """At a sign of assignment: whether a telling name stands before it, and a secret behind it."""
    named = name_before(text, at)
    if named is None:
        return None
    which, name = named
    if which == "header":
        return _header(text, at)
    if which == "cookie":
        return _cookie(text, at)
    if which == "sig":
        return _sig(text, at)
    return _value(text, at, name, which)


_AHEAD = (
    r"[=>]?>?[*_]{0,2}[ \t]{0,40}(?![A-Za-z_][\w.]{0,40}(?:\[|\((?![brf]?[\"'][^\"'\n]{16})))(?:[|>\\\r\n]"
    r"|[brufBRUF]?(?:[\"'`](?![<{(\[]|\$[{(A-Za-z_])[^\n\"'`\\]{4}|(?![<{(\[]|\$[{(A-Za-z_])[^\s\"'`\\]{4}))"
)
"""What stands behind a sign of assignment when a value is assigned: no call, variable or placeholder."""
NAMING: tuple[Kind, ...] = (
    Kind("named", ":", _named, r"(?<=[\w\"'`*\]\) ]:)(?!//|=)", _AHEAD),
    Kind("named", "=", _named, r"(?<=[\w\"'`\]\) :]=)(?![=~])", _AHEAD),
    Kind("named", ">", _named, r"(?<=[\w\"']>)", r"[^<>\s]{4,400}</"),
)
