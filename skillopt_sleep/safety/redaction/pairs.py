"""Secrets whose name stands apart from them: arguments of a call, pairs of an object, attributes, ``ENV``, SQL, cookies."""

from __future__ import annotations

import re

from skillopt_sleep.safety.redaction.kinds import QUOTE, Found, Kind, drawn_at_random, irregular, mixed, telling
from skillopt_sleep.safety.redaction.names import name_before
from skillopt_sleep.safety.redaction.values import LEAST, MADE, is_identifier, secret_by_name, stands_for

BACK = 128
"""Characters before a name in which the command that sets it is looked for."""
ARGUMENT = 8
"""Characters of a secret that is the argument of a call, at least."""

_MAY = rf"(?:{QUOTE})?"
_S = r"\s{0,24}"
_BLOCK = r"\{\s{1,24}(?:\w{1,24}\s{0,24}=[^\n{}]{0,200}\n\s{0,24}){0,6}?"
"""The beginning of a block with the default of a variable in it."""
_VALUE = rf"(?:{QUOTE}(?P<QUOTED>[^\"'`\\\n]{{4,4000}}+)|(?P<BARE>[^\s\"'`\\,;<>{{}}()\[\]$]{{4,4000}}+))"
_NOTATIONS = tuple(
    (name, re.compile(rf"\w[\w.-]{{0,24}}+(?:{before}){_VALUE}".replace("QUOTED", "quoted").replace("BARE", "bare")))
    for name, before in (
        ("call", rf"(?P<named>){QUOTE},{_S}(?:[a-z_]{{1,20}}=)?[brf]?(?={QUOTE})"),  # headers.set("X-API-Key", "…")
        (
            "pair",
            rf"(?P<named>){_MAY},?{_S}(?:[-,]{_S}|{_BLOCK}|</\w{{1,16}}>{_S}<)?{_MAY}(?i:value|val|content|default)(?:{_MAY}{_S}[:=]>?|>){_S}",
        ),
        ("or", rf"(?P<named>){_MAY}[\])]?[ ]{{0,4}}(?:\|\||\?\?|or)[ ]{{0,4}}(?={QUOTE})"),
        ("table", r"(?P<named>)[\"'`*_]{0,3}[ \t]{0,40}\|[ \t]{0,40}[`*_\"']{0,3}"),
        ("sql", r"(?P<named>)[ \t]{1,4}(?=\\?[\"'])"),
        ("set", r"(?P<named>)[ \t]{1,8}"),
    )
)
"""From within the word that tells: the rest of the name, what parts it from the value, and the value."""
_SETS = re.compile(
    r"(?:^|[\n;&|`\"'(>$#])[ \t]{0,16}(?:sudo )?(?:ENV|ARG|setx|set|setenv|export|SetEnv"
    r"|(?:git|npm|yarn|pip|gcloud|aws|composer|poetry|bundle|snap|gh|glab)(?: [\w./:-]{1,24}){0,2}? (?:set|config|configure|set-option))"
    r"(?: -{1,2}[\w-]{1,16}){0,3} [\w.:/-]{1,80}\Z|(?:^|[^\w.-])(?:(?:#define|mysql>|redis>) \w{0,40}|(?:requirep|masterp)ass)\Z"
)
"""A command that sets what follows it: ``ENV NAME value``, ``set -x NAME value``, ``git config NAME value``."""
_SQL = re.compile(r"(?i:alter|create|user|role|with|encrypted|set|login|grant|identified|for)[^\n;]{0,80} \w+\Z")
_USER = re.compile(r"(?i:user|role|grant|login)\b[^\n;]{0,80}\Z")
_BY = re.compile(r"[yY] (?:(?i:password) )?\\?[\"'](?P<secret>[^\"'\\\n]{3,400})")
_COOKIES = re.compile(
    r"[kK][iI][eE][sS]?(?:"
    rf"{QUOTE}?[ ]?[=:][ ]?\{{{_S}(?:{QUOTE}?[\w.-]{{1,64}}{QUOTE}?[ ]?[=:][ ]?{QUOTE}[^\"'\\\n]{{0,400}}{QUOTE},{_S}){{0,6}}?{QUOTE}?[\w.-]{{1,64}}{QUOTE}?[ ]?[=:][ ]?"
    rf"|(?:\.|->)?(?:set|put|add|append)\w{{0,12}}\({_S}{QUOTE}[\w.-]{{1,64}}{QUOTE},{_S}"
    rf"|\[{QUOTE}[\w.-]{{1,64}}{QUOTE}\][ ]?=[ ]?"
    rf"){QUOTE}(?P<secret>[^\"'\\\n;]{{{MADE},4000}})",
)
_JAR = re.compile(r"(?:TRUE|FALSE)\t\d{1,14}\t[\w.-]{1,64}\t(?P<secret>[^\s\"'\\]{16,4000})")
_PAIR = re.compile(
    rf"\(\s{{0,24}}(?:(?:\w{{1,24}}\s?=\s?)?(?P<user>{QUOTE}[^\"'\n\\]{{1,80}}{QUOTE}|[\w.]{{1,40}}),\s{{0,24}})?"
    rf"(?:\w{{1,24}}\s?=\s?)?{QUOTE}(?P<secret>[^\"'\s\\]{{6,400}}){QUOTE}"
)
_JOINED = re.compile(rf"\(b?{QUOTE}[\w.@-]{{1,64}}:(?!//)(?P<secret>[^\"'\s\\]{{4,400}}){QUOTE}")
"""The arguments of what takes a user and a password."""
_NAME = re.compile(
    r"[A-Z][A-Z_]*[0-9]{0,3}|[a-z]+[0-9]?(?:[-_.][a-z]{0,12}[0-9]{0,4}(?![a-z0-9]))+|[A-Za-z]+[0-9]{1,3}|[a-z]{3,}2[a-z]{3,}"
)


