"""Texts without a secret, though much in them looks like one: hashes, placeholders, code and talk about secrets."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.secret_shapes import ALNUM, HEX, URLSAFE, Make, base64_of, drawn, uuid_of

_NIX = "0123456789abcdfghijklmnpqrsvwxyz"
_MADE: dict[str, Make] = {
    "short": lambda rng: drawn(HEX, 9, rng),
    "md5": lambda rng: drawn(HEX, 32, rng),
    "sha1": lambda rng: drawn(HEX, 40, rng),
    "sha256": lambda rng: drawn(HEX, 64, rng),
    "uuid": uuid_of,
    "base64": lambda rng: base64_of(32, rng),
    "sha512": lambda rng: base64_of(64, rng),
    "long": lambda rng: base64_of(300, rng),
    "nix": lambda rng: drawn(_NIX, 52, rng),
    "id": lambda rng: drawn(ALNUM, 22, rng),
    "urlsafe": lambda rng: drawn(URLSAFE, 43, rng),
}

CORPUS = Path(__file__).parent / "corpora" / "secret_innocent.json"


def innocents(seed: int) -> Iterator[str]:
    """Yield every text of the corpus; the random parts, marked like §sha1§, are drawn anew for every seed."""
    rng = random.Random(seed)
    corpus = json.loads(CORPUS.read_text(encoding="utf-8"))
    names, values = corpus["placeholder_names"], corpus["placeholder_values"]
    placeholders = [f"{name}={value}" for name in names for value in values]
    groups = (corpus["hashes"], corpus["public"], placeholders, corpus["code"], corpus["commands"], corpus["prose"])
    for text in (text for group in groups for text in group):
        yield re.sub("§([a-z0-9]+)§", lambda match: _MADE[match[1]](rng), text)
