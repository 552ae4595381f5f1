"""A number in [0, 1) that is a pure function of its name.

A resumed night must see the same luck as the night that was killed, in any order and from any thread, so nothing here
remembers a state: whoever needs a random number names what it is for.
"""

from __future__ import annotations

import hashlib

__all__ = ["uniform"]

RESOLUTION = 2**64


def uniform(*name: str | int) -> float:
    """Uniform over [0, 1); the same name gives the same number, on every machine."""
    joined = "\x1f".join(map(str, name))  # unit separator: ("a", "bc") and ("ab", "c") are different names
    digest = hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / RESOLUTION
