"""Names a git repository by its remote URL, so that clones fetched in different ways are recognised as one."""

from __future__ import annotations

import re

_URL = re.compile(
    r"(?P<scheme>[a-z][a-z+]*)://(?:[^/@]*@)?(?P<host>\[[^\]]*\]|[^/:]+)(?::(?P<port>\d+))?/(?P<path>.+)", re.IGNORECASE
)
_SCP = re.compile(r"(?:[^/@:]+@)?(?P<host>[^/@:]{2,}):(?!//)(?P<path>.+)")
_USUAL_PORTS = {"ssh": "22", "git+ssh": "22", "http": "80", "https": "443", "git": "9418"}
_CASELESS_HOSTS = frozenset({"bitbucket.org", "github.com", "gitlab.com"})
"""Hosts where two repositories never differ by letter case alone."""


def normalize_remote(url: str) -> str:
    """Return ``host/owner/name`` of a remote URL, without user, password and ``.git``; a local path stays a path.

    >>> normalize_remote("git@GitHub.com:Acme/shop.git") == normalize_remote("https://token@github.com/acme/shop/")
    True
    """
    url = url.strip()
    if url.lower().startswith("file://"):
        return url[len("file://") :].removeprefix("localhost")
    match = _URL.fullmatch(url)
    port = ""
    if match:
        scheme, port = match["scheme"].lower(), match["port"] or ""
        port = "" if port == _USUAL_PORTS.get(scheme) else port
    else:
        match = _SCP.fullmatch(url)
    if match is None:
        return url
    host = match["host"].lower()
    path = match["path"].strip("/").removesuffix(".git").rstrip("/")
    if host in _CASELESS_HOSTS:
        path = path.lower()
    return f"{host}{':' if port else ''}{port}/{path}"


def is_local_remote(remote: str) -> bool:
    """Whether a normalised remote is a folder of this machine."""
    return remote.startswith(("/", "./", "../", "~")) or remote in {".", ".."}
