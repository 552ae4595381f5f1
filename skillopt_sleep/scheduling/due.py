"""Decides when a night is due, whether it was run, and which to run now: pure rules over local wall time.

A *due* is one date and one time of day in the local time zone, such as 3:00 on 29 March. It is named by its wall time,
so travelling, daylight saving and clock corrections never give one due two nights. APScheduler's ``CronTrigger`` cannot
promise that: it fires twice on the day clocks go back, may leave out the day they go forward, and cannot look back.
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
"""Attempts of a project that are looked at, so that a clock may be put back by two weeks."""
SCHEDULED = "SKILLOPT_SCHEDULED"
"""The variable that tells a night that the schedule started it."""
MOST_STARTS = 3
"""How often a night that was interrupted is started; after that it waits for the next due."""
LATENESS = timedelta(hours=2)
"""How long after its jitter a due may still be waiting (for other projects, for the machine to wake) before it counts
as missed."""
MISSED_WITHIN = timedelta(days=7)
"""How far back missed nights are reported."""
INTERRUPTED_CODES = frozenset(128 + number for number in (signal.SIGINT, signal.SIGTERM, 1))
"""Exit codes of a night that was told to stop; 1 is SIGHUP, which not every system knows by name."""
DAY = timedelta(days=1)
NOON = timedelta(hours=12)


class Waker(enum.StrEnum):
    """The program that starts us when a night is due; ``DAEMON`` is our own `skillopt-sleep daemon`."""

    SYSTEMD = "systemd"
    LAUNCHD = "launchd"
    TASKSCHEDULER = "taskscheduler"
    CRON = "cron"
    DAEMON = "daemon"


class DayCaps(Struct, frozen=True, kw_only=True):
    """What all projects together may spend from noon to noon; None leaves a cap to the settings."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None


class ScheduledProject(Struct, frozen=True, kw_only=True):
    """One project of a schedule."""

    project: str
    """Absolute path of the folder."""
    since: datetime
    """When it was scheduled; dues up to then are ignored."""
    arguments: tuple[str, ...] = ()
    """The flags of `run` for this project."""
    caps: Caps = Caps()
    """The caps of one night that these flags and the settings amount to."""


class Schedule(Struct, frozen=True, kw_only=True):
    """The nightly runs of one data folder, stored there as ``schedule.json``."""

    schema_version: int = 1
    at: Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "03:00"
    """Local wall time."""
    jitter: Annotated[int, Meta(ge=0, le=720)] = 10
    """Minutes by which a night may begin later."""
    on_battery: bool = False
    """Whether nights may begin while the machine runs on battery."""
    using: Waker = Waker.DAEMON
    environment: dict[str, str] = {}
    """Variables added to the environment of each night, above all the PATH on which the agents are found."""
    lacks: tuple[str, ...] = ()
    """Names of the keys that the user's shell had and the schedule leaves out; never their values."""
    programs: dict[str, str] = {}
    """Each agent's command that the nights start, with the path it had when they were scheduled."""
    day: DayCaps = DayCaps()
    projects: tuple[ScheduledProject, ...] = ()
    folders: dict[str, int] = {}
    """Each installed file, with the number of folders that had to be made for it."""

    @property
    def clock(self) -> time:
        """The time of day of every due."""
        return time.fromisoformat(self.at)

    @property
    def shared_caps(self) -> DayCaps:
        """What the projects may spend together: the caps that were asked for, else the largest cap of any project."""
        caps = [entry.caps for entry in self.projects] or [Caps()]
        return DayCaps(
            calls=self.day.calls or max(cap.calls for cap in caps),
            tokens=self.day.tokens or max(cap.tokens for cap in caps),
            usd=self.day.usd or max(cap.usd for cap in caps),
        )

    def find_project(self, project: str) -> ScheduledProject | None:
        """Return the entry of a project, None when it is not scheduled."""
        return next((entry for entry in self.projects if entry.project == project), None)

    def order_projects(self, due: Due) -> tuple[ScheduledProject, ...]:
        """Return the projects in the order of one night; the first place rotates from day to day."""
        if not self.projects:
            return ()
        first = due.day.toordinal() % len(self.projects)
        return self.projects[first:] + self.projects[:first]


