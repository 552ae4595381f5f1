"""Settings: defaults < file < environment < flags, in one typed tree that knows where each value came from.

The only module that reads the environment. PATH, homes and secrets to redact are handed down from here as values.
"""

from __future__ import annotations

import enum
import os
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta, Struct, field

from skillopt_sleep.errors import SettingsError
from skillopt_sleep.gate.rule import GateMode
from skillopt_sleep.model import Json
from skillopt_sleep.model.rollout import GateMetric, ReplayMode
from skillopt_sleep.model.text import did_you_mean
from skillopt_sleep.safety.receivers import says_secret, worth_hiding

PREFIX = "SKILLOPT_SLEEP_"
NOT_SETTINGS = frozenset({"SKILLOPT_SLEEP_SETTINGS"})
OLD_SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "gate_mode": {"on": "paired", "true": "paired", "none": "off", "false": "off", "greedy": "off"},
}
"""Values that users of the reference write, and what they mean here."""

Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(gt=0, le=1e6)]
Share = Annotated[float, Meta(ge=0, le=1)]
Table = dict[str, dict[str, Json]]
TABLES = ("sources", "backends", "judges")


class Settings(Struct, frozen=True, kw_only=True):
    """Every setting; the names are those of the file, of the flags (``--max-calls``) and of the variables
    (``SKILLOPT_SLEEP_MAX_CALLS``).

    ``[sources.x]``, ``[backends.x]`` and ``[judges.x]`` stay raw tables here: the adapter they name types them.
    """  # noqa: D205

    backend: str = "claude"
    target_backend: str = ""
    target_model: str = ""
    optimizer_backend: str = ""
    optimizer_model: str = ""
    source: str = "auto"
    share_with: str = ""
    scope: Literal["invoked", "all"] = "invoked"
    agent: Literal["auto", "claude", "codex"] = "auto"
    target_skill: str = ""
    lookback_days: Annotated[int, Meta(ge=0)] = 0
    max_sessions: Count = 40
    max_train: Count = 24
    max_val: Count = 12
    miner: Literal["auto", "heuristic", "model"] = "auto"
    edit_budget: Count = 4
    rollouts_k: Count = 1
    recall_k: Annotated[int, Meta(ge=0)] = 0
    replay: ReplayMode = ReplayMode.TEXT
    gate_mode: GateMode = GateMode.PAIRED
    gate_metric: GateMetric = GateMetric.MIXED
    gate_mixed_weight: Share = 0.5
    alpha: Annotated[float, Meta(ge=0.001, le=0.05)] = 0.05
    evolve_skill: bool = True
    evolve_memory: bool = True
    preferences: str = ""
    block_cap: Count = 8000
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    max_calls: Count = 120
    max_tokens: Count = 400_000
    max_usd: Amount = 2.0
    max_minutes: Amount = 60.0
    max_calls_day: Annotated[int, Meta(ge=0)] = 0
    max_tokens_day: Annotated[int, Meta(ge=0)] = 0
    max_usd_day: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    workers: Count = 4
    retry_wait: Annotated[float, Meta(ge=0, le=60)] = 1.0
    auto_adopt: bool = False
    announce: bool = True
    keep_days: Count = 90
    keep_mb: Count = 500
    data_dir: str = ""
    sources: Table = field(default_factory=dict)
    backends: Table = field(default_factory=dict)
    judges: Table = field(default_factory=dict)


Origins = Mapping[str, str]
"""For each setting, where its value came from: "default", the file, a variable, or "flag"."""

_TYPES = typing.get_type_hints(Settings, include_extras=True)


def environment() -> Mapping[str, str]:
    """A copy of the process environment, to be handed down as a value."""
    return dict(os.environ)


