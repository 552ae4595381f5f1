"""Reads a training file in the form of the reference: YAML or TOML with a section for each stage.

The reference uses other names: ``optimizer.learning_rate`` is ``edit_budget`` here, ``model.target`` is ``[target]
model``. Settings without a counterpart are listed, so that a run can say what it leaves out. As in the reference, paths
are relative to the working directory, and an empty text means "not set".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from skillopt_sleep.errors import ConfigError
from skillopt_sleep.model import Json

Table = dict[str, Json]

SECTIONS = frozenset({"train", "gradient", "evaluation", "model"})
"""Sections that only the reference's form has."""
SAME = {
    "train": ("num_epochs", "batch_size", "accumulation", "seed"),
    "gradient": ("minibatch_size", "merge_batch_size", "failure_only"),
    "optimizer": (
        "lr_scheduler",
        "slow_update_samples",
        "use_slow_update",
        "use_meta_skill",
        "skill_update_mode",
        "use_skill_aware_reflection",
        "skill_aware_appendix_source",
        "skill_aware_consolidate_threshold",
    ),
    "model": ("rewrite_max_completion_tokens",),
    "evaluation": ("eval_test", "gate_metric", "gate_mixed_weight"),
    "env": ("workers", "out_root"),
}
"""By section, the keys that have the same name here."""
RENAMED = {
    ("optimizer", "learning_rate"): "edit_budget",
    ("optimizer", "min_learning_rate"): "min_edit_budget",
    ("model", "optimizer"): "optimizer.model",
    ("model", "target"): "target.model",
    ("model", "backend"): "target.backend optimizer.backend",
    ("model", "optimizer_backend"): "optimizer.backend",
    ("model", "target_backend"): "target.backend",
    ("model", "azure_openai_endpoint"): "target.base_url optimizer.base_url",
    ("model", "optimizer_azure_openai_endpoint"): "optimizer.base_url",
    ("model", "target_azure_openai_endpoint"): "target.base_url",
    ("model", "azure_openai_api_version"): "target.api_version optimizer.api_version",
    ("model", "codex_exec_path"): "target.command",
    ("model", "claude_code_exec_path"): "target.command",
    ("train", "train_size"): "extras.train_size",
    ("evaluation", "sel_env_num"): "extras.sel_env_num",
    ("evaluation", "test_env_num"): "extras.test_env_num",
    ("env", "skill_init"): "skill",
}
"""By section and key, where the value belongs; a dot stands between a table and its field."""
BACKENDS = {
    "azure_openai": "openai",
    "openai_chat": "openai",
    "openai": "openai",
    "codex": "codex",
    "codex_exec": "codex",
    "claude": "claude",
    "claude_code_exec": "claude",
}
"""The reference's names of backends that also exist here, with the names used here."""
COMMANDS = {"codex_exec_path": "codex", "claude_code_exec_path": "claude"}
"""Keys that hold the program of a backend, with that backend's name."""
CONTROL: Mapping[str, Table] = {
    "fixed": {},
    "autonomous": {"lr_scheduler": "autonomous"},
    "none": {"use_edit_budget": False},
}
"""Ways to control the edit budget, each with what it means here."""
ONLY_OPENAI = ("base_url", "api_version")
"""Options of the ``openai`` backend alone."""


def is_reference_form(table: Mapping[str, Json]) -> bool:
    """Whether a table is in the reference's form."""
    optimizer = table.get("optimizer")
    return not SECTIONS.isdisjoint(table) or (isinstance(optimizer, dict) and "learning_rate" in optimizer)


def merge_sections(under: Mapping[str, Json], over: Mapping[str, Json]) -> Table:
    """Merge two tables key by key, as the reference's ``_base_`` does: an environment keeps inherited options."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        merged[name] = merge_sections(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def translate(given: Mapping[str, Json]) -> tuple[Table, tuple[str, ...]]:
    """Return the same settings as a training file of this program, and the keys that have no counterpart.

    Raises ``ConfigError`` for a backend that does not exist here.
    """
    table: Table = {}
    unknown: list[str] = []
    for section, key, value in _list_settings(given):
        if value is None or value == "":
            continue
        if key in SAME.get(section, ()):
            table[key] = value
        elif places := _find_places(section, key, value, given):
            for place, placed in places.items():
                _put(table, place, placed)
        elif section == "env":
            _put(table, f"env.{key}", value)
        elif places is None:
            unknown.append(f"{section}.{key}" if section else key)
    for role in ("target", "optimizer"):
        options = table.get(role)
        if isinstance(options, dict) and options.get("backend", "openai") != "openai":
            table[role] = {name: option for name, option in options.items() if name not in ONLY_OPENAI}
    return table, tuple(unknown)


def _list_settings(given: Mapping[str, Json]) -> Iterator[tuple[str, str, Json]]:
    """Yield section, key and value; the section of a key at the top is ""."""
    for section, values in given.items():
        if isinstance(values, dict):
            for key, value in values.items():
                yield section, key, value
        else:
            yield "", section, values


def _find_places(section: str, key: str, value: Json, given: Mapping[str, Json]) -> Table | None:
    """Return where a setting belongs, and its value there; {} if it needs no entry, None if it has no counterpart."""
    match section, key:
        case "evaluation", "use_gate":
            return {} if value else {"gate": "off"}
        case "optimizer", "slow_update_gate_with_selection":
            return {"slow_update_gate": "gate" if value else "force"}
        case "optimizer", "lr_control_mode" if str(value) in CONTROL:
            return CONTROL[str(value)]
    places = RENAMED.get((section, key))
    if key in COMMANDS and _get_backend(given) != COMMANDS[key]:
        places = ""
    if places and places.endswith("backend"):
        value = _name_backend(value, f"{section}.{key}")
    return None if places is None else dict.fromkeys(places.split(), value)


def _get_backend(given: Mapping[str, Json]) -> str:
    """Return the name that the target's backend has here; "" if none is named, or an unknown one."""
    model = given.get("model")
    named = (model.get("target_backend") or model.get("backend")) if isinstance(model, dict) else None
    return BACKENDS.get(str(named), "")


def _name_backend(value: Json, where: str) -> str:
    if str(value) not in BACKENDS:
        raise ConfigError(f"{where} is {value!r:.40}; here there are {', '.join(BACKENDS)}")
    return BACKENDS[str(value)]


def _put(table: Table, place: str, value: Json) -> None:
    """Put a value into a table, at a place such as ``seed`` or ``target.model``."""
    name, _, field = place.partition(".")
    if not field:
        table[name] = value
        return
    inner = table.setdefault(name, {})
    if isinstance(inner, dict):
        inner[field] = value
