"""Whose eyes a session has already met, and whom the user must be asked about before they meet it too.

Which variables of an environment hold secrets: by what they are called, and by what their values are.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Mapping
from types import MappingProxyType

NAMES: Mapping[str, str] = MappingProxyType({"anthropic": "Anthropic", "openai": "OpenAI"})


OWN_HOSTS: Mapping[str, str] = MappingProxyType(
    {"api.anthropic.com": "anthropic", "api.openai.com": "openai", "chatgpt.com": "openai"}
)
"""Where a provider is itself; at any other address somebody else may be."""


def called(provider: str) -> str:
    """A provider's name for people."""
    return NAMES.get(provider, provider)


def provider_at(url: str) -> str:
    """Who answers at an address: a provider at its own, else the host, "" for this machine itself.

    An address without a host that can be read is a stranger by what it says.
    """
    try:
        host = (urllib.parse.urlsplit(url.strip()).hostname or "").rstrip(".")
    except ValueError:
        host = ""
    if not host:
        return url.strip().rpartition("@")[2] or "an address that is empty"
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost" or host.endswith(".localhost")
    return "" if here else OWN_HOSTS.get(host, host)


SHORTEST = 8
"""Characters a value has at least; a shorter one would be found in ordinary words."""

_SECRET = re.compile(
    r"SECRET|TOKEN|PASSW|PASSPHRASE|PASSCODE|CREDENTIAL|COOKIE|API_?KEY|APIKEY|(?:^|_)(?:PASS|PWD|PAT|JWT|SAS|DSN|AUTH)(?:_|$)"
    r"|(?:PRIVATE|ACCESS|ACCOUNT|SIGNING|ENCRYPTION|MASTER|SHARED|STORAGE|SERVICE|ROLE|LICENSE|DEPLOY|SESSION|CLIENT)_?KEY"
    r"|[A-Z0-9]_KEY(?:_|$)|WEBHOOK|CONNECTION_?STRING|_CONN_STR"
)
_PUBLIC = re.compile(
    r"PUBLIC_KEY|GPG_KEY|KEY_ID|KEYBOARD|_KEY_(?:NAME|PATH|FILE)|_(?:NAME|PATH|FILE|URL|TYPE|COUNT|LIMIT|TTL)$"
)
_NUMBER = re.compile(r"[\d.,:_+-]*")
_PATH = re.compile(r"(?:[\w.-]{1,40}:/{0,2})?(?:\.{0,2}|~|[A-Za-z]:)[/\\]", re.DOTALL)


def says_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    upper = name.upper()
    return _SECRET.search(upper) is not None and _PUBLIC.search(upper) is None


def worth_hiding(value: str) -> bool:
    """Whether a value can be a secret and can be looked for: not short, a plain word, a number or a path.

    An address with a password in it is no path.
    """
    path = _PATH.match(value) is not None and "@" not in value and not _looks_random(value)
    return len(value) >= SHORTEST and not (value.isalpha() or _NUMBER.fullmatch(value) or path)


def _looks_random(value: str) -> bool:
    """Base64 may begin with a slash."""
    sorts = (any(map(str.isupper, value)), any(map(str.islower, value)), any(map(str.isdigit, value)))
    return len(value) >= 4 * SHORTEST and all(sorts) and "." not in value and value.count("/") <= len(value) // 10
