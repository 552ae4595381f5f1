"""To whom Codex sends what it is asked: its settings may name another provider, or another address of the same."""

from __future__ import annotations

from collections.abc import Mapping

from skillopt_sleep.domain import Json
from skillopt_sleep.domain.consent import provider_at

__all__ = ["receiver"]

OWN = "openai"
HERE = frozenset({"oss", "ollama", "ollama-chat", "lmstudio"})
"""Providers it knows by itself that run on this machine, unless the environment says otherwise."""
ADDRESS_OF_THOSE = "CODEX_OSS_BASE_URL"


def receiver(config: Mapping[str, Json], env: Mapping[str, str]) -> str:
    """The provider: openai at its own address, else the host; "" for this machine itself.

    ``config``: its settings, a dotted name being one key. A provider without an address that can be found is a
    stranger by its own name.
    """
    profile = config.get("profile")
    chosen = _in_table(config, "profiles", str(profile), "model_provider") if profile else None
    name = str(chosen or config.get("model_provider") or OWN)
    address = _in_table(config, "model_providers", name, "base_url")
    if address is None and name == OWN:
        set_to = (config.get("openai_base_url"), config.get("chatgpt_base_url"), env.get("OPENAI_BASE_URL"))
        found = [provider_at(str(each)) for each in set_to if each]
        return next((each for each in found if each != OWN), OWN)
    if address is None and name in HERE:
        return provider_at(env[ADDRESS_OF_THOSE]) if env.get(ADDRESS_OF_THOSE) else ""
    return name if address is None else provider_at(str(address))


def _in_table(config: Mapping[str, Json], section: str, name: str, field: str) -> Json:
    """A field of a named table, spelled as tables within each other or with dots; None where it is not set."""
    for path in _paths(section, name, field):
        value: Json = dict(config)
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def _paths(section: str, name: str, field: str) -> tuple[tuple[str, ...], ...]:
    """Every way of writing it; a more exact one stands over a less exact one."""
    quoted = f'"{name}"'
    return (
        (f"{section}.{name}.{field}",),
        (f"{section}.{quoted}.{field}",),
        (f"{section}.{name}", field),
        (f"{section}.{quoted}", field),
        (section, name, field),
    )
