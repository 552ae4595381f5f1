"""Find a source, backend, judge or training environment by name; listing names imports none of them."""

from __future__ import annotations

import dataclasses
import enum
import importlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from skillopt_sleep.errors import SettingsError, UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.model.text import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENVIRONMENTS = "environments"
"""The entry-point group of environments to train on; they are classes of their own making, not tables of options."""


class Kind(enum.StrEnum):
    """The three kinds of adapters; the value is the package, and the entry-point group after the program's name."""

    SOURCE = "sources"
    BACKEND = "backends"
    JUDGE = "judges"


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """Every known name: adapter files of this package, then entry points of other packages, sorted."""
    return tuple(sorted({*_built_in(kind), *_entry_points(kind)}))


def require(kind: Kind, name: str) -> None:
    """Raise ``UsageError`` naming the known ones and the nearest, when there is no adapter of that name."""
    if name not in _built_in(kind) and name not in _entry_points(kind):
        known = names(kind)
        raise UsageError(f"there is no {kind[:-1]} {name!r}, only {', '.join(known)}{did_you_mean(name, known)}")


def find(kind: Kind, name: str) -> type:
    """The adapter class of that name; built-ins win over entry points.

    Raises ``UsageError`` as ``require`` does, and for an entry point whose package cannot be loaded.
    """
    require(kind, name)
    if name in _built_in(kind):
        adapter: type = importlib.import_module(f"skillopt_sleep.{kind}.{name}").PLUGIN
        return adapter
    return cast("type", _loaded(_entry_points(kind)[name], kind[:-1]))


@cache
def environments() -> tuple[str, ...]:
    """Every known environment: the files of ``train/environments``, then entry points of other packages, sorted."""
    return tuple(sorted({*_plugins(_environments_folder()), *_entry_points(ENVIRONMENTS)}))


def find_environment(name: str) -> object:
    """What makes the environment of that name, a class or a function; built-ins win over entry points.

    Raises ``UsageError`` as ``find`` does.
    """
    if name in _plugins(_environments_folder()):
        return importlib.import_module(f"skillopt_sleep.train.environments.{name}").PLUGIN
    if name not in _entry_points(ENVIRONMENTS):
        known = environments()
        near = did_you_mean(name, known)
        raise UsageError(
            f"there is no environment {name!r}, only {', '.join(known)}, or a file such as my_env.py{near}"
        )
    return _loaded(_entry_points(ENVIRONMENTS)[name], "environment")


def require_options(kind: Kind, name: str, options: Iterable[str]) -> frozenset[str]:
    """Every option of the adapter of that name. Raises ``SettingsError`` when one of ``options`` is none of them."""
    fields = frozenset(field.name for field in dataclasses.fields(find(kind, name)) if field.init)
    for key in options:
        if key not in fields:
            known = f"{', '.join(sorted(fields))}{did_you_mean(key, fields)}"
            raise SettingsError(f"[{kind}.{name}] has no option {key!r}, only {known}")
    return fields


def build(kind: Kind, name: str, options: Mapping[str, Json], **given: object) -> object:
    """Make the adapter of that name from its table of options.

    ``given`` are the values only this program knows (environment, homes, model); an adapter takes those it has a field
    for. Raises ``SettingsError`` naming an unknown option or a value of the wrong type.
    """
    adapter = find(kind, name)
    fields = require_options(kind, name, options)
    values = {key: value for key, value in given.items() if key in fields} | dict(options)
    try:
        return msgspec.convert(values, adapter, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"[{kind}.{name}]: {error}") from None


@cache
def _built_in(kind: Kind) -> tuple[str, ...]:
    return _plugins(Path(__file__).parent / kind)


@cache
def _plugins(folder: Path) -> tuple[str, ...]:
    """Files that end in ``PLUGIN = …``; the last line is read, nothing is imported."""
    return tuple(path.stem for path in folder.glob("*.py") if _last_line(path).startswith("PLUGIN = "))


def _environments_folder() -> Path:
    return Path(__file__).parent / "train" / ENVIRONMENTS


def _last_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").rstrip().rpartition("\n")[2]


def _loaded(entry: EntryPoint, kind: str) -> object:
    try:
        loaded: object = entry.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the {kind} {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
    return loaded


@cache
def _entry_points(kind: str) -> dict[str, EntryPoint]:
    from importlib import metadata  # noqa: PLC0415  15 ms, for those who ask for what is not built in

    return {entry.name: entry for entry in metadata.entry_points(group=f"skillopt_sleep.{kind}")}
