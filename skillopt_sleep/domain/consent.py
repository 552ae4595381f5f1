"""Whose eyes a session has already met, and whom the user must be asked about before they meet it too."""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Collection, Mapping
from types import MappingProxyType

from msgspec import Struct

__all__ = ["Stranger", "called", "provider_at", "strangers"]

WENT_TO: Mapping[str, str] = MappingProxyType({"claude": "anthropic", "codex": "openai"})
"""Whom an agent sends its sessions to: by source, a provider."""
NAMES: Mapping[str, str] = MappingProxyType({"anthropic": "Anthropic", "openai": "OpenAI"})


OWN_HOSTS: Mapping[str, str] = MappingProxyType(
    {"api.anthropic.com": "anthropic", "api.openai.com": "openai", "chatgpt.com": "openai"}
)
"""Where a provider is itself; at any other address somebody else may be."""


class Stranger(Struct, frozen=True, kw_only=True):
    """A provider that the sessions of one source have not gone to yet."""

    source: str
    provider: str

    @property
    def question(self) -> str:
        """What the user is to decide."""
        went = WENT_TO.get(self.source)
        before = f"to {called(went)}" if went else "we do not know where to"
        return (
            f"your {self.source} sessions went {before}; this backend would send words of them, secrets taken out,"
            f" to {called(self.provider)}"
        )


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


def strangers(
    sources: Collection[str], providers: Collection[str], agreed: Collection[tuple[str, str]]
) -> tuple[Stranger, ...]:
    """Each source and provider that do not know each other; ``agreed`` holds those the user has agreed to.

    A provider "" is this machine itself, and no stranger to anybody.
    """
    return tuple(
        Stranger(source=source, provider=provider)
        for source in sorted(sources)
        for provider in sorted(set(providers) - {""})
        if WENT_TO.get(source) != provider and (source, provider) not in agreed
    )
