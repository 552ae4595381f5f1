"""Prepare: for replays in copies of the project, each task gets its commit and the checks the user approved."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.assignment import ReplayMode
from skillopt_sleep.domain.report import NightReport
from skillopt_sleep.domain.task import CommandReference, TaskRecord
from skillopt_sleep.night.gather import Gathered
from skillopt_sleep.optimize.replay import Manner

__all__ = ["Prepared", "prepare"]


class Prepared(Struct, frozen=True, kw_only=True):
    """Tonight's tasks as they will be replayed. ``checked`` counts those that a command will score."""

    tasks: tuple[TaskRecord, ...] = ()
    checked: int = 0
    notes: tuple[str, ...] = ()

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        return replace(report, notes=(*report.notes, *self.notes))


def prepare(gathered: Gathered, manner: Manner, commit_of: Callable[[TaskRecord], str]) -> Prepared:
    """Give each task the state of the project it is replayed in, and where its session ran an approved command, that.

    A task of a state that git does not know is left out, and said to be. In other modes the tasks stay as they are.
    """
    if manner.mode is not ReplayMode.WORKTREE:
        return Prepared(tasks=gathered.tasks)
    tasks = [replace(_checked(task, manner), commit=commit_of(task)) for task in gathered.tasks]
    known = tuple(task for task in tasks if task.commit)
    checked = sum(isinstance(task.reference, CommandReference) for task in known)
    notes = [f"replayed in throwaway copies of the project; your commands score {checked} of {len(known)} tasks"]
    if lost := len(tasks) - len(known):
        notes.append(f"{lost} tasks were left out: git knows no state of the project for them")
    return Prepared(tasks=known, checked=checked, notes=tuple(notes))


def _checked(task: TaskRecord, manner: Manner) -> TaskRecord:
    """The task scored by those of its commands that were approved, where there are any."""
    approved = {each.line for each in manner.approved}
    lines = tuple(line for line in task.commands if line in approved)
    return replace(task, reference=CommandReference(commands=lines)) if lines else task
