"""What the command lines of agents have in common as backends.

The module of each agent holds what differs: its arguments and settings, its login, and how its output is read.
"""

from __future__ import annotations

import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from skillopt_sleep.backends.outcomes import AgentAdvice
from skillopt_sleep.backends.process import Children, Ended
from skillopt_sleep.errors import BackendError, DiskError, NotInstalled, NotLoggedIn, SettingsError, TooLong, TooOld
from skillopt_sleep.model.call import Health
from skillopt_sleep.model.rollout import Ending

T = TypeVar("T")

PROBE_SECONDS = 10.0
"""Deadline of each of two commands, which take a third of a second on an idle machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCli(ABC):
    """The command line of an agent."""

    advice: ClassVar[AgentAdvice]
    install: ClassVar[str]
    """How to install the program."""
    oldest: ClassVar[tuple[int, ...]] = ()
    """The first version that has everything we use."""
    footprint: ClassVar[int]
    """Bytes of memory that one call takes."""

    command: str
    """The program: a name on PATH, or a path."""
    model: str = ""
    """The model to ask; "" = the CLI's default."""
    timeout: float = 180.0
    """Seconds that one call may take."""
    loop_timeout: float = 900.0
    """Seconds that a native replay may take."""
    max_turns: int = 40
    """Requests to the model that a native replay may make."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment of the CLI."""
    record: str = field(default="", repr=False)
    """The folder in which running children are recorded; see ``Children``."""
    _children: Children = field(default_factory=Children, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_children", Children(self.record))

    @property
    def name(self) -> str:
        """The registry name."""
        return self.advice.name

    def probe(self) -> Health:
        """Ask the CLI, offline, whether it is installed, new enough and logged in."""
        version = ""
        try:
            found = re.search(r"\d+\.\d+\.\d+\S*", self._query("--version").stdout)
            version = found[0] if found else ""
            if version and tuple(int(part) for part in re.findall(r"\d+", version)[:3]) < self.oldest:
                oldest = ".".join(map(str, self.oldest))
                detail = f"{self.name} {version} is too old, {oldest} is needed: {self.advice.fixes[TooOld]}"
                return Health(ready=False, version=version, detail=detail)
            logged_in = self._read_login()
        except (BackendError, DiskError, SettingsError) as error:
            return Health(ready=False, version=version, detail=str(error))
        detail = "" if logged_in is not False else f"{self.name} is not logged in: {self.advice.fixes[NotLoggedIn]}"
        return Health(ready=logged_in is not False, version=version, logged_in=logged_in, detail=detail)

    def close(self) -> None:
        """End every child; see ``Backend.close``."""
        self._children.close()

    @abstractmethod
    def _query(self, *arguments: str) -> Ended:
        """Run a command of the CLI that asks no model."""

    @abstractmethod
    def _read_login(self) -> bool | None:
        """Return whether the user is logged in, None when that cannot be told."""

    def _find_program(self) -> str:
        """Return the path of the program. Raises ``NotInstalled``."""
        return find_command(self.command, self.env, install=self.install)


def find_command(command: str, env: Mapping[str, str], *, install: str) -> str:
    """Return the path of a command on the PATH of ``env``. Raises ``NotInstalled`` that says how to ``install`` it."""
    path = shutil.which(command, path=env.get("PATH", ""))
    if path is None:
        raise NotInstalled(f"{command} is not installed, or not on PATH: {install}")
    return path


def read_ending(ended: Ended, read: Callable[[], T], *, worked: int) -> tuple[Ending, T | None]:
    """Return how an agent's work ended, and what ``read`` returns of a run that came to its end.

    ``worked`` counts what the agent was seen to do: one that did nothing was stopped by something else. Raises what
    ``read`` raises, unless that is ``TooLong`` after some work.
    """
    if worked and ended.timed_out and not ended.silent:
        return Ending.OUT_OF_TIME, None
    if worked and ended.flooded:
        return Ending.OUT_OF_ROOM, None
    try:
        return Ending.DONE, read()
    except TooLong:
        if worked > 1:
            return Ending.OUT_OF_ROOM, None
        raise
