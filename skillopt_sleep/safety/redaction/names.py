"""Find secrets that a name gives away: assignments in any notation, .env lines, headers, cookies, XML tags, URLs."""

from __future__ import annotations

import re
from functools import lru_cache

from skillopt_sleep.safety.redaction import Found, Kind, lazy, reject
from skillopt_sleep.safety.redaction.values import (
    LEAST,
    MADE,
    are_words,
    encodes_a_pair,
    is_identifier,
    is_irregular,
    is_mixed,
    is_random,
    is_secret,
    is_sentence,
    is_stand_in,
    is_variable,
    looks_made,
)

MOST_SIGNS = 4
"""Signs of assignment after a name of which one is the right one: ``secret: str = …``."""
ROOM = 72
"""Characters that hold a telling name and what is between it and its sign of assignment."""
NAME = 20
"""Characters of the longest name before its last telling word."""
SHORT = 4
"""Least characters of a password in an .env, which contains nothing but values."""
AFTER_A_QUOTE = frozenset("+,;)]}.")
"""Characters that follow the end of a string, and seldom begin one."""
LINE_FRONT = 40
"""Most characters before the name of a setting in its line."""
LINE_BEFORE = 400
"""Characters of the previous line that show whether it is a setting too."""
_MORE_WORDS = lazy(r"(?: [A-Za-z]{1,24}[0-9!.?]{0,4}){1,9}(?=[ \t]*(?:\r?\n|\Z))")
_EXPORT = lazy(r"[ \t+>#-]*(?:export |set )?")
_SETTING = lazy(r"[ \t]{0,40}\r?\n[ \t+>#-]{0,40}(?:export )?[A-Z_][A-Z0-9_]{0,64}=")
_SETTING_BEFORE = lazy(r"(?:^|\n)[ \t+>#-]*(?:export )?[A-Z_][A-Z0-9_]*=[^\n]*\n\Z")
_RUNS = lazy(
    r" (?:sudo|env|exec|time|nohup|ba?sh|zsh|sh|make|just|task|n(?:px|pm|ode)|p?npm|yarn|bun|deno|tsx?|vite|next|jest|vitest|python[23]?"
    r"|pytest|tox|nox|uv|pip|poetry|hatch|flask|django\S*|uvicorn|gunicorn|celery|ruby|rails|rake|bundle|php|composer|java|mvn"
    r"|gradle|dotnet|go|cargo|docker|podman|kubectl|helm|terraform|ansible\S*|aws|gcloud|az|git|gh|glab|vault|psql|pg_\w+"
    r"|createdb|mysql\w*|mongo\w*|redis-cli|curl|wget|ssh|scp|rsync|restic|borg|twine|echo|cat|read)\b"
)
"""Commands that variables are often set for."""
_WORD = r"(?<!hashed)(?<!hashed[_-])(?<!encrypted)(?<!encrypted[_-])passw(?:or)?ds?|passwd|passwort|kennwort|contrase\xf1a|sshpass|(?<![a-z])pw(?![a-z])|pass(?:phrase|code)|pwd|(?<![a-z])pass|(?:db|smtp|user|mail|ftp|root|admin|http|proxy|require)pass|(?<![a-z])psk(?![a-z])"
_KEY = (
    r"(?:api|access|private|auth|encryption|signing|master|account|secret|shared|storage|service|session|license"
    r"|webhook|client|deploy|server|app|hmac|unseal|recovery|subscription|heroku|stripe|aws|azure|openai)[ _.-]?key"
)
_ABOUT = (
    r"(?!(?:[_.-][a-z]{1,16})?[_.-]?(?:name|id|ur[il]|path|file|type|count|limit|len|length|ttl|header|field|param|helper|policy|hash|size"
    r"|expir\w*|version|label|format|prefix|class|store|manager|provider|scope|ref|arn|source|regex|pattern|min|max|encryption)s?\b)"
)
"""``token_url``, ``secret_name``: names of something about a secret, not of the secret."""
_BETWEEN = r"[*_]{0,2}(?:[ ]\([^()\n]{1,24}\))?\\?[\"'`]?\]?[ \t]{0,4}(?:\[[^\]\n]{0,24}\][ \t]?)?(?::[ \t]?[\w\[\]| .&']{1,24}?[ \t])?:?"
"""From the name to the sign of assignment: quotes, blanks, brackets, a type, the colon of ``:=``."""
_NAMED = lazy(
    rf"(?:(?P<word>{_WORD})|(?P<key>secret|token|credential|jwt|{_KEY}|client-key-data|_pat)s?"
    r"|(?P<header>(?:proxy-)?authorization|x-amz-security-token)|(?P<cookie>(?:set-)?cookie(?![_-]?(?:secret|key|pass|token)))|(?P<auth>\b_?auth)|(?P<sig>(?<![a-z])sig)|(?<=[?&])(?P<query>key)"
    r"|(?P<uuid>secret[_-]?id)|(?P<heroku>heroku[\w-]{0,24})|(?P<any>(?<!public)(?<!publishable)(?<!gpg)_key))"
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
    "psk",
)
_PARTING = lazy(r"[\n,;{}<>]")
"""Characters that are never between a name and its sign of assignment."""
_IDENTIFIER = lazy(r"[\w.-]{0,64}\Z")