def settings_path(env: Mapping[str, str]) -> Path:
    """Where the settings file is looked for; ``SKILLOPT_SLEEP_SETTINGS`` names another one."""
    named = env.get("SKILLOPT_SLEEP_SETTINGS")
    if named:
        return Path(named)
    import platformdirs  # noqa: PLC0415  half of what `--version` would otherwise cost

    return platformdirs.user_config_path("skillopt-sleep") / "settings.toml"


def load(env: Mapping[str, str], flags: Mapping[str, Json]) -> tuple[Settings, Origins]:
    """Read all four layers. ``flags`` holds only what was given on the command line.

    Raises ``SettingsError`` naming the key or value, where it stands, and what is expected there.
    """
    path = settings_path(env)
    layers: list[tuple[str, Mapping[str, object]]] = [
        (f"file {path}", _from_file(path, required="SKILLOPT_SLEEP_SETTINGS" in env)),
        ("variable", _from_environment(env)),
        ("flag", flags),
    ]
    values: dict[str, object] = {}
    origins = dict.fromkeys(Settings.__struct_fields__, "default")
    for origin, layer in layers:
        for key, value in layer.items():
            where = f"variable {PREFIX}{key.upper()}" if origin == "variable" else origin
            typed = _typed(key, value, where)
            both = key in TABLES and key in values
            values[key] = _merged(cast("Table", values[key]), cast("Table", typed)) if both else typed
            origins[key] = f"{origins[key]}, {where}" if both else where
    return msgspec.convert(values, Settings), origins


def _merged(under: Table, over: Table) -> Table:
    """Tables of two layers: an option that the later one does not name stays as the earlier one has it."""
    return {name: under.get(name, {}) | over.get(name, {}) for name in {**under, **over}}


def _typed(key: str, value: object, where: str) -> object:
    """One value in the type of its setting."""
    if key not in _TYPES:
        hint = did_you_mean(key, _TYPES)
        raise SettingsError(f"{where}: there is no setting {key!r}{hint} (`skillopt-sleep settings` lists them all)")
    canonical = value
    if (written := str(value).strip().lower()) in (old := OLD_SPELLINGS.get(key, {})):
        canonical = old[written]
    elif written in _choices(_TYPES[key]):
        canonical = written
    try:
        return msgspec.convert(canonical, _TYPES[key], strict=False)
    except msgspec.ValidationError as error:
        known = _choices(_TYPES[key])
        expected = f"expected one of {', '.join(known)}" if known else str(error)
        raise SettingsError(f"{where}: {key} = {value!r} cannot be used: {expected}") from None


def _choices(kind: object) -> tuple[str, ...]:
    """The values of a closed set, none of a type that is open."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return tuple(str(each.value) for each in kind)
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _from_file(path: Path, *, required: bool) -> dict[str, object]:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        if required:
            raise SettingsError(f"there is no settings file {path}, which SKILLOPT_SLEEP_SETTINGS names") from None
        return {}
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {path}: {error.strerror}") from error
    try:
        return msgspec.toml.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {path} is not valid TOML: {error}; nothing was changed") from error


def _from_environment(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in env.items()
        if name.startswith(PREFIX) and name not in NOT_SETTINGS
    }


def agent_homes(env: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Where each agent keeps its sessions, by source; only folders that exist.

    ``CLAUDE_CONFIG_DIR`` may be a comma list; ``~/.config/claude`` also occurs. ``CODEX_HOME`` is one folder.
    """
    home = Path(env.get("HOME") or Path.home())
    claude = [part for part in env.get("CLAUDE_CONFIG_DIR", "").split(",") if part.strip()]
    candidates = {
        "claude": claude or [str(home / ".claude"), str(home / ".config" / "claude")],
        "codex": [env.get("CODEX_HOME") or str(home / ".codex")],
    }
    return {
        source: tuple(folder for folder in folders if Path(folder).is_dir()) for source, folders in candidates.items()
    }


def secrets(env: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables whose name says secret, for redaction; not words, numbers or paths, which are no secrets."""
    return tuple(value for name, value in env.items() if says_secret(name) and worth_hiding(value))
