"""When a night is due, whether one was held, and what is to be done now: pure rules over local wall time.

A *due* is one date and time of day in the local time zone, such as 3:00 of 29 March. It is named by what the clock on
the wall shows, so that travelling, daylight saving and clocks that are put right never make two nights of one due.
"""

from __future__ import annotations

import enum
import signal
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Annotated

from msgspec import Meta, Struct

from skillopt_sleep.model.call import Caps

MOST_STARTS = 3
"""A night that was cut short is started again at most until then; later it waits for its next due."""
LATENESS = timedelta(hours=2)
"""That long after its jitter a night that nobody has begun is missed: other projects and waking take their time."""
MISSED_WITHIN = timedelta(days=7)
"""Missed nights older than that are not told any more."""
CUT_SHORT = frozenset(128 + number for number in (signal.SIGINT, signal.SIGTERM, 1))
"""Exit codes of a night that was told to stop; 1 is SIGHUP, which not every system has by name."""
NOON = timedelta(hours=12)


class Waker(enum.StrEnum):
    """Who wakes the program when a night is due. ``daemon``: nobody but `skillopt-sleep daemon`, kept running."""

    SYSTEMD = "systemd"
    LAUNCHD = "launchd"
    TASKSCHEDULER = "taskscheduler"
    CRON = "cron"
    DAEMON = "daemon"