_SIGN_IN_CODE = lazy(r"[,;<>()\[\]{}]")
_REST = lazy(r"[^\w].*", re.DOTALL)
_GAP = r"[*_]{0,2}[ \t]{0,40}(?:(?:[|>][+-]?[ \t]{0,4})?\\?\r?\n[ \t]{1,40})?(?:!{1,2}[\w-]{1,20}[ ]|\[\s{0,24}(?=[\\\"']))?"
"""From the sign to the value, which may be in the next line, or follow bold type or a YAML tag."""
_VALUE = lazy(
    rf"[=:]>?{_GAP}(?:"
    r"(?:(?P<call>(?:\[\])?[A-Za-z_][\w.]{0,40}\()?[brufBRUF]{0,2}(?P<q>[\"'`])(?P<quoted>(?:\\.|(?!(?P=q))[^\\\n]){4,8000}+))"
    r"|\\[\"'`](?P<escaped>[^\"'`\\\n]{4,8000}+)"
    r"|(?P<bare>[A-Za-z]{1,3}(?=[ ][A-Za-z])|[^\s\"'`\\]{4,400}+[A-Za-z0-9+/_-]{0,12000}+={0,2}))"
)
_TAGGED = lazy(r">(?P<bare>[^<>\s\"\\]{4,4000})</")
_HEADER = lazy(
    r"[=:]>?[ \t]{0,4}\\?[\"'`]?(?:(?:bearer|basic|token|digest|apikey|api-key|negotiate|key|aws4-hmac-sha256)[ \t]{1,4}|sharedkey(?:lite)?[ \t]{1,4}[\w-]{1,64}:)?"
    r"(?P<secret>[^\s\"'`\\,;<>(){}]{8,400}+[\w.~+/=-]{0,8000}+)",
    re.IGNORECASE,
)
_COOKIE = lazy(r"[=:]>?[ \t]{0,4}\[?\\?[\"'`]?(?P<secret>[\w.-]{1,64}=[^\r\n\"'`\\]{4,8000})")
_ATTRIBUTES = lazy(r";\s*(?:path|max-age|expires|domain|samesite|secure|httponly)\b", re.IGNORECASE)
_COOKIE_PLAIN = lazy(r"[\w.-]{1,64}=(?:[$<{%*\[]|\W|[a-z]{0,12}(?:[;, ]|$))")
_SIG_BEFORE = lazy(r"(?:[?&; \"']|\\u0026|%26)\Z")
_SIG = lazy(r"=(?P<secret>[A-Za-z0-9%+/=_-]{20,400})")


def _find_value(text: str, at: int, name: str, which: str) -> Found | None:
    tagged = text[at] == ">"
    match = (_TAGGED if tagged else _VALUE).match(text, at)
    if match is None or match.lastgroup is None or "HEADER" in name:
        return None
    quoted = match.lastgroup != "bare"
    start, stop = match.span(match.lastgroup)
    value = text[start:stop]
    env = name.isupper() and text[at] == "=" and text[at - 1] not in " :"
    if not quoted and not tagged:
        value = _trim_bare(text, start, value, env=env)
    if quoted and _is_no_value(match, value, env=env):
        return None
    is_password = which == "word"
    if env and is_password and not quoted:
        value = text[start : _find_phrase_end(text, at - len(name), start + len(value))]
    if (
        not value
        or (name == "PASS" and text[at] == ":")
        or (not (env or quoted) and is_variable(value, of_password=is_password))
    ):
        return None  # PASS: a test that passed
    if len(value) < (SHORT if env and is_password else LEAST) or not is_secret(
        value, name, which, env=env, quoted=quoted
    ):
        return reject(at, stop)
    end = start + len(value)
    return Found("secret", start, end, end)


