"""Decides when a night is due, whether it was run, and which to run now: pure rules over local wall time.

A *due* is one date and one time of day in the local time zone, such as 3:00 on 29 March. Its name is its wall time, so
travelling, daylight saving and clock corrections never give one due two nights. APScheduler's ``CronTrigger`` cannot
promise that: it fires twice on the day clocks go back, may skip the day they go forward, and cannot look back.
"""

from __future__ import annotations

import enum
import signal
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Annotated

from msgspec import Meta, Struct

from skillopt_sleep.model.call import Caps

REMEMBERED = 14
"""Number of latest attempts of a project that are read, so that a clock may be put back by two weeks."""
SCHEDULED = "SKILLOPT_SCHEDULED"
"""Name of the environment variable by which a night knows that the schedule started it."""
MOST_STARTS = 3
"""Maximum starts of an interrupted night; after that, it waits for the next due."""
LATENESS = timedelta(hours=2)
"""Time after its jitter for which a due may wait (for other projects, for the machine to wake) before it counts as
missed."""
MISSED_WITHIN = timedelta(days=7)
"""Period before the present time in which missed nights are reported."""
INTERRUPTED_CODES = frozenset(128 + number for number in (signal.SIGINT, signal.SIGTERM, 1))
"""Exit codes of a night that was told to stop; signal 1 is SIGHUP, a name that not every system knows."""
DAY = timedelta(days=1)
NOON = timedelta(hours=12)


class Waker(enum.StrEnum):
    """The program that starts this one when a night is due; ``DAEMON`` is our own `skillopt-sleep daemon`."""

    SYSTEMD = "systemd"
    LAUNCHD = "launchd"
    TASKSCHEDULER = "taskscheduler"
    CRON = "cron"
    DAEMON = "daemon"


class DayCaps(Struct, frozen=True, kw_only=True):
    """The caps on what all projects together may spend from noon to noon; None takes a cap from the settings."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None


class ScheduledProject(Struct, frozen=True, kw_only=True):
    """One project of a schedule."""

    project: str
    """Absolute path of the project folder."""
    since: datetime
    """The time when the project was scheduled; dues up to then are ignored."""
    arguments: tuple[str, ...] = ()
    """The flags of `run` for this project."""
    caps: Caps = Caps()
    """The caps of one night, which follow from these flags and the settings."""


class Schedule(Struct, frozen=True, kw_only=True):
    """The nightly runs of one data folder, stored in that folder as ``schedule.json``."""

    schema_version: int = 1
    at: Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "03:00"
    """The time of day when nights begin, HH:MM in local wall time."""
    jitter: Annotated[int, Meta(ge=0, le=720)] = 10
    """Maximum minutes of the random delay of a night."""
    on_battery: bool = False
    """Whether nights may begin while the machine runs on battery."""
    using: Waker = Waker.DAEMON
    environment: dict[str, str] = {}
    """Variables added to the environment of each night, such as the PATH on which the agents are found."""
    lacks: tuple[str, ...] = ()
    """Names, never values, of key variables that the user's shell had and that the schedule leaves out."""
    programs: dict[str, str] = {}
    """The commands of agents that the nights start, each with its path when the nights were scheduled."""
    day: DayCaps = DayCaps()
    projects: tuple[ScheduledProject, ...] = ()
    folders: dict[str, int] = {}
    """Each installed file with the number of folders that were made for it."""

    @property
    def clock(self) -> time:
        """The time of day of every due."""
        return time.fromisoformat(self.at)

    @property
    def shared_caps(self) -> DayCaps:
        """The caps for all projects together: those that the user asked for, or else the largest cap of any project."""
        caps = [entry.caps for entry in self.projects] or [Caps()]
        return DayCaps(
            calls=self.day.calls or max(cap.calls for cap in caps),
            tokens=self.day.tokens or max(cap.tokens for cap in caps),
            usd=self.day.usd or max(cap.usd for cap in caps),
        )

    def find_project(self, project: str) -> ScheduledProject | None:
        """Return the entry of a project, or None when the project is not scheduled."""
        return next((entry for entry in self.projects if entry.project == project), None)

    def order_projects(self, due: Due) -> tuple[ScheduledProject, ...]:
        """Return the projects in the order of one night; another project is first each day."""
        if not self.projects:
            return ()
        first = due.day.toordinal() % len(self.projects)
        return self.projects[first:] + self.projects[:first]


class Due(Struct, frozen=True, kw_only=True):
    """The time of one date at which a night is due."""

    day: date
    label: str
    """The wall time at which the night is due, such as ``2026-03-29T02:30``."""
    moment: datetime
    """The time in UTC at which the night is due."""


class Attempt(Struct, frozen=True, kw_only=True):
    """The attempt at the night of one due of one project."""

    project: str
    due: str
    """The label of the due."""
    started_at: datetime
    starts: int = 1
    ended_at: datetime | None = None
    code: int | None = None
    """Exit code of the last start, negative for a signal, or None while it runs."""
    why: str = ""
    """The last line that a failed start printed."""

    @property
    def is_over(self) -> bool:
        """Whether the night of this due is over; False while an interrupted night may be started again."""
        ended = self.code is not None and self.code >= 0 and self.code not in INTERRUPTED_CODES
        return ended or self.starts >= MOST_STARTS


class Step(Struct, frozen=True, kw_only=True):
    """The night to run now."""

    project: ScheduledProject
    due: Due
    before: Attempt | None = None
    """The interrupted attempt at this night that is to be resumed, or None."""