class Due(Struct, frozen=True, kw_only=True):
    """One date on which a night is due."""

    day: date
    label: str
    """The wall time that was asked for, such as ``2026-03-29T02:30``."""
    moment: datetime
    """The same as a moment in UTC."""


class Attempt(Struct, frozen=True, kw_only=True):
    """What became of one due of one project."""

    project: str
    due: str
    """Label of the due."""
    started_at: datetime
    starts: int = 1
    ended_at: datetime | None = None
    code: int | None = None
    """Exit code of the last start, negative for a signal; None while it runs."""
    why: str = ""
    """The last line that a start which failed has printed."""

    @property
    def is_over(self) -> bool:
        """Whether the night of this due is over; false while an interrupted night may be started again."""
        ended = self.code is not None and self.code >= 0 and self.code not in INTERRUPTED_CODES
        return ended or self.starts >= MOST_STARTS


class Step(Struct, frozen=True, kw_only=True):
    """The night to run now."""

    project: ScheduledProject
    due: Due
    before: Attempt | None = None
    """The interrupted attempt at it that is to be resumed."""


class DaemonState(Struct, frozen=True, kw_only=True):
    """What a running daemon reports about itself, stored as ``daemon.json``."""

    pid: int
    since: datetime
    next: datetime | None = None
    """When it will wake for the next due."""
    doing: str = ""
    """The project whose night is running."""
    held: str = ""
    """Why no night may begin now."""
    once: bool = False
    """Whether it was woken by the system and leaves when nothing is due any more."""


class Outlook(Struct, frozen=True, kw_only=True):
    """How the nights of a project are scheduled, as `status` and `doctor` show it; times are local."""

    using: Waker
    at: str
    scheduled: bool
    """False when the schedule holds other projects only."""
    others: int = 0
    """Number of other projects in the schedule."""
    last: Attempt | None = None
    next: datetime | None = None
    waits: bool = False
    """Whether ``next`` has passed and nothing has started the night yet."""
    missed: tuple[str, ...] = ()
    """Labels of the missed dues, the oldest first."""
    problem: str = ""
    """Why the next night will not run, as far as that can be told."""
    daemon: DaemonState | None = None
    held: str = ""
    """Why the night of the latest due has not begun, as the program that attends the schedule noted it."""
    failures: tuple[str, ...] = ()
    """Why the last nights of other scheduled projects failed, a line for each project."""
    clock: str = ""
    """What the dates of the last nights say about the clock of this machine, "" when they agree with it."""


def find_due(day: date, at: time, zone: tzinfo) -> Due:
    """Return the due of a date.

    A time that comes twice (clocks go back) is due the first time; a time that the clocks skip is due when they jump.
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
    """Return the delay of one due, between 0 and ``most``: random over dues, but always the same for one due."""
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
    """Choose the night to run now, None when there is none.

    Only the latest due of each project counts, and only once: it catches up everything that was due before it.
    ``attempts`` holds the known attempts by project and label of the due.
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

    ``active`` holds the moments at which nights were started or at work, by hand or scheduled.
    """
    return tuple(
        due
        for due in list_dues(max(since, now - MISSED_WITHIN), now - jitter - LATENESS, at, zone)
        if not any(due.moment <= moment < find_due(due.day + DAY, at, zone).moment for moment in active)
    )


def get_budget_day(now: datetime, zone: tzinfo) -> str:
    """Return the date of the evening a night belongs to: days of the shared budget go from noon to noon."""
    return (now.astimezone(zone).replace(tzinfo=None) - NOON).date().isoformat()
