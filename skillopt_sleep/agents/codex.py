"""Codex as a coding agent: its folder, skill and memory files, source, backend and plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skillopt_sleep.agents import AgentPlugin, CodingAgent


def find_homes(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folder that ``CODEX_HOME`` names, or ``~/.codex`` when it is not set."""
    return (Path(env.get("CODEX_HOME") or Path(env.get("HOME") or Path.home()) / ".codex"),)


CODEX = CodingAgent(
    name="codex",
    label="Codex",
    source="codex",
    backend="codex",
    provider="openai",
    find_homes=find_homes,
    skills=".agents/skills",
    memory="AGENTS.md",
    variables=("CODEX_HOME",),
    plugin=AgentPlugin(
        install="add",
        uninstall="remove",
        records=("config.toml",),
        market_record="[marketplaces.skillopt-sleep]",
        skill="codex/skills/skillopt-sleep",
        greeting="in Codex, say: $skillopt-sleep status (trust the hook it asks about, and it tells you what waits)",
    ),
)
PLUGIN = CODEX
