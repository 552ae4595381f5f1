"""To whom Claude Code sends what it is asked: its environment and the user's own settings may name somebody else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from skillopt_sleep.domain import Json
from skillopt_sleep.domain.consent import provider_at

__all__ = ["receiver"]

OWN = "anthropic"
ADDRESS = "ANTHROPIC_BASE_URL"
CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": ("amazon-bedrock", "ANTHROPIC_BEDROCK_BASE_URL"),
    "CLAUDE_CODE_USE_VERTEX": ("google-vertex", "ANTHROPIC_VERTEX_BASE_URL"),
    "CLAUDE_CODE_USE_FOUNDRY": ("microsoft-foundry", "ANTHROPIC_FOUNDRY_BASE_URL"),
}
"""The switches that send it to a cloud: that one's name, and the variable that names another address instead."""
OFF = frozenset({"", "0", "false", "no", "off"})


class _Settings(Struct, frozen=True, kw_only=True):
    """What the user's settings put into the environment."""

    env: dict[str, Json] = {}


def receiver(env: Mapping[str, str]) -> str:
    """The provider: anthropic at its own address, a cloud by its name, else the host; "" for this machine itself.

    Where the environment and the user's settings disagree, it is the one that is not Anthropic.
    """
    found = [_receiver(each) for each in (_from_settings(env), env)]
    return next((each for each in found if each != OWN), OWN)


def _receiver(env: Mapping[str, str]) -> str:
    for switch, (cloud, address) in CLOUDS.items():
        if env.get(switch, "").strip().lower() not in OFF:
            return provider_at(env[address]) if env.get(address, "").strip() else cloud
    return provider_at(env[ADDRESS]) if env.get(ADDRESS, "").strip() else OWN


def _from_settings(env: Mapping[str, str]) -> dict[str, str]:
    """The environment that the user's own settings ask for; nothing where they cannot be read, as the CLI does."""
    home = env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME") or env.get("USERPROFILE", "")) / ".claude"
    try:
        settings = msgspec.json.decode(Path(home, "settings.json").read_bytes(), type=_Settings)
    except (OSError, msgspec.DecodeError, ValueError):
        return {}
    return {name: str(value) for name, value in settings.env.items()}