def _trim_bare(text: str, start: int, value: str, *, env: bool) -> str:
    """Return the value at the beginning of unquoted text, "" when it is a call."""
    if env:
        return value.partition("</")[0].rstrip(",;")
    value = _SIGN_IN_CODE.split(value, maxsplit=1)[0]
    if value.startswith(":"):
        return ""
    called = text[start + len(value) : start + len(value) + 1] in {"(", "["}
    return "" if called else value.rstrip(",;.")


def _is_no_value(match: re.Match[str], value: str, *, env: bool) -> bool:
    """Tell whether this is the end of a string, the output of a command, or the argument of a call."""
    ended = value[:1] in AFTER_A_QUOTE and not (is_random(value) or is_irregular(value))  # "password=" + it
    printed = env and " " in value and match["q"] == "`"
    return ended or printed or (match["call"] is not None and not (len(value) >= MADE and is_irregular(value)))


def _find_phrase_end(text: str, start: int, end: int) -> int:
    """Return the end of an unquoted password of several words, in a file where each line is a setting.

    The same form before a command sets only its first word.
    """
    line = text.rfind("\n", max(0, start - LINE_FRONT), start) + 1
    words = _MORE_WORDS.match(text, end)
    if words is None or _EXPORT.fullmatch(text, line, start) is None or _RUNS.match(text, end) or is_sentence(words[0]):
        return end
    beside = _SETTING.match(text, words.end()) or _SETTING_BEFORE.search(text, max(0, line - LINE_BEFORE), line)
    plain = text[text.rfind("=", 0, end) + 1 : end].isalpha()
    return words.end() if beside or plain else end


def _find_header(text: str, at: int) -> Found | None:
    match = _HEADER.match(text, at)
    if match is None:
        return None
    value = match["secret"]
    if is_identifier(value):
        return reject(at, match.end())
    is_secret_value = is_mixed(value) or encodes_a_pair(value) or (len(value) > 2 * MADE and not are_words(value))
    if is_secret_value and not is_stand_in(value):
        return Found("secret", *match.span("secret"), match.end())
    return reject(at, match.end())


def _find_cookie(text: str, at: int) -> Found | None:
    match = _COOKIE.match(text, at)
    if match is None:
        return None
    whole = match["secret"]
    value = whole.partition("=")[2]
    first = _ATTRIBUTES.split(whole, maxsplit=1)[0]
    plain = (
        not is_mixed(first.partition("=")[2])
        or _COOKIE_PLAIN.fullmatch(whole)
        or is_stand_in(value)
        or "=[redacted:" in whole
    )
    if plain or not (is_mixed(value) or len(whole) > 2 * MADE):
        return reject(at, match.end())
    return Found("cookie", *match.span("secret"), match.end())


def _find_signature(text: str, at: int) -> Found | None:
    match = _SIG.match(text, at)
    if match is None:
        return None
    if not _SIG_BEFORE.search(text, max(0, at - 12), at - 3) or not is_mixed(match["secret"]):
        return reject(at, match.end())
    return Found("azure", *match.span("secret"), match.end())


def find_name_before(text: str, at: int) -> tuple[str, str] | None:
    """Return the telling group and text of a name that ends before a place; None without one."""
    return _read_name(text[max(0, at - ROOM) : at])