def _apart(text: str, at: int) -> Found | None:
    """At a letter of a word that tells: whether a value stands apart from the name it is in."""
    for notation, pattern in _NOTATIONS:
        match = pattern.match(text, at)
        if match is None:
            continue
        group = "quoted" if match["quoted"] is not None else "bare"
        value, end = match[group], match.start("named")
        named = name_before(text, end)
        if named is None or named[0] in {"cookie", "sig", "heroku", "any"}:
            return None
        if not stands_for(value) and _gives_away(notation, text, end, value, named):
            return Found("secret", *match.span(group), match.end(group))
    return None


def _gives_away(notation: str, text: str, end: int, value: str, named: tuple[str, str]) -> bool:
    """Whether this notation makes the value a secret of the name that ends at a place."""
    which, name = named
    match notation:
        case "call" | "or":
            named_too = _is_name(value) and not ("-" in value and (which == "word" or notation == "or"))
            made = (mixed(value) or irregular(value)) and telling(value) and not named_too and " " not in value
            return len(value) >= ARGUMENT and made and secret_by_name(value, name, which)
        case "table":
            value = value.rstrip("`*_ ")
            return len(value) >= ARGUMENT and telling(value) and not is_identifier(value) and " " not in value
        case "sql":
            keyword = text[max(0, end - len(name) - 1) : end - len(name)] == ":" and telling(value)
            set_by_it = name.lower() != "pass" and _SQL.search(text, max(0, end - 100), end) is not None
            return which == "word" and (keyword or set_by_it)
    told = len(value) >= LEAST and secret_by_name(value, name, which)
    return told and (notation != "set" or _SETS.search(text, max(0, end - BACK), end) is not None)


def _is_name(value: str) -> bool:
    """Whether this is the name of something in turn: ``getenv("API_KEY", "FALLBACK_KEY2")``."""
    return _NAME.fullmatch(value) is not None and not drawn_at_random(value)


def _identified(text: str, at: int) -> Found | None:
    """``identified by '…'``."""
    match = _BY.match(text, at + 1)
    if match is None or stands_for(match["secret"]):
        return None
    told = telling(match["secret"]) or _USER.search(text, max(0, at - 100), at)
    return Found("secret", *match.span("secret"), match.end()) if told else None


