"""Decide whether a value is a secret, or only a stand-in, a name, a number, a path or a word.

Most of what follows a telling name is no secret.
"""

from __future__ import annotations

import re
from functools import lru_cache

from skillopt_sleep.safety.redaction.kinds import lazy
from skillopt_sleep.safety.redaction.looks import (
    encodes_a_pair,
    encodes_text,
    is_irregular,
    is_mixed,
    is_random,
    looks_made,
)

LEAST = 6
"""Least characters of a secret that only a name gives away."""
PHRASE = 80
"""Most characters of a password of several words."""
MADE = 16
"""Characters from which on a value is a generated key, whatever its name is."""

LONGEST_NAME = 72
"""Most characters of a value that is compared with its name."""

_STANDS_FOR = lazy(
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
_REFERENCE = lazy(
    r"[a-z_$][\w$]{0,64}(?:\??\.[a-z_$][\w$]{0,64}){0,8}\??[(\[]"  # get_token(…), os.environ[…]
    r"|[a-z_$][\w$]{0,64}(?:(?:\??\.|::)[a-z_$][\w$]{0,64}){1,8}\W{0,3}$"  # settings.secret, Auth::token
    r"|(?:process\.env|os\.environ|import\.meta|System\.|env\.|config\.|self\.|this\.|secrets\.|var\.|data\.|local\.)",
    re.IGNORECASE,
)
"""A name in a program, or a call or an access by name."""
_CONSTANT = lazy(r"_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_NUMBERED = lazy(r"(?:[a-z]{3,}|(?:[A-Z][a-z]{2,}|[a-z]{2,})[0-9]{0,2}(?:[A-Z][a-z]{2,}){1,6}|[A-Z][a-z]{2,})[0-9]")
"""Names of one or more words, with a digit after or between them."""
_NUMBER = lazy(r"[\d.,:_+-]*|0x[0-9a-fA-F]{1,8}|#[0-9a-fA-F]{3,8}")
_HEX = lazy(r"[0-9a-f]*")
_UUID = lazy(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_NO_SECRET = lazy(r"%[sd](?!\w)|\{[a-z_]*\}|abcdefghijklm|ABCDEFGHIJKLM")
"""Signs of a template, or the alphabet."""
_WORDS = lazy(r"_{0,2}[A-Za-z]{1,99}(?:[._/ -][A-Za-z]{1,99}){0,9}(?:-[0-9]{1,3}|_{1,2})?\W{0,3}")
_PATH = lazy(r"(?:\w{1,20}:/)?(?:\.{0,2}|~|[A-Za-z]:)[/\\].*", re.DOTALL)
_VARIABLE = lazy(r"[a-z]+(?:[A-Z][a-z]+)*(?:Password|Passphrase|Passwd|Secret|Token|Key)[0-9]{1,2}\b")
_SENTENCE = lazy(
    r"\b(?:the|your|you|is|are|must|be|to|for|and|or|not|with|please|enter|a|an|of|in|at|least|contain|again|forgot)\b",
    re.IGNORECASE,
)

_KEPT = lazy(r"(?:cache|sort|partition|idempotency|primary|foreign|index|session)_?key", re.IGNORECASE)
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
