"""Find a source, backend or judge by name; listing names imports none of them."""

from __future__ import annotations

import difflib
import enum
import importlib
from functools import cache
from importlib import metadata
from pathlib import Path

from skillopt_sleep.errors import UsageError

__all__ = ["Kind", "find", "names"]


class Kind(enum.StrEnum):
    """The three kinds of adapters; the value is the package, and the entry-point group after the program's name."""

    SOURCE = "sources"
    BACKEND = "backends"
    JUDGE = "judges"


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """Every known name: adapter files of this package, then entry points of other packages, sorted."""
    return tuple(sorted({*_built_in(kind), *_entry_points(kind)}))


def find(kind: Kind, name: str) -> type:
    """The adapter class of that name; built-ins win over entry points.

    Raises ``UsageError`` naming the known ones and the nearest.
    """
    if name in _built_in(kind):
        adapter: type = importlib.import_module(f"skillopt_sleep.{kind}.{name}").PLUGIN
        return adapter
    entry = _entry_points(kind).get(name)
    if entry is not None:
        loaded: type = entry.load()
        return loaded
    nearest = difflib.get_close_matches(name, names(kind), n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise UsageError(f"there is no {kind[:-1]} {name!r}, only {', '.join(names(kind))}{hint}")


@cache
def _built_in(kind: Kind) -> tuple[str, ...]:
    """Files that end in ``PLUGIN = …``; the last line is read, nothing is imported."""
    folder = Path(__file__).parent / kind
    return tuple(path.stem for path in folder.glob("*.py") if _last_line(path).startswith("PLUGIN = "))


def _last_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").rstrip().rpartition("\n")[2]


@cache
def _entry_points(kind: Kind) -> dict[str, metadata.EntryPoint]:
    return {entry.name: entry for entry in metadata.entry_points(group=f"skillopt_sleep.{kind}")}