def _cookies(text: str, at: int) -> Found | None:
    """A cookie that a program sets by its name."""
    match = _COOKIES.match(text, at)
    return _cookie(match) if match else None


def _jar(text: str, at: int) -> Found | None:
    """A line of a cookie jar."""
    match = _JAR.match(text, at - (1 if text[at] == "R" else 0))
    return _cookie(match) if match else None


def _cookie(match: re.Match[str]) -> Found | None:
    value = match["secret"]
    if not mixed(value) or not telling(value) or stands_for(value):
        return None
    return Found("cookie", *match.span("secret"), match.end())


def _credentials(text: str, at: int) -> Found | None:
    """``BasicAuth("user", "password")``, ``auth=("user", "password")``, ``btoa("user:password")``, ``KeyCredential("key")``."""
    match = _JOINED.match(text, at) or _PAIR.match(text, at)
    if match is None:
        return None
    value = match["secret"]
    alone = (
        match.re is _PAIR
        and match["user"] is None
        and not ((len(value) >= MADE) and text.endswith("Credential", 0, at))
    )
    if alone or stands_for(value) or not telling(value) or is_identifier(value):
        return None
    return Found("secret", *match.span("secret"), match.end())


_OR = r"[ ]{0,4}(?:\|\||\?\?|or )[ ]{0,4}\\?[\"'`]"
_AFTER = (
    r"[\w.-]{0,24}+(?:"
    r"\\?[\"'`](?:,?\s{0,24}(?:\\?[\"'`](?!,)[^\s,]|[-,]?\s{0,8}\\?[\"'`]?(?i:val|content|default)|\{\s)"  # "name": "…
    rf"|,\s{{0,24}}[bfr\\][\"']|[\])]?{_OR})|{_OR}"  # "name", b"…"; env["NAME"] or "…"
    r"|</\w{1,16}>\s{0,24}<|\r?\n\s{0,24}[\"']?value"  # name</name><value>
    r"|[\"'`*_]{0,3}[ \t]{0,40}\|[ \t]"  # name | …
    r"|[ \t]{1,8}\\?[\"']?[A-Za-z_!@#$%^&*+/-]{0,24}[0-9])"  # ENV NAME …
)
"""What stands behind a name whose value is apart from it; prose seldom."""
APART: tuple[Kind, ...] = (
    Kind(
        "apart",
        "kK",
        _apart,
        r"(?:(?<=[tT][oO][kK])|(?<=[_ iItTdDeErR.\"'-][kK]))(?=(?i:en|ey)s?(?![a-z]))",
        rf"(?i:en|ey){_AFTER}",
    ),
    Kind(
        "apart",
        "pP",
        _apart,
        r"(?=(?i:ass|wd|w\b))",
        rf"(?>(?i:assword|assphrase|asswd|ass|wd))(?:{_AFTER}|[ \t]{{1,4}}\\?[\"'][^\"'\n]{{4}})",
    ),
    Kind("apart", "cC", _apart, r"(?=[rR][eE][tTdD])", rf"(?i:ret|redentials?){_AFTER}"),
    Kind("by", "bB", _identified, r"(?=[yY] (?:[pP]\w{7} )?\\?[\"'])(?<=(?i:identified b))"),
    Kind(
        "cookies", "kK", _cookies, r"(?<=[oO][oO][kK])", r"(?i:ies?)(?:[\"'\\ ]{0,6}[=:][ ]?\{|[.\[(]|->|set|put|add)"
    ),
    Kind(
        "credentials",
        "(",
        _credentials,
        r"(?:(?<=btoa\()|(?<=b64encode\()|(?<=Buffer\.from\()|(?<=redential\()|(?<=redentials\()|(?<=[aA]uth\()|(?<=auth=\()|(?<=auth:.\()|(?<=uthenticate\()|(?<=[lL]ogin\())",
        r"\s{0,24}[\w.\\\"'`]",
    ),
    Kind("jar", "R", _jar, r"(?=UE\t\d)(?<=TR)"),
    Kind("jar", "F", _jar, r"(?=ALSE\t\d)"),
)
