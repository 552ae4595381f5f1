"""Trees of made-up session files of any size, with what a reader must find in each: for benchmarks and for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from skillopt_sleep.model.session import Command
from tests.benchmarks.claude_corpus import ClaudeScript
from tests.benchmarks.codex_corpus import CodexScript
from tests.benchmarks.material import Material


class SessionTruth(Struct, frozen=True, kw_only=True):
    """What one file holds: the prompts a person typed and the commands the agent ran, in order."""

    prompts: tuple[str, ...]
    commands: tuple[Command, ...]


class CorpusTruth(Struct, frozen=True, kw_only=True):
    """What was written; ``sessions`` by path, ``size`` in bytes."""

    sessions: dict[str, SessionTruth]
    size: int


class Script(Protocol):
    """One session file in the making."""

    prompts: list[str]
    commands: list[Command]

    @property
    def name(self) -> str:
        """The path below the home."""

    def lines(self) -> Iterator[bytes]:
        """The whole file, line by line."""


def write_claude_corpus(root: Path, *, megabytes: float, seed: int) -> CorpusTruth:
    """Fill ``root`` as a home of Claude Code with sessions, until they are at least ``megabytes`` together."""
    return _write(root, megabytes, Material(seed), ClaudeScript)


def write_codex_corpus(root: Path, *, megabytes: float, seed: int) -> CorpusTruth:
    """Fill ``root`` as a home of Codex with rollouts, until they are at least ``megabytes`` together."""
    return _write(root, megabytes, Material(seed), CodexScript)


def _write(root: Path, megabytes: float, material: Material, script_of: Callable[[Material], Script]) -> CorpusTruth:
    sessions: dict[str, SessionTruth] = {}
    size = 0
    while size < megabytes * 1e6:
        script = script_of(material)
        path = root / script.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for line in script.lines():
                size += file.write(line) + file.write(b"\n")
        sessions[str(path)] = SessionTruth(prompts=tuple(script.prompts), commands=tuple(script.commands))
    return CorpusTruth(sessions=sessions, size=size)
