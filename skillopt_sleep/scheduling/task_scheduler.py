"""A task of the Windows Task Scheduler, shown for import by hand: this program has never been run on Windows."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from skillopt_sleep.errors import UsageError
from skillopt_sleep.scheduling.installer import Waking

NAMESPACE = "http://schemas.microsoft.com/windows/2004/02/mit/task"
NEVER_RUN = (
    "native Windows has never been tried with this program, so it schedules nothing there: use WSL, or look at"
    " `skillopt-sleep schedule --print --using taskscheduler` and import the task by hand (schtasks /Create /XML)"
)
FIRST_DAY = "2026-01-01"
"""A task must have begun some day; this one is past."""


@dataclass(frozen=True, slots=True)
class TaskScheduler:
    """``Installer`` that only shows."""

    waking: Waking

    def shown(self) -> Mapping[str, str]:
        """The task's definition."""
        task = ET.Element("Task", {"version": "1.2", "xmlns": NAMESPACE})
        _add(task, "RegistrationInfo", {"Description": f"SkillOpt-Sleep, the nightly run. {self.waking.mark}"})
        triggers = ET.SubElement(task, "Triggers")
        for at in self.waking.times:
            trigger = ET.SubElement(triggers, "CalendarTrigger")
            ET.SubElement(trigger, "StartBoundary").text = f"{FIRST_DAY}T{at:%H:%M}:00"
            if minutes := int(self.waking.jitter.total_seconds() // 60):
                ET.SubElement(trigger, "RandomDelay").text = f"PT{minutes}M"
            _add(trigger, "ScheduleByDay", {"DaysInterval": "1"})
        _add(
            task,
            "Settings",
            {
                "MultipleInstancesPolicy": "IgnoreNew",
                "DisallowStartIfOnBatteries": "false",
                "StopIfGoingOnBatteries": "false",
                "StartWhenAvailable": "true",
                "ExecutionTimeLimit": "PT24H",
                "Priority": "7",
            },
        )
        actions = ET.SubElement(task, "Actions")
        program, *arguments = self.waking.argv
        _add(actions, "Exec", {"Command": program, "Arguments": subprocess.list2cmdline(arguments)})
        ET.indent(task)
        return {f"{self.waking.name}.xml": f'<?xml version="1.0"?>\n{ET.tostring(task, encoding="unicode")}\n'}

    def works(self) -> str:
        """Never, as far as anybody knows."""
        return NEVER_RUN

    def install(self) -> Mapping[str, int]:
        """Refuse."""
        raise UsageError(NEVER_RUN)

    def remove(self, folders: Mapping[str, int]) -> bool:  # noqa: ARG002
        """Nothing was installed."""
        return False

    def check(self) -> str:
        """Nothing was installed."""
        return NEVER_RUN


def _add(parent: ET.Element, name: str, children: Mapping[str, str]) -> None:
    element = ET.SubElement(parent, name)
    for child, text in children.items():
        ET.SubElement(element, child).text = text