class DaemonState(Struct, frozen=True, kw_only=True):
    """The state that a running daemon publishes about itself, stored as ``daemon.json``."""

    pid: int
    since: datetime
    next: datetime | None = None
    """The time at which the daemon starts the next night."""
    doing: str = ""
    """The project whose night is running, or ""."""
    held: str = ""
    """The reason why no night may begin now, or ""."""
    once: bool = False
    """Whether the system started the daemon, which then ends when no night is due any more."""


class Outlook(Struct, frozen=True, kw_only=True):
    """The scheduled nights of a project, as `status` and `doctor` show them; times are local."""

    using: Waker
    at: str
    scheduled: bool
    """Whether this project is in the schedule, which may consist of other projects only."""
    others: int = 0
    """Number of other projects in the schedule."""
    last: Attempt | None = None
    next: datetime | None = None
    waits: bool = False
    """Whether the time ``next`` has passed without a start of the night."""
    missed: tuple[str, ...] = ()
    """Labels of the dues without a night, the oldest first."""
    problem: str = ""
    """The reason why the next night will not run, as far as it can be known, or ""."""
    daemon: DaemonState | None = None
    held: str = ""
    """The reason why the night of the latest due has not begun, as the program that runs the nights noted it, or ""."""
    failures: tuple[str, ...] = ()
    """For each other scheduled project whose last nights failed, one line with the reason."""
    clock: str = ""
    """A note that the dates of the last nights contradict this machine's clock, or "" when they agree."""


def find_due(day: date, at: time, zone: tzinfo) -> Due:
    """Return the due of a date.

    A time that occurs twice (clocks go back) is due the first time; a time that clocks skip is due when they jump.
    """
    wall = datetime.combine(day, at, tzinfo=zone)
    moment = wall.astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) != wall.replace(tzinfo=None):
        # PEP 495: around a gap, fold=0 lies after the jump and fold=1 before it
        before = wall.replace(fold=1)
        first, last = int(before.astimezone(UTC).timestamp()), int(moment.timestamp())

        def offset(second: int) -> timedelta:
            return datetime.fromtimestamp(second, tz=zone).utcoffset() or timedelta(0)

        jump = bisect_left(range(first, last), offset(last), key=offset)
        moment = datetime.fromtimestamp(first + jump, tz=UTC)
    return Due(day=day, label=f"{day.isoformat()}T{at:%H:%M}", moment=moment)


def find_last_due(now: datetime, at: time, zone: tzinfo) -> Due:
    """Return the latest due that is not in the future."""
    today = now.astimezone(zone).date()
    return next(due for days in (1, 0, -1, -2) if (due := find_due(today + days * DAY, at, zone)).moment <= now)


def find_next_due(now: datetime, at: time, zone: tzinfo) -> Due:
    """Return the first due that is in the future."""
    return find_due(find_last_due(now, at, zone).day + DAY, at, zone)


def list_dues(since: datetime, until: datetime, at: time, zone: tzinfo) -> Iterator[Due]:
    """Yield every due after ``since`` up to ``until``, the oldest first."""
    due = find_next_due(since, at, zone)
    while due.moment <= until:
        yield due
        due = find_due(due.day + DAY, at, zone)


def draw_jitter(due: Due, most: timedelta, salt: str) -> timedelta:
    """Return the delay of one due, between 0 and ``most``: random among dues, but always the same for one due."""
    drawn = zlib.crc32(f"{salt}\n{due.label}".encode("utf-8", "surrogateescape"))
    return timedelta(seconds=int(most.total_seconds() * drawn / 2**32))


def choose_step(
    schedule: Schedule,
    now: datetime,
    zone: tzinfo,
    attempts: Mapping[tuple[str, str], Attempt],
    *,
    jitter: timedelta = timedelta(0),
    salt: str = "",
) -> Step | None:
    """Return the night to run now, or None when there is none.

    Only the latest due of each project counts, and only once: its night replaces all nights missed before it.
    ``attempts`` are the known attempts by project and label of the due.
    """
    due = find_last_due(now, schedule.clock, zone)
    if due.moment + draw_jitter(due, jitter, salt) > now:
        return None
    for entry in schedule.order_projects(due):
        if due.moment <= entry.since <= now:  # ``since`` in the future: the clock was wrong then; do not wait for it
            continue
        before = attempts.get((entry.project, due.label))
        if before is None or not before.is_over:
            return Step(project=entry, due=due, before=before)
    return None


def find_missed_dues(
    since: datetime,
    now: datetime,
    at: time,
    zone: tzinfo,
    *,
    active: Sequence[datetime],
    jitter: timedelta = timedelta(0),
) -> tuple[Due, ...]:
    """Return the dues of the last days for which no night ran before the next due.

    ``active`` are the times at which nights were started or running, by hand or scheduled.
    """
    return tuple(
        due
        for due in list_dues(max(since, now - MISSED_WITHIN), now - jitter - LATENESS, at, zone)
        if not any(due.moment <= moment < find_due(due.day + DAY, at, zone).moment for moment in active)
    )


def get_budget_day(now: datetime, zone: tzinfo) -> str:
    """Return the date of the evening to which a night belongs: days of the shared budget go from noon to noon."""
    return (now.astimezone(zone).replace(tzinfo=None) - NOON).date().isoformat()
