"""Settings: defaults, overridden by the file, then the environment, then flags; each value knows where it came from.

The only module that reads the process environment; the rest of the program gets it as a value.
"""

from __future__ import annotations

import enum
import math
import os
import stat
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
from skillopt_sleep.model.text import suggest_name
from skillopt_sleep.safety.receivers import is_secret_name, is_worth_hiding

PREFIX = "SKILLOPT_SLEEP_"
FILE_VARIABLE = "SKILLOPT_SLEEP_SETTINGS"
"""The variable that names another settings file; the others with ``PREFIX`` are settings."""
OLD_SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "gate_mode": {"on": "paired", "true": "paired", "none": "off", "false": "off", "greedy": "off"},
}
"""Values that users of the reference implementation write, and what they mean here."""

Count = Annotated[int, Meta(ge=1)]
CountOrNone = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(gt=0, le=1e6)]
Share = Annotated[float, Meta(ge=0, le=1)]
Table = dict[str, dict[str, Json]]
TABLES = ("sources", "backends", "judges")
"""The settings that are tables of adapters, each with a table of its options."""


class Settings(Struct, frozen=True, kw_only=True):
    """Every setting; the names are those of the file, of the flags (``--max-calls``) and of the variables
    (``SKILLOPT_SLEEP_MAX_CALLS``).
    """  # noqa: D205

    backend: str = "claude"
    """Backend of both roles."""
    target_backend: str = ""
    """Backend of the model that improves; "" takes ``backend``."""
    target_model: str = ""
    """Model of the target backend; "" takes the one most of the user's sessions used."""
    optimizer_backend: str = ""
    """Backend of the model that mines, judges and reflects; "" takes ``backend``."""
    optimizer_model: str = ""
    source: str = "auto"
    """The source whose sessions are read; ``auto`` reads all."""
    share_with: str = ""
    """Providers, separated by commas, that may be sent sessions which went to another provider."""
    scope: Literal["invoked", "all"] = "invoked"
    """Sessions of the project, or of all the user's work; ``all`` writes the user's own files."""
    agent: str = "auto"
    """The agent whose files are written; ``auto`` takes the one with most sessions in scope."""
    land_for: str = "auto"
    """Agents, separated by commas, for which proven rules land (``--for``); ``auto``: whose sessions are read."""
    target_skill: str = ""
    """A ``SKILL.md``, or the name of a skill, to improve instead of the learnt one."""
    lookback_days: CountOrNone = 0
    """Mine only sessions of so many days; 0 means all."""
    max_sessions: Count = 40
    max_train: Count = 24
    max_val: Count = 12
    miner: Literal["auto", "heuristic", "model"] = "auto"
    """How tasks are found: by rules, or by the optimizer."""
    label_feedback: bool = True
    """Ask the optimizer, in a few calls a night, which prompts correct an answer where rules cannot tell."""
    edit_budget: Count = 4
    """Most edits of a document a night."""
    rollouts_k: Count = 1
    """Attempts at each training task."""
    recall_k: CountOrNone = 0
    """Old tasks a night trains on besides the new ones."""
    replay: ReplayMode = ReplayMode.TEXT
    gate_mode: GateMode = GateMode.PAIRED
    gate_metric: GateMetric = GateMetric.MIXED
    gate_mixed_weight: Share = 0.5
    """Weight of the soft score in the mixed metric."""
    alpha: Annotated[float, Meta(ge=0.001, le=0.05)] = 0.05
    """Highest chance that a useless rule is shown as promising; proving one takes more (docs/gate.md)."""
    evolve_skill: bool = True
    evolve_memory: bool = True
    preferences: str = ""
    """The user's own wishes, shown to the reflection."""
    block_cap: Count = 8000
    """Most characters of our block in a document."""
    memory_rules: CountOrNone = 24
    """Most rules of our block in a memory file, which every request carries; 0: rules stay where they are proposed."""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """Seed of the split; 0 draws one."""
    max_calls: Count = 120
    max_tokens: Count = 400_000
    max_usd: Amount = 2.0
    max_minutes: Amount = 60.0
    max_calls_day: CountOrNone = 0
    """Most calls of all projects together from noon to noon; 0 means no cap, here and below."""
    max_tokens_day: CountOrNone = 0
    max_usd_day: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    workers: Count = 4
    """Most calls in flight."""
    retry_wait: Annotated[float, Meta(ge=0, le=60)] = 1.0
    """Seconds before the first retry."""
    auto_adopt: bool = False
    announce: bool = True
    """Let the agents' plugins mention a proposal that waits."""
    notify: bool = False
    """Show a notification on the desktop when a proposal waits or a night failed."""
    keep_days: Count = 90
    """Days after which old nights may be deleted."""
    keep_mb: Count = 500
    """Most megabytes of nights that are kept."""
    keep_steps: bool = True
    """Keep what the agent did in sessions where you corrected it."""
    steps_mb: Count = 64
    """Most megabytes of these kept steps, compressed; the oldest sessions are deleted first."""
    moment_tokens: Annotated[int, Meta(ge=500, le=100_000)] = 3_000
    """Most tokens of the session before a moment that a replay as text is shown."""
    data_dir: str = ""
    """The folder with this program's data; "" takes the system's usual place."""
    sources: Table = field(default_factory=dict)
    """Options of sources; each adapter checks its own table, here and below."""
    backends: Table = field(default_factory=dict)
    judges: Table = field(default_factory=dict)


