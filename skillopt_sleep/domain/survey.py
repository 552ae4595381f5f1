"""What ``doctor`` finds out: whether a night could run, what it would do and cost, and who would see what."""

from __future__ import annotations

from msgspec import Struct

from skillopt_sleep.domain.budget import Caps
from skillopt_sleep.domain.expect import Rehearsal
from skillopt_sleep.domain.insights import Insights
from skillopt_sleep.domain.report import BackendHealth
from skillopt_sleep.domain.schedule import Outlook

__all__ = ["DoctorReport", "SourceFound", "TargetFile"]


class SourceFound(Struct, frozen=True, kw_only=True):
    """One agent's session files on this machine; ``size`` in bytes, ``oldest`` an ISO date or ""."""

    source: str
    files: int
    size: int
    oldest: str = ""


class TargetFile(Struct, frozen=True, kw_only=True):
    """A live file a night may propose to change; ``tracked`` by git means the team will see it."""

    kind: str
    path: str
    exists: bool
    tracked: bool


class DoctorReport(Struct, frozen=True, kw_only=True):
    """Everything ``doctor`` prints."""

    version: str
    python: str
    data_dir: str
    project: str
    scope: str
    sources: tuple[SourceFound, ...]
    targets: tuple[TargetFile, ...]
    backends: tuple[BackendHealth, ...]
    caps: Caps
    rehearsal: Rehearsal
    insights: Insights
    schedule: Outlook | None = None
    problems: tuple[str, ...] = ()
