"""A training run as a TOML file: the config's fields, and tables for environment, models and prompts.

::

    _base_ = "defaults.toml"        # taken first; what stands here goes over it
    num_epochs = 2
    out_root = "outputs/capitals"
    skill = "SKILL.md"              # the initial skill, a file

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

Paths begin at the folder of the file they stand in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import ConfigError, UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.model.text import did_you_mean
from skillopt_sleep.train.config import SkillOptConfig, check_prompts

Table = dict[str, Json]

BASE = "_base_"
TABLES = ("env", "target", "optimizer", "prompts")
PATHS = {
    "": ("skill", "out_root"),
    "env": ("file", "data", "data_path", "split_dir", "path"),
    "target": ("world",),
    "optimizer": ("world",),
}
DEEPEST = 10


class Recipe(Struct, frozen=True, kw_only=True):
    """What a file asks for. ``skill`` is the text of the initial skill, None where the environment's is meant."""

    config: SkillOptConfig
    env: Table = {}
    target: Table = {}
    optimizer: Table = {}
    prompts: dict[str, str] = {}
    skill: str | None = None


def read_recipe(path: Path, over: Mapping[str, Json]) -> Recipe:
    """The recipe of a file, with ``over`` on top of it. Raises ``UsageError`` naming the file, and ``ConfigError``."""
    table = _read(path, ())
    try:
        recipe_of(table)  # what is wrong with the file itself is said of the file
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return recipe_of(_merged(table, over))


def recipe_of(table: Mapping[str, Json]) -> Recipe:
    """The recipe of a table whose paths are absolute or meant from here. Raises ``UsageError`` and ``ConfigError``."""
    own = [each.name for each in fields(SkillOptConfig)]
    _check_names(table, "")
    tables = {name: table.get(name, {}) for name in TABLES}
    for name, value in tables.items():
        if not isinstance(value, dict):
            raise ConfigError(f"{name} is {value!r:.60}, must be a table: [{name}]")
    config = SkillOptConfig.from_dict({name: value for name, value in table.items() if name in own})
    skill = table.get("skill")
    check_prompts(cast("Table", tables["prompts"]))
    prompts = {
        name: _text(Path(str(file)), f"prompts.{name}") for name, file in cast("Table", tables["prompts"]).items()
    }
    return Recipe(
        config=config,
        env=cast("Table", tables["env"]),
        target=cast("Table", tables["target"]),
        optimizer=cast("Table", tables["optimizer"]),
        prompts=prompts,
        skill=None if skill is None else _text(Path(str(skill)), "skill"),
    )


def _read(path: Path, above: tuple[Path, ...]) -> Table:
    """One file over those it inherits from."""
    if path.resolve() in above or len(above) >= DEEPEST:
        raise UsageError(f"{path} inherits from itself by way of {BASE}")
    try:
        table = msgspec.toml.decode(path.read_bytes(), type=dict[str, Json])
    except OSError as error:
        raise UsageError(f"cannot read the training file {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from error
    base = table.pop(BASE, None)
    _check_names(table, f"{path}: ")
    if base is not None and not isinstance(base, str):
        raise ConfigError(f"{path}: {BASE} is {base!r:.60}, must be the name of a file")
    table = _placed(table, path.parent)
    return table if base is None else _merged(_read(path.parent / base, (*above, path.resolve())), table)


def _check_names(table: Mapping[str, Json], where: str) -> None:
    """Raise ``ConfigError`` for a name that a training file does not have."""
    known = [*(each.name for each in fields(SkillOptConfig)), *TABLES, "skill"]
    for name in table:
        if name not in known:
            raise ConfigError(f"{where}a training file has no {name!r}{did_you_mean(name, known)}")


def _placed(table: Table, folder: Path) -> Table:
    """The table with its paths made to begin at its folder."""
    placed: Table = {}
    for name, value in table.items():
        if isinstance(value, dict):
            paths = list(value) if name == "prompts" else PATHS.get(name, ())
            placed[name] = {key: _path(each, folder) if key in paths else each for key, each in value.items()}
        else:
            placed[name] = _path(value, folder) if name in PATHS[""] else value
    return placed


def _path(value: Json, folder: Path) -> Json:
    return str(folder / value) if isinstance(value, str) and value else value


def _merged(under: Mapping[str, Json], over: Mapping[str, Json]) -> Table:
    """``over`` on top of ``under``, table by table. Another environment or backend brings its own options."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        if not isinstance(value, dict) or not isinstance(below, dict):
            merged[name] = value
            continue
        kind = {"env": ("name", "file"), "target": ("backend",), "optimizer": ("backend",)}.get(name, ())
        other = any(key in value and value[key] != below.get(key) for key in kind)
        merged[name] = dict(value) if other else {**below, **value}
    return merged


def role_table(own: Mapping[str, Json], named: Mapping[str, Json]) -> Table:
    """The table of a role that was named on the command line: over the file's own where it is the same backend."""
    return cast("Table", _merged({"target": dict(own)}, {"target": dict(named)})["target"])


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{what}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{what}: {path} is no UTF-8: {error}") from error
