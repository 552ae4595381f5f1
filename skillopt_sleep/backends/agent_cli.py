"""The base class of backends that run the command line of an agent.

The module of each agent adds what differs: arguments and settings, login, and how its output is read.
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
"""Time limit in seconds of each of the two commands of a probe, which take 0.3 s on an idle machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCli(ABC):
    """A backend that runs the command line of an agent."""

    advice: ClassVar[AgentAdvice]
    install: ClassVar[str]
    """Instruction for the user that says how to install the program."""
    oldest: ClassVar[tuple[int, ...]] = ()
    """The first version that has everything this program uses; () accepts every version."""
    footprint: ClassVar[int]
    """Memory that one call needs, in bytes."""

    command: str
    """The program: a name on PATH, or a path."""
    model: str = ""
    """Name of the model that answers; "" means the CLI's default."""
    timeout: float = 180.0
    """Time limit of one call, in seconds."""
    loop_timeout: float = 900.0
    """Time limit of a native replay, in seconds."""
    max_turns: int = 40
    """Maximum number of requests to the model in a native replay."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment variables from which the CLI's environment is chosen."""
    record: str = field(default="", repr=False)
    """The folder in which running child processes are recorded (see ``Children``); "" records none."""
    _children: Children = field(default_factory=Children, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_children", Children(self.record))

    @property
    def name(self) -> str:
        """The name of the backend in the registry."""
        return self.advice.name

    def probe(self) -> Health:
        """Return whether the CLI is installed, new enough and logged in, found out without a model call."""
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
        """End every child process; see ``Backend.close``."""
        self._children.close()

    @abstractmethod
    def _query(self, *arguments: str) -> Ended:
        """Run a command of the CLI that calls no model, and return how it ended."""

    @abstractmethod
    def _read_login(self) -> bool | None:
        """Return whether the user is logged in, or None when that cannot be told."""

    def _find_program(self) -> str:
        """Return the path of the program. Raises ``NotInstalled``."""
        return find_command(self.command, self.env, install=self.install)


def find_command(command: str, env: Mapping[str, str], *, install: str) -> str:
    """Return the path of a command on the PATH of ``env``. Raises ``NotInstalled``, saying how to ``install`` it."""
    path = shutil.which(command, path=env.get("PATH", ""))
    if path is None:
        raise NotInstalled(f"{command} is not installed, or not on PATH: {install}")
    return path


def read_ending(ended: Ended, read: Callable[[], T], *, worked: int) -> tuple[Ending, T | None]:
    """Return how an agent's work ended and, for a completed run, what ``read`` returns.

    ``worked`` counts what the agent was seen to do; if that is nothing, something else ended the run. Raises what
    ``read`` raises, except ``TooLong`` after more than one step of work.
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