@lru_cache(maxsize=1024)
def _read_name(before: str) -> tuple[str, str] | None:
    lowered = before.replace("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "I").lower()
    last = max(map(lowered.rfind, _TELLING))
    if last < 0 or _PARTING.search(lowered, last) or "arn:aws" in lowered:
        return None
    match = _NAMED.search(lowered, max(0, last - NAME))
    if match is None or match.lastgroup is None:
        return None
    which = match.lastgroup
    whole = _IDENTIFIER.search(before, 0, match.end(which))
    return which, (whole[0] if whole else "") + _REST.sub("", before[match.end(which) :])


def _find_assigned(text: str, at: int) -> Found | None:
    """Find a secret after a sign of assignment with a telling name before it."""
    named = find_name_before(text, at)
    if named is None:
        return None
    which, name = named
    if which == "header":
        return _find_header(text, at)
    if which == "cookie":
        return _find_cookie(text, at)
    if which == "sig":
        return _find_signature(text, at)
    return _find_value(text, at, name, which)


_AHEAD = (
    r"[=>]?>?[*_]{0,2}[ \t]{0,40}(?![A-Za-z_][\w.]{0,40}(?:\[|\((?![brf]?[\"'][^\"'\n]{16})))(?:[|>\\\r\n]"
    r"|\[(?:\]byte\()?\s{0,24}[\\\"'`]|[brufBRUF]?(?:(?P<o>[\"'`])(?![<{(\[]|\$[{(A-Za-z_])(?:(?!(?P=o))[^\n\\]|\\(?![nrt])[^\n]){4}|(?![<{(\[]|\$[{(A-Za-z_])(?:[^\s\"'`\\]{4}|[A-Za-z]{1,3}[ ][A-Za-z])))"
)
"""What follows a sign of assignment when a value is assigned: no call, variable or placeholder."""
_SIGN = lazy(r"[^\n,;{}<>=:]{0,72}+[=:>]")
_ASSIGNS = lazy(
    rf"(?:(?<=[\w\"'`*\]\) ]):(?!//|[=:])|(?<=[\w\"'`\]\) :])=(?![=~])){_AHEAD}|(?<=[\w\"'])>[^<>\s]{{4,400}}</"
)


def _find_after_name(text: str, _: int, end: int) -> Found | None:
    """Find what is assigned to a name, from the end of its telling word on."""
    at = end
    rejected: Found | None = None
    for _sign in range(MOST_SIGNS):
        sign = _SIGN.match(text, at, end + ROOM)
        if sign is None:
            break
        at = sign.end()
        found = _find_assigned(text, at - 1) if _ASSIGNS.match(text, at - 1) else None
        if found is not None and found.kind:
            return found
        rejected = rejected or found
    return rejected


NAMING: tuple[Kind, ...] = (Kind((*_TELLING, "contraseña"), _find_after_name, in_plain_words=False),)


_USER = r"[^\s/:@\"'<>`\\]{0,255}"
_URL = lazy(rf"://{_USER}:(?P<secret>[^\s/\"'<>`\\]{{2,400}})@")
_SLASHED = lazy(
    r"://[^\s/:@\"'<>`\\.]{0,64}:(?![0-9]{1,5}/)(?P<secret>[^\s/\"'<>`\\?#]{1,100}/[^\s\"'<>`\\?#]{1,200})@(?=[\w\[])"
)
"""A password with a slash: what precedes it is no port, and no host."""
_ALONE = lazy(r"://(?P<secret>[\w.~-]{20,255})@")
_ORACLE = lazy(r"(?:://|:)[\w$#.-]{1,64}/(?P<secret>[^\s\"'<>`\\]{2,128})@(?=[\w/\[(])")
_ENCODED = lazy(
    r"%(?:25)?3[Aa](?:%(?:25)?2[Ff]){2}[^\s%:\"'<>\\]{0,255}(?:%(?:25)?3[Aa]|:)"
    r"(?P<secret>(?:(?!%(?:25)?40|%(?:25)?2[Ff])[^\s\"'<>`\\]){2,400}?)(?:%(?:25)?40(?!.{0,100}%(?:25)?40[\w.])|@[\w.]{1,100}(?:%(?:25)?(?:2[Ff]|3[Aa])|[\s\"']))"
)


def _find_in_url(text: str, at: int, _: int) -> Found | None:
    """Find the password of a URL, from the colon of its scheme on."""
    match = _URL.match(text, at) or _SLASHED.match(text, at) or _ALONE.match(text, at)
    if match is None:
        return None
    value = match["secret"]
    if is_stand_in(value) or (match.re is _ALONE and not (is_mixed(value) and looks_made(value))):
        return None
    return Found("secret", *match.span("secret"), match.end())


def _find_oracle(text: str, _: int, end: int) -> Found | None:
    """Find the password of ``jdbc:oracle:thin:user/password@host`` or ``oracle://user/password@host``."""
    return _accept(_ORACLE.match(text, end - 1))


def _find_encoded(text: str, at: int, _: int) -> Found | None:
    """Find the password of a URL that is part of another URL."""
    return _accept(_ENCODED.match(text, at))


def _accept(match: re.Match[str] | None) -> Found | None:
    if match is None or is_stand_in(match["secret"]):
        return None
    return Found("secret", *match.span("secret"), match.end())


URLS: tuple[Kind, ...] = (
    Kind(("thin:", "oci:", "oci8:", "oracle:"), _find_oracle),
    Kind(("://",), _find_in_url),
    Kind(("%3a%2f%2f", "%253a%252f"), _find_encoded),
)
