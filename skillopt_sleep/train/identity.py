"""What of a client or an environment changes answers and scores: part of what a run, or an evaluation, is.

Each is a table of names and values that can be told apart after a restart; whoever differs in one is another.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec

from skillopt_sleep.model import Json
from skillopt_sleep.model.text import sha256

NO_TRAITS = frozenset({"timeout", "loop_timeout", "max_usd", "latency", "api_key_env", "command", "faults", "fatal"})
"""Options of backends that change what a call costs, how long it takes or whether it fails, not what is answered."""
MADE_WITH = "made_with"
"""The attribute of an environment that was made from a table: its options."""
PATHS = frozenset({"file", "data", "data_path", "split_dir", "path", "out_root"})
WHOLE = (str, int, float, bool, type(None))
"""Types whose values are shown as they are; of others a digest is."""


def client_traits(backend: object) -> dict[str, Json]:
    """What of a backend may change an answer: its options but for those of ``NO_TRAITS``, and who is asked.

    A client of one's own says so by an attribute ``traits``, a dict.
    """
    own = getattr(getattr(backend, "client", backend), "traits", None)
    if isinstance(own, Mapping):
        return dict(own)
    found: dict[str, Json] = {"sees": str(getattr(backend, "sees", ""))}
    if not dataclasses.is_dataclass(backend) or not hasattr(backend, "probe"):
        return found
    for each in dataclasses.fields(backend):
        if each.init and each.repr and each.name not in {*NO_TRAITS, "chat", "client"}:
            found[each.name] = _shown(getattr(backend, each.name))
    return found


def env_traits(env: object) -> dict[str, Json]:
    """What an environment was made with, and what it says of how it asks and scores by a method ``traits``, if any.

    Paths are left out: data and code may lie elsewhere, and items have a digest of their own.
    """
    traits = getattr(env, "traits", None)
    said: Any = traits() if callable(traits) else {}
    made: Any = getattr(env, MADE_WITH, {})
    found = {**(made if isinstance(made, Mapping) else {}), **(said if isinstance(said, Mapping) else {})}
    return {str(name): _shown(value) for name, value in found.items() if name not in PATHS}


def function_digest(function: Callable[..., object]) -> str:
    """A name for what a function does: its own, and a digest of its source, or of its code where there is no source."""
    name = str(getattr(function, "__qualname__", type(function).__name__))
    try:
        said: object = inspect.getsource(function)
    except (OSError, TypeError):
        said = _code(getattr(function, "__code__", None))
    return f"{name} {digest_of([said, _shown(getattr(function, '__defaults__', None))])[:8]}"


def digest_of(value: object) -> str:
    """A few digits that are others for another value; of what is no plain data, the type counts alone."""
    return sha256(msgspec.json.encode(value, enc_hook=lambda each: type(each).__name__, order="deterministic"))[:16]


def _shown(value: object) -> Json:
    if callable(value):
        return function_digest(value)
    if isinstance(value, str) and value.endswith(".json") and Path(value).is_file():  # a world, wherever it lies
        return sha256(Path(value).read_bytes())[:16]
    return value if isinstance(value, WHOLE) else digest_of(value)


def _code(code: CodeType | None) -> object:
    """What a function does, without the lines it stands in."""
    if code is None:
        return None
    inner = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), inner]
