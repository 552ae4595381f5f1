"""Reads the TOML or YAML file of a training run: fields of the config, tables for environment, models and prompts.

::

    _base_ = "defaults.toml"        # read first; this file overrides it
    num_epochs = 2
    out_root = "outputs/capitals"
    skill = "SKILL.md"              # the file with the initial skill

    [env]
    name = "simple_qa"              # or file = "my_env.py"; the rest are its options
    data = "capitals.jsonl"

    [target]
    backend = "openai"
    model = "the-small-one"

    [optimizer]
    backend = "claude"

    [prompts]
    analyst_error = "prompts/analyst_error.md"

Paths are relative to the file they are in. Files in the reference's form are read too (``reference_form``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import ConfigError, UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.model.text import suggest_name
from skillopt_sleep.train.config import SkillOptConfig, check_prompts
from skillopt_sleep.train.reference_form import is_reference_form, merge_sections, translate

Table = dict[str, Json]

BASE = "_base_"
TABLES = ("env", "target", "optimizer", "prompts")
FIELDS = tuple(item.name for item in fields(SkillOptConfig))
PATHS = {
    "": ("skill", "out_root"),
    "env": ("file", "data", "data_path", "split_dir", "path"),
    "target": ("world",),
    "optimizer": ("world",),
}
"""By table, the fields whose values are paths."""
KIND = {"env": ("name", "file"), "target": ("backend",), "optimizer": ("backend",)}
"""By table, the fields that name the environment or backend which its other fields are options of."""
MAX_DEPTH = 10


class Recipe(Struct, frozen=True, kw_only=True):
    """What a training file asks for."""

    config: SkillOptConfig
    env: Table = {}
    target: Table = {}
    optimizer: Table = {}
    prompts: dict[str, str] = {}
    """The texts of overridden prompts, by name."""
    skill: str | None = None
    """The text of the initial skill; None means that of the environment."""
    ignored: tuple[str, ...] = ()
    """Keys of a file in the reference's form that have no counterpart here."""


def read_recipe(path: Path, over: Mapping[str, Json]) -> Recipe:
    """Read a training file and override it by ``over``.

    Raises ``UsageError`` naming the file, and ``ConfigError``.
    """
    table = _read(path, ())
    ignored: tuple[str, ...] = ()
    try:
        if is_reference_form(table):
            table, ignored = translate(table)
        build_recipe(table)  # mistakes in the file itself are reported with its name
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return replace(build_recipe(_merge(table, over)), ignored=ignored)


def build_recipe(table: Mapping[str, Json]) -> Recipe:
    """Build the recipe of a table whose paths are absolute or relative to the working directory.

    Raises ``UsageError`` and ``ConfigError``.
    """
    _check_names(table, "")
    tables: dict[str, Table] = {}
    for name in TABLES:
        value = table.get(name, {})
        if not isinstance(value, dict):
            raise ConfigError(f"{name} is {value!r:.60}, must be a table: [{name}]")
        tables[name] = value
    config = SkillOptConfig.from_dict({name: value for name, value in table.items() if name in FIELDS})
    skill = table.get("skill")
    check_prompts(tables["prompts"])
    return Recipe(
        config=config,
        env=tables["env"],
        target=tables["target"],
        optimizer=tables["optimizer"],
        prompts={name: _read_text(Path(str(file)), f"prompts.{name}") for name, file in tables["prompts"].items()},
        skill=None if skill is None else _read_text(Path(str(skill)), "skill"),
    )


def merge_role(own: Mapping[str, Json], named: Mapping[str, Json]) -> Table:
    """Merge the table of a role named on the command line into the file's, if both mean the same backend."""
    return cast("Table", _merge({"target": dict(own)}, {"target": dict(named)})["target"])


def _read(path: Path, above: tuple[Path, ...]) -> Table:
    """Read one file on top of those it inherits from; ``above`` are the files that inherit from it."""
    if path.resolve() in above or len(above) >= MAX_DEPTH:
        raise UsageError(f"{path} inherits from itself by way of {BASE}")
    table = _decode(path)
    base = table.pop(BASE, None)
    if base is not None and not isinstance(base, str):
        raise ConfigError(f"{path}: {BASE} is {base!r:.60}, must be the name of a file")
    under = {} if base is None else _read(path.parent / base, (*above, path.resolve()))
    if is_reference_form(table) or is_reference_form(under):
        return merge_sections(under, table)
    _check_names(table, f"{path}: ")
    return _merge(under, _resolve_paths(table, path.parent))


def _decode(path: Path) -> Table:
    """Return what a TOML file holds, or one named ``.yaml`` or ``.yml``. Raises ``UsageError`` naming it."""
    kind = "YAML" if path.suffix in {".yaml", ".yml"} else "TOML"
    decode = msgspec.yaml.decode if kind == "YAML" else msgspec.toml.decode
    try:
        return decode(path.read_bytes(), type=dict[str, Json])
    except OSError as error:
        raise UsageError(f"cannot read the training file {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not {kind}: {' '.join(str(error).split())}") from error


def _check_names(table: Mapping[str, Json], where: str) -> None:
    """Raise ``ConfigError`` for an unknown field."""
    known = [*FIELDS, *TABLES, "skill"]
    for name in table:
        if name not in known:
            raise ConfigError(f"{where}a training file has no {name!r}{suggest_name(name, known)}")


def _resolve_paths(table: Table, folder: Path) -> Table:
    """Return the table with its relative paths joined to a folder."""

    def resolve(value: Json, *, is_path: bool) -> Json:
        return str(folder / value) if is_path and isinstance(value, str) and value else value

    resolved: Table = {}
    for name, value in table.items():
        if isinstance(value, dict):
            paths = list(value) if name == "prompts" else PATHS.get(name, ())
            resolved[name] = {key: resolve(entry, is_path=key in paths) for key, entry in value.items()}
        else:
            resolved[name] = resolve(value, is_path=name in PATHS[""])
    return resolved


def _merge(under: Mapping[str, Json], over: Mapping[str, Json]) -> Table:
    """Merge ``over`` into ``under``, table by table; for another environment or backend, drop the old one's options."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        if not isinstance(value, dict) or not isinstance(below, dict):
            merged[name] = value
            continue
        other = any(key in value and value[key] != below.get(key) for key in KIND.get(name, ()))
        merged[name] = dict(value) if other else {**below, **value}
    return merged


def _read_text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{what}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{what}: {path} is not UTF-8: {error}") from error