class DayCaps(Struct, frozen=True, kw_only=True):
    """What all projects together may spend from noon to noon; None leaves it to the settings."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None


class ScheduledProject(Struct, frozen=True, kw_only=True):
    """One project of a schedule: an absolute folder, the flags of ``run`` for it, and the caps these come to.

    What was due up to ``since``, when it was scheduled, is no concern of it.
    """

    project: str
    since: datetime
    arguments: tuple[str, ...] = ()
    caps: Caps = Caps()


class Schedule(Struct, frozen=True, kw_only=True):
    """The nightly run of one user's data folder; ``schedule.json`` in it.

    ``at`` is local wall time; ``jitter`` the minutes by which a night may begin later; ``environment`` is what the
    nights are given over that of whoever wakes them, first of all the PATH of the agent CLIs. ``folders`` counts, by
    file that was installed, the folders that had to be made for it.
    """

    schema_version: int = 1
    at: Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "03:00"
    jitter: Annotated[int, Meta(ge=0, le=720)] = 10
    on_battery: bool = False
    using: Waker = Waker.DAEMON
    environment: dict[str, str] = {}
    day: DayCaps = DayCaps()
    projects: tuple[ScheduledProject, ...] = ()
    folders: dict[str, int] = {}

    @property
    def clock(self) -> time:
        """The time of day."""
        return time.fromisoformat(self.at)

    @property
    def shared(self) -> DayCaps:
        """What its projects may spend together: what was asked for, else the largest cap of any of them."""
        caps = [each.caps for each in self.projects] or [Caps()]
        return DayCaps(
            calls=self.day.calls or max(each.calls for each in caps),
            tokens=self.day.tokens or max(each.tokens for each in caps),
            usd=self.day.usd or max(each.usd for each in caps),
        )

    def of(self, project: str) -> ScheduledProject | None:
        """The entry of a project, None when it is not scheduled."""
        return next((each for each in self.projects if each.project == project), None)

    def turns(self, due: Due) -> tuple[ScheduledProject, ...]:
        """The projects in the order of that night: each day another one is first, so that no one always comes last."""
        if not self.projects:
            return ()
        first = due.day.toordinal() % len(self.projects)
        return self.projects[first:] + self.projects[:first]


class Due(Struct, frozen=True, kw_only=True):
    """A night that is due: ``label`` is the wall time asked for, ``moment`` when that is, in UTC."""

    day: date
    label: str
    moment: datetime


class Attempt(Struct, frozen=True, kw_only=True):
    """What became of one due of a project. ``code`` is the exit code of the last start, None as long as it runs."""

    project: str
    due: str
    started_at: datetime
    starts: int = 1
    ended_at: datetime | None = None
    code: int | None = None

    @property
    def over(self) -> bool:
        """Whether the due has had its night; not if that was told to stop, was killed, or we were while it ran."""
        ended = self.code is not None and self.code >= 0 and self.code not in CUT_SHORT
        return ended or self.starts >= MOST_STARTS


class Step(Struct, frozen=True, kw_only=True):
    """What is to be done now: a night of that project; ``before`` is the attempt at it that was cut short."""

    project: ScheduledProject
    due: Due
    before: Attempt | None = None


class DaemonState(Struct, frozen=True, kw_only=True):
    """What the daemon says of itself. ``doing`` is the project whose night runs, ``held`` why none may.

    ``once``: the system woke it, and it leaves when nothing is due any more.
    """

    pid: int
    since: datetime
    next: datetime | None = None
    doing: str = ""
    held: str = ""
    once: bool = False


class Outlook(Struct, frozen=True, kw_only=True):
    """How the nights of a project are scheduled: who wakes, the last attempt, the next due, what was missed.

    Moments are in local time.

    ``scheduled`` is false when the schedule has ``others`` only. ``missed`` are labels of dues, the oldest first.
    ``problem`` says why the next one will not be held, as far as that can be seen. ``waits``: ``next`` has come
    already, and nothing has woken for it.
    """

    using: Waker
    at: str
    scheduled: bool
    others: int = 0
    last: Attempt | None = None
    next: datetime | None = None
    waits: bool = False
    missed: tuple[str, ...] = ()
    problem: str = ""
    daemon: DaemonState | None = None


def due_on(day: date, at: time, zone: tzinfo) -> Due:
    """What is due on a date: at the first of two equal wall times; at the end of the gap where clocks skip it."""
    wall = datetime.combine(day, at, tzinfo=zone)
    moment = wall.replace(fold=0).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) != wall.replace(tzinfo=None):
        moment = _end_of_gap(wall, zone)
    return Due(day=day, label=f"{day.isoformat()}T{at:%H:%M}", moment=moment)


def _end_of_gap(wall: datetime, zone: tzinfo) -> datetime:
    """The moment the clocks were put forward, over a wall time that they skipped; to the second."""
    later, sooner = (int(wall.replace(fold=fold).astimezone(UTC).timestamp()) for fold in (0, 1))
    after = wall.replace(fold=1).utcoffset()
    while later - sooner > 1:
        middle = (later + sooner) // 2
        if datetime.fromtimestamp(middle, tz=zone).utcoffset() == after:
            later = middle
        else:
            sooner = middle
    return datetime.fromtimestamp(later, tz=UTC)


def last_due(now: datetime, at: time, zone: tzinfo) -> Due:
    """The latest due that is not in the future."""
    today = now.astimezone(zone).date()
    around = (due_on(today - timedelta(days=back), at, zone) for back in (-1, 0, 1, 2))
    return next(due for due in around if due.moment <= now)


def next_due(now: datetime, at: time, zone: tzinfo) -> Due:
    """The first due that is in the future."""
    today = now.astimezone(zone).date()
    around = (due_on(today + timedelta(days=ahead), at, zone) for ahead in (-1, 0, 1, 2))
    return next(due for due in around if due.moment > now)


def dues(since: datetime, until: datetime, at: time, zone: tzinfo) -> Iterator[Due]:
    """Every due after ``since`` up to ``until``, the oldest first."""
    due = next_due(since, at, zone)
    while due.moment <= until:
        yield due
        due = due_on(due.day + timedelta(days=1), at, zone)


def jitter_of(due: Due, most: timedelta, salt: str) -> timedelta:
    """By how much a night begins later: drawn anew for each due, the same whenever it is asked for."""
    drawn = zlib.crc32(f"{salt}\n{due.label}".encode("utf-8", "surrogateescape"))
    return timedelta(seconds=int(most.total_seconds() * drawn / 2**32))


def next_step(
    schedule: Schedule,
    now: datetime,
    zone: tzinfo,
    attempts: Mapping[tuple[str, str], Attempt],
    *,
    jitter: timedelta = timedelta(0),
    salt: str = "",
) -> Step | None:
    """The next night to hold now, None when there is none: of each project the latest due only, and that once.

    Whatever was due before the latest is caught up by it. ``attempts`` are those known, by project and label of due.
    """
    due = last_due(now, schedule.clock, zone)
    if due.moment + jitter_of(due, jitter, salt) > now:
        return None
    for each in schedule.turns(due):
        if due.moment <= each.since <= now:  # a clock that was wrong when it was scheduled must not silence it
            continue
        before = attempts.get((each.project, due.label))
        if before is None or not before.over:
            return Step(project=each, due=due, before=before)
    return None


def missed(
    since: datetime,
    now: datetime,
    at: time,
    zone: tzinfo,
    *,
    active: Sequence[datetime],
    jitter: timedelta = timedelta(0),
) -> tuple[Due, ...]:
    """The dues of the last days in whose time no night was begun or gone on with; ``active`` are the moments of those.

    The time of a due lasts until the next one: whoever catches up within it has missed nothing. ``jitter`` is by how
    much a night may begin later.
    """
    late = [*dues(max(since, now - MISSED_WITHIN), now - jitter - LATENESS, at, zone)]
    return tuple(
        due
        for due in late
        if not any(due.moment <= each < due_on(due.day + timedelta(days=1), at, zone).moment for each in active)
    )


def day_of(now: datetime, zone: tzinfo) -> str:
    """The date whose evening a night belongs to, which is the same before and after midnight: noon to noon."""
    return (now.astimezone(zone).replace(tzinfo=None) - NOON).date().isoformat()
