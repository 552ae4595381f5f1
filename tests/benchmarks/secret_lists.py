"""Examples of secrets that others wrote: those with which the public rule sets Kingfisher and Nosey Parker are tested.

They stay out of this project, so that nobody tunes a rule to one of them unseen, and no scanner takes the project for a
leak. Get them with ``git clone https://github.com/mongodb/kingfisher`` (measured at ee7c0db, Apache-2.0) and
``git clone https://github.com/praetorian-inc/noseyparker`` (2e6e7f36, Apache-2.0) into one folder, or an archive of it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import regex
from msgspec import Struct

SETS = {
    "kingfisher": "data/rules",
    "noseyparker": "crates/noseyparker/data/default/builtin/rules",
}
"""Where each set keeps its rules, below the folder with its name."""
CONTEXTS = {
    "bare": lambda text: text,
    "colon": lambda text: f"the one we use: {text}",
    "prose": lambda text: f"could you try it with {text} and tell me what it says?",
    "json": lambda text: json.dumps({"content": text}),
    "command": lambda text: "deploy run --with '" + text.replace("'", "'\\''") + "'",
}


_NO_SECRET = re.compile(
    r"\b(?:ID|Domain|Bucket|Host|Username|Identifier|(?:Org|Account) Name|(?:Instance|JFrog|Search) URL"
    r"|\(X25519 public key\))$"
)
"""Names of rules that look for whose something is, or where, and not for a secret."""


class Example(Struct, frozen=True, kw_only=True):
    """One example of a rule, and the secret in it, which its rule marks."""

    set: str
    rule: str
    text: str
    secret: tuple[str, ...]
    """Where a rule marks several things, the first is a user, a host or an id; one of the others must be gone."""

    @property
    def held_out(self) -> bool:
        """Half of the kinds, by the name of their issuer, are a figure only: they were never looked at."""
        issuer = self.rule.split(".")[1]
        return hashlib.sha256(issuer.encode()).digest()[-1] % 2 == 0


def read_examples(place: Path) -> list[Example]:
    """Read the examples of every set below a folder or in an archive."""
    if place.is_dir():
        return list(_read_folder(place))
    with tempfile.TemporaryDirectory() as folder, tarfile.open(place) as archive:
        archive.extractall(folder, filter="data")
        return list(_read_folder(Path(folder)))


def _read_folder(folder: Path) -> Iterator[Example]:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise SystemExit("the rule sets are YAML: pip install pyyaml, then run this again") from None
    for name, rules in SETS.items():
        for path in sorted((folder / name / rules).glob("*.y*ml")):
            for rule in yaml.safe_load(path.read_text(encoding="utf-8")).get("rules", []):
                yield from _read_rule(name, rule)


def _read_rule(name: str, rule: dict[str, object]) -> Iterator[Example]:
    if _NO_SECRET.search(str(rule["name"])):
        return
    pattern = regex.compile(str(rule["pattern"]))
    for text in map(str, rule.get("examples") or []):  # type: ignore[call-overload]
        match = pattern.search(text)
        if match is not None:
            marked = [match["TOKEN"]] if "TOKEN" in pattern.groupindex else [group for group in match.groups() if group]
            secret = tuple(marked[1:] or marked) or (match[0],)
            yield Example(set=name, rule=str(rule["id"]), text=text.strip(), secret=secret)
