"""Secrets that are never written into a schedule: those of the environment, and those somebody types as an option."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

import msgspec

from skillopt_sleep.domain import Json
from skillopt_sleep.domain.environ import says_secret, worth_hiding
from skillopt_sleep.domain.redact import Redactor

__all__ = ["Unwritten", "leaves", "of_environment"]

SECRET_NAMES = frozenset(
    {"authorization", "auth", "bearer", "code", "key", "pass", "psk", "pw", "pwd", "sas", "sig", "signature"}
)
"""Names that tell by themselves, as one has them in the query of a URL and among headers."""
COUNTED = re.compile(r"[\d_.+-]+|true|false", re.IGNORECASE)
"""Numbers and switches: ``max_tokens=5`` is about tokens and is none."""
VARIABLE = re.compile(r"[A-Za-z_]\w*")
LEFT_OUT = re.compile(r"[^A-Za-z0-9]+")


def leaves(assignment: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """What one ``a.b=value`` of ``--set`` sets: each value that is no table by its whole name, read as TOML."""
    path, _, text = assignment.partition("=")
    value: Json = text
    if text.lstrip()[:1] in {"{", "["}:
        try:
            value = msgspec.toml.decode(f"v = {text}", type=dict[str, Json])["v"]
        except msgspec.DecodeError:
            value = text
    else:
        value = text.strip().strip("\"'")
    yield from _below(tuple(path.split(".")), value)


def _below(path: tuple[str, ...], value: Json) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _below((*path, *key.split(".")), each)
    elif isinstance(value, list):
        for each in value:
            yield from _below(path, each)
            name, equals, text = str(each).partition("=")
            if equals and re.fullmatch(r"[\w.-]+", name):  # a setting of another program
                yield (*path, *name.split(".")), text.strip().strip("\"'")
    else:
        yield path, str(value)


class Unwritten:
    """Tells secrets; ``known`` are those of the user's environment."""

    def __init__(self, known: tuple[str, ...] = ()) -> None:
        self._redactor = Redactor(known)

    def hides(self, name: str, value: str) -> bool:
        """Whether a value is a secret: by its own form, by its name, or as a URL by what stands in it."""
        if not value.strip():
            return False
        if self._redactor.suspects(value) or self._in_url(value):
            return True
        if name.lower().endswith("_env"):  # it names a variable that holds the secret
            return VARIABLE.fullmatch(value) is None
        return _tells(name, value) or self._redactor.suspects(f"{name}={value}")

    def _in_url(self, value: str) -> bool:
        if "://" not in value:
            return False
        try:
            url = urlsplit(value)
        except ValueError:
            return True  # nobody can say what stands where
        pairs = [pair for part in (url.query, url.fragment) for pair in parse_qsl(part, keep_blank_values=True)]
        return "@" in url.netloc or any(
            _tells(name, text) or self._redactor.suspects(f"{name}={text}") or (not text and worth_hiding(name))
            for name, text in pairs
        )


def _tells(name: str, value: str) -> bool:
    """Whether a name says that its value is a secret."""
    plain = LEFT_OUT.sub("_", name).strip("_")
    if "TOKENS" in plain.upper() and COUNTED.fullmatch(value):
        return False
    if value.lower() in {"true", "false"}:
        return False
    return says_secret(plain) or plain.lower() in SECRET_NAMES


def of_environment(env: Mapping[str, str], names: frozenset[str], own: str) -> frozenset[str]:
    """Which of these variables, and of our own, hold a secret."""
    secret = Unwritten()
    return frozenset(
        name
        for name, value in env.items()
        if (name in names and "://" in value and ("@" in value or secret.hides("", value)))
        or (name.startswith(own) and secret.hides(name.removeprefix(own).rpartition("__")[2], value))
    )
