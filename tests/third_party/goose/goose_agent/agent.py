"""The agent: its folder, and the files it reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skillopt_sleep.agents import CodingAgent


def find_homes(env: Mapping[str, str]) -> tuple[Path, ...]:
    """``GOOSE_HOME``, else ``~/.goose``."""
    return (Path(env.get("GOOSE_HOME") or Path(env["HOME"]) / ".goose"),)


PLUGIN = CodingAgent(
    name="goose",
    label="Goose",
    source="goose",
    backend="goose",
    provider="flock",
    find_homes=find_homes,
    skills=".goose/skills",
    memory="GOOSE.md",
)
