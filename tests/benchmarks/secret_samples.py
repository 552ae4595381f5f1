"""Made-up secrets of every kind in the settings people paste them in, and texts that only look like secrets.

The forms are those that providers document; every seed gives another set. A secret is given as the pieces of it that
must not remain in a text.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tests.benchmarks.secret_contexts import ANYWHERE, CONTEXTUAL, PASSWORD_LINES, Wrap
from tests.benchmarks.secret_shapes import (
    ALNUM,
    HEX,
    SHAPED,
    URLSAFE,
    WORDS,
    Make,
    base64_of,
    drawn,
    key_lines,
    pem_block,
    pgp_block,
    uuid_of,
)

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


class Sample(Struct, frozen=True, kw_only=True):
    """One text with a secret in it. ``pieces`` must all be gone after redaction; ``setting`` is prose, code, json or
    split.
    """

    kind: str
    setting: str
    text: str
    pieces: tuple[str, ...]


def _wrapped(begin: str, end: str, body: list[str]) -> Iterator[tuple[str, str]]:
    """A key as it is pasted, whole and cut off."""
    whole = "\n".join((begin, *body, end))
    yield "code", whole
    yield "prose", f"here is the key:\n\n{whole}\n\nplease install it"
    yield "json", json.dumps({"private_key": whole + "\n", "client_email": "x@example.org"})
    yield "json", json.dumps(json.dumps({"private_key": whole}))
    yield "code", whole.replace("\n", "\\n")
    yield "split", "\n".join(f"    {line}" for line in whole.split("\n"))
    yield "split", "\n".join(f"> {line}" for line in whole.split("\n"))
    yield "split", "\n".join(f"{number:6}\t{line}" for number, line in enumerate(whole.split("\n"), 1))
    yield "split", "\n".join(f"+{line}" for line in whole.split("\n"))
    yield "split", "key = (\n" + "\n".join(f'    "{line}\\n"' for line in whole.split("\n")) + "\n)"
    yield "split", whole.replace("\n", "\r\n")
    yield "split", "\n".join((begin, *body))
    yield "split", "\n".join((*body, end))
    yield "split", "\n".join((begin, *body[:-2], body[-2][:40]))
    yield "split", json.dumps("\n".join((*body[2:], end)))


def _blocks(kind: str, rng: random.Random) -> Iterator[Sample]:
    begin, end, body = {"pem": pem_block, "pgp": pgp_block}[kind](rng)
    for setting, text in _wrapped(begin, end, body):
        pieces = tuple(line for line in body if len(line) > 15 and line in text)
        yield Sample(kind=kind, setting=setting, text=text, pieces=pieces)


def _others(rng: random.Random) -> Iterator[Sample]:
    """PuTTY's keys, service accounts, and Base64 of a whole key file."""
    body = key_lines(rng, "AAAAgQ")
    head = "PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\nComment: ada\nPublic-Lines: 1\nAAAAB3NzaC1yc2E=\n"
    putty = head + f"Private-Lines: {len(body)}\n" + "\n".join(body) + f"\nPrivate-MAC: {drawn(HEX, 64, rng)}\n"
    lines = tuple(line for line in body if len(line) > 15)
    yield Sample(kind="pem putty", setting="code", text=putty, pieces=lines)
    yield Sample(kind="pem putty", setting="json", text=json.dumps(putty), pieces=lines)
    yield Sample(kind="pem putty", setting="split", text=putty[len(head) + 20 :], pieces=lines[1:])
    begin, end, body = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", key_lines(rng)
    account = {
        "type": "service_account",
        "project_id": rng.choice(WORDS),
        "private_key_id": drawn(HEX, 40, rng),
        "private_key": "\n".join((begin, *body, end, "")),
        "client_email": f"{rng.choice(WORDS)}@x.iam.gserviceaccount.com",
    }
    lines = tuple(line for line in body if len(line) > 15)
    yield Sample(kind="google service account", setting="json", text=json.dumps(account, indent=2), pieces=lines)
    yield Sample(kind="google service account", setting="code", text=f"CREDS='{json.dumps(account)}'", pieces=lines)
    yield Sample(
        kind="google service account", setting="json", text=json.dumps({"out": json.dumps(account)}), pieces=lines
    )
    encoded = base64.b64encode("\n".join((begin, *body, end, "")).encode()).decode()
    yield Sample(kind="kubeconfig", setting="prose", text=f"it printed {encoded} and ended", pieces=(encoded,))


def samples(seed: int, rounds: int = 1) -> Iterator[Sample]:
    """Every kind in every setting it goes into, each round with secrets of its own."""
    rng = random.Random(seed)
    for _ in range(rounds):
        for kind, makers in SHAPED.items():
            for setting, wraps in ANYWHERE.items():
                for wrap in wraps:
                    yield _sample(kind, setting, rng.choice(makers)(rng), wrap, rng)
            for setting, wraps in PASSWORD_LINES[1].items():
                yield _sample(kind, setting, rng.choice(makers)(rng), rng.choice(wraps), rng)
        for kind, (make, settings) in CONTEXTUAL.items():
            for setting, wraps in settings.items():
                for wrap in wraps:
                    yield _sample(kind, setting, make(rng), wrap, rng)
        for kind in ("pem", "pgp"):
            yield from _blocks(kind, rng)
        yield from _others(rng)


def _sample(kind: str, setting: str, secret: str, wrap: Wrap, rng: random.Random) -> Sample:
    core = secret.rpartition("/services/")[2] if "hooks.slack" in secret else secret
    core = core.rpartition("/")[2] if core.startswith("http") else core
    return Sample(kind=kind, setting=setting, text=wrap(secret, rng), pieces=(core,))


KINDS = (*SHAPED, *CONTEXTUAL, "pem", "pgp", "pem putty", "google service account")
"""Every kind that samples are made of."""
