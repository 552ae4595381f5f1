"""Digests: names for contents, the same on every machine."""

from __future__ import annotations

__all__ = ["sha256"]


def sha256(content: bytes) -> str:
    """The SHA-256 of a content, in hex."""
    import hashlib  # noqa: PLC0415  it loads OpenSSL, 3 ms, and whoever only looks at what there is digests nothing

    return hashlib.sha256(content).hexdigest()
