"""Shows a task for the Windows Task Scheduler, to be imported by hand: we have never run this program on Windows."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from skillopt_sleep.errors import UsageError
from skillopt_sleep.scheduling.installer import Waking

NAMESPACE = "http://schemas.microsoft.com/windows/2004/02/mit/task"
NEVER_RUN = (
    "this program has never been tried on native Windows, so it schedules nothing there; use WSL, or import the task"
    " that `skillopt-sleep schedule --print --using taskscheduler` shows by hand (schtasks /Create /XML)"
)
FIRST_DAY = "2026-01-01"
"""A task needs a day on which it begins; this one is past."""


@dataclass(frozen=True, slots=True)
class TaskScheduler:
    """``Installer`` that only renders."""

    waking: Waking

    def render(self) -> Mapping[str, str]:
        """Return the definition of the task."""
        task = ET.Element("Task", {"version": "1.2", "xmlns": NAMESPACE})
        _add(task, "RegistrationInfo", {"Description": f"SkillOpt-Sleep, the nightly run. {self.waking.mark}"})
        triggers = ET.SubElement(task, "Triggers")
        for at in self.waking.times:
            trigger = _add(triggers, "CalendarTrigger", {"StartBoundary": f"{FIRST_DAY}T{at:%H:%M}:00"})
            if minutes := int(self.waking.jitter.total_seconds() // 60):
                ET.SubElement(trigger, "RandomDelay").text = f"PT{minutes}M"
            _add(trigger, "ScheduleByDay", {"DaysInterval": "1"})
        settings = {
            "MultipleInstancesPolicy": "IgnoreNew",
            "DisallowStartIfOnBatteries": "false",
            "StopIfGoingOnBatteries": "false",
            "StartWhenAvailable": "true",
            "ExecutionTimeLimit": "PT24H",
            "Priority": "7",
        }
        _add(task, "Settings", settings)
        program, *arguments = self.waking.argv
        actions = ET.SubElement(task, "Actions")
        _add(actions, "Exec", {"Command": program, "Arguments": subprocess.list2cmdline(arguments)})
        ET.indent(task)
        return {f"{self.waking.name}.xml": f'<?xml version="1.0"?>\n{ET.tostring(task, encoding="unicode")}\n'}

    def find_obstacle(self) -> str:
        """Say that it was never tried."""
        return NEVER_RUN

    def install(self) -> Mapping[str, int]:
        """Refuse: raises ``UsageError``."""
        raise UsageError(NEVER_RUN)

    def remove(self, folders: Mapping[str, int]) -> bool:  # noqa: ARG002
        """Do nothing, because nothing is ever installed."""
        return False

    def check(self) -> str:
        """Say that it was never tried."""
        return NEVER_RUN

    def read_environment(self) -> Mapping[str, str]:
        """Return nothing: it was never tried."""
        return {}


def _add(parent: ET.Element, name: str, children: Mapping[str, str]) -> ET.Element:
    element = ET.SubElement(parent, name)
    for child, text in children.items():
        ET.SubElement(element, child).text = text
    return element
