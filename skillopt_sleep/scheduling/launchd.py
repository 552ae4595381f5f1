"""A launchd agent, as macOS has them: it catches up what the machine slept through when it wakes, or at login.

Never run by us on a Mac: what is written is checked against the format only.
"""

from __future__ import annotations

import os
import plistlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt_sleep.errors import UsageError
from skillopt_sleep.scheduling.installer import Waking, call, ours, place, take_away


@dataclass(frozen=True, slots=True)
class Launchd:
    """``Installer`` over ``launchctl``, in the domain of the user's own session."""

    waking: Waking

    @property
    def plist(self) -> Path:
        """The agent's file."""
        return self.waking.home / "Library" / "LaunchAgents" / f"{self.waking.name}.plist"

    @property
    def domain(self) -> str:
        """The user's own session."""
        return f"gui/{os.getuid()}" if hasattr(os, "getuid") else "gui"

    def shown(self) -> Mapping[str, str]:
        """The property list."""
        times = [{"Hour": at.hour, "Minute": at.minute} for at in self.waking.times]
        agent = {
            "Label": self.waking.name,
            "ProgramArguments": list(self.waking.argv),
            "EnvironmentVariables": dict(self.waking.environment),
            "StartCalendarInterval": times if len(times) > 1 else times[0],
            "RunAtLoad": True,
            "ProcessType": "Background",
            "LowPriorityIO": True,
            "ExitTimeOut": 10,
            "StandardOutPath": "/dev/null",
            "StandardErrorPath": "/dev/null",
        }
        return {str(self.plist): plistlib.dumps(agent, sort_keys=False).decode()}

    def works(self) -> str:
        """Whether launchd answers."""
        try:
            done = call(["launchctl", "managername"], self.waking.env)
        except UsageError as error:
            return str(error)
        return "" if done.returncode == 0 else "launchctl does not answer"

    def install(self) -> Mapping[str, int]:
        """Write the agent and load it."""
        files = {Path(path): text.encode() for path, text in self.shown().items()}
        return place(files, self.waking.name, self._load)

    def _load(self) -> None:
        call(["launchctl", "bootout", f"{self.domain}/{self.waking.name}"], self.waking.env)  # if one is loaded
        done = call(["launchctl", "bootstrap", self.domain, str(self.plist)], self.waking.env)
        if done.returncode:
            said = " ".join(done.stderr.decode("utf-8", "replace").split())
            raise UsageError(f"launchctl bootstrap {self.domain} failed: {said}; nothing was scheduled")

    def remove(self, folders: Mapping[str, int]) -> bool:
        """Unload the agent and take its file away."""
        if ours(self.plist, self.waking.name):
            call(["launchctl", "bootout", f"{self.domain}/{self.waking.name}"], self.waking.env)
        return take_away((self.plist,), self.waking.name, folders)

    def check(self) -> str:
        """Whether the agent is there and loaded."""
        if not self.plist.exists():
            return f"{self.plist} is gone: `skillopt-sleep schedule` puts it back"
        try:
            done = call(["launchctl", "print", f"{self.domain}/{self.waking.name}"], self.waking.env)
        except UsageError as error:
            return str(error)
        return f"{self.waking.name} is not loaded: launchctl bootstrap {self.domain} {self.plist}" * bool(
            done.returncode
        )