Origins = Mapping[str, str]
"""For each setting, where its value came from: "default", the file, a variable, or "flag"."""

_TYPES = typing.get_type_hints(Settings, include_extras=True)


def environment() -> Mapping[str, str]:
    """Return a copy of the process environment."""
    return dict(os.environ)


def settings_path(env: Mapping[str, str]) -> Path:
    """Return the settings file, which need not exist."""
    if named := env.get(FILE_VARIABLE):
        return Path(named)
    import platformdirs  # noqa: PLC0415  half of what `--version` would otherwise cost

    return platformdirs.user_config_path("skillopt-sleep") / "settings.toml"


def load(env: Mapping[str, str], flags: Mapping[str, Json]) -> tuple[Settings, Origins]:
    """Read the settings from the defaults, the file, the environment and ``flags``; the last one counts.

    Raises ``SettingsError`` naming the key or value, where it was found, and what is expected.
    """
    path = settings_path(env)
    layers: list[tuple[str, Mapping[str, object]]] = [
        (f"file {path}", _read_file(path, required=FILE_VARIABLE in env)),
        ("variable", _read_environment(env)),
        ("flag", flags),
    ]
    values: dict[str, object] = {}
    origins = dict.fromkeys(Settings.__struct_fields__, "default")
    for origin, layer in layers:
        for key, value in layer.items():
            where = f"variable {PREFIX}{key.upper()}" if origin == "variable" else origin
            typed = _convert(key, value, where)
            both = key in TABLES and key in values
            values[key] = _merge(cast("Table", values[key]), cast("Table", typed)) if both else typed
            origins[key] = f"{origins[key]}, {where}" if both else where
    return msgspec.convert(values, Settings), origins


def secrets(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values to redact: of variables whose name says secret, unless they are words, numbers or paths."""
    return tuple(value for name, value in env.items() if is_secret_name(name) and is_worth_hiding(value))


def read_named_file(path: Path, what: str) -> bytes | None:
    """Return the bytes of a file that the user named, None for no file; links are followed; ``what`` is for errors.

    Raises ``SettingsError`` for a folder, a FIFO or a device, which might never end, and for what cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb") as file:  # noqa: PTH123  a descriptor, no path
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise SettingsError(f"cannot read {what} {path}: it is a FIFO or a device; name a regular file")
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"cannot read {what} {path}: {error.strerror}") from error


def _merge(under: Table, over: Table) -> Table:
    """Merge the tables of two layers: an option the later layer does not name keeps its value."""
    return {name: under.get(name, {}) | over.get(name, {}) for name in {**under, **over}}


def _convert(key: str, value: object, where: str) -> object:
    """Convert one value to the type of its setting."""
    if key not in _TYPES:
        hint = suggest_name(key, _TYPES)
        raise SettingsError(f"{where}: there is no setting {key!r}{hint} (`skillopt-sleep settings` lists them all)")
    choices = _choices(_TYPES[key])
    canonical, written = value, str(value).strip().lower()
    if written in (old := OLD_SPELLINGS.get(key, {})):
        canonical = old[written]
    elif written in choices:
        canonical = written
    if _TYPES[key] is str and where == "flag" and isinstance(value, int | float):
        canonical = str(value)  # a name that looks like a number
    try:
        typed = msgspec.convert(canonical, _TYPES[key], strict=False)
    except msgspec.ValidationError as error:
        expected = f"expected one of {', '.join(choices)}" if choices else str(error)
        raise SettingsError(f"{where}: {key} = {value!r} cannot be used: {expected}") from None
    if isinstance(typed, float) and not math.isfinite(typed):
        raise SettingsError(f"{where}: {key} = {value!r} cannot be used: expected a finite number")
    return typed


def _choices(kind: object) -> tuple[str, ...]:
    """Return the values of a closed set, none for an open type."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return tuple(str(member.value) for member in kind)
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _read_file(path: Path, *, required: bool) -> dict[str, object]:
    if str(path) == os.devnull:
        return {}
    text = read_named_file(path, "the settings file")
    if text is None:
        if required:
            raise SettingsError(f"there is no settings file {path}, which {FILE_VARIABLE} names")
        return {}
    try:
        return msgspec.toml.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {path} is not valid TOML: {error}; nothing was changed") from error


def _read_environment(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in env.items()
        if name.startswith(PREFIX) and name != FILE_VARIABLE
    }
