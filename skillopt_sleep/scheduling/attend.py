"""Attend a schedule: at each look, hold the nights that are due, one after the other.

What is due is decided by ``domain.schedule``; who wakes this up, how often and how late, makes no difference to how
many nights are held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Protocol

from msgspec.structs import replace

from skillopt_sleep.errors import NightRunning, SleepError
from skillopt_sleep.model.ports import Clock
from skillopt_sleep.scheduling.due import Attempt, Schedule, Step, jitter_of, last_due, next_due, next_step

INTERRUPTED = 143
"""Exit code of a night that we ended, whatever it said itself."""


MOST_KNOWN = 14
"""Attempts of a project that are remembered: a clock may be put back by two weeks."""


class Attempts(Protocol):
    """Store: what became of each due. Raises ``DiskError`` only."""

    def known(self, projects: tuple[str, ...]) -> Mapping[tuple[str, str], Attempt]:
        """The latest attempts, by project and label of due."""

    def keep(self, attempt: Attempt) -> None:
        """Keep an attempt, in place of what was known of it."""

    def drop(self, attempt: Attempt) -> None:
        """Forget an attempt: nothing was begun."""

    def finished(self, project: str, since: datetime) -> bool:
        """Whether a night of the project has come to its end since then, whoever ran it."""


class Night(Protocol):
    """Whoever holds a night."""

    def __call__(self, schedule: Schedule, step: Step) -> int:
        """Hold it or go on with it; its exit code, negative when a signal killed it. Raises ``SleepError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The world around: the schedule as it is now, the clock and the zone, what is kept, who holds a night.

    ``hold`` says why no night may begin now, "" when one may. ``say`` is told what happens, ``tell`` how things stand.
    """

    schedule: Callable[[], Schedule | None]
    attempts: Attempts
    night: Night
    clock: Clock
    zone: Callable[[], tzinfo]
    hold: Callable[[Schedule], str]
    say: Callable[[str], None]
    tell: Callable[[datetime | None, str, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quiet:
    """A while in which nothing is due, as long as the schedule and the zone's offset are these."""

    since: datetime
    until: datetime
    schedule: Schedule | None
    offset: timedelta | None


class Attendant:
    """Looks whether a night is due, and holds it. ``salt`` makes the jitter this user's own; ``jitter`` switches it on.

    Raises nothing at a look: what goes wrong is said, once, and tried again at the next one.
    """

    def __init__(self, world: World, *, salt: str, jitter: bool = True) -> None:
        self._world = world
        self._salt = salt
        self._jitter = jitter
        self._known: dict[tuple[str, str], Attempt] = {}
        self._of: tuple[str, ...] | None = None
        self._said = ""
        self._quiet: _Quiet | None = None
        self.stopping = False
        self.code = 0
        """Exit code of the last night that did not end well, 0 when all did."""

    def look(self) -> bool:
        """Hold what is due now; whether something still is, because it may not begin yet or could not be kept."""
        try:
            if self._is_quiet():
                return False
            held = self._attend()
            self._world.tell(self.wake_at(self._world.clock.now()), "", held)
            line = f"a night is due and waits: {held}" if held else ""
        except (SleepError, OSError) as error:
            line = f"no night can be held now, which is tried again in a minute: {error}"
        self._say_once(line)
        return bool(line)

    def _is_quiet(self) -> bool:
        """Whether it is known that nothing is due, without asking: most looks of a year come to this."""
        quiet, now = self._quiet, self._world.clock.now()
        return (
            quiet is not None
            and quiet.since <= now < quiet.until
            and self._world.schedule() is quiet.schedule
            and now.astimezone(self._world.zone()).utcoffset() == quiet.offset
        )

    def wake_at(self, now: datetime) -> datetime | None:
        """When the next night is due, jitter included; None without a schedule."""
        schedule, quiet = self._world.schedule(), self._quiet
        if schedule is None or not schedule.projects:
            return None
        if quiet is not None and quiet.schedule is schedule and quiet.since <= now < quiet.until:
            return quiet.until
        return self._wake_at(schedule, now, self._world.zone())

    def _wake_at(self, schedule: Schedule, now: datetime, zone: tzinfo) -> datetime:
        most = self._most(schedule)
        around = last_due(now, schedule.clock, zone), next_due(now, schedule.clock, zone)
        return next(at for due in around if (at := due.moment + jitter_of(due, most, self._salt)) > now)

    def _most(self, schedule: Schedule) -> timedelta:
        return timedelta(minutes=schedule.jitter) if self._jitter else timedelta(0)

    def _attend(self) -> str:
        """Hold every night that is due; why one could not be begun, "" when none is due any more."""
        while not self.stopping:
            schedule = self._world.schedule()
            if schedule is None:
                return ""
            step = self._step(schedule)
            if step is None:
                return ""
            if reason := self._world.hold(schedule) or self._hold(schedule, step):
                return reason
        return ""

    def _step(self, schedule: Schedule) -> Step | None:
        projects = tuple(each.project for each in schedule.projects)
        if projects != self._of:
            self._known = dict(self._world.attempts.known(projects))
            self._of = projects
        now, zone = self._world.clock.now(), self._world.zone()
        step = next_step(schedule, now, zone, self._known, jitter=self._most(schedule), salt=self._salt)
        self._quiet = None
        if step is None:  # of this schedule at this moment: either may be another one by now
            until, offset = self._wake_at(schedule, now, zone), now.astimezone(zone).utcoffset()
            self._quiet = _Quiet(since=now, until=until, schedule=schedule, offset=offset)
        return step

    def _hold(self, schedule: Schedule, step: Step) -> str:
        """One night; why it could not be begun, "" when it was."""
        world, before = self._world, step.before
        if before is not None and world.attempts.finished(step.project.project, before.started_at):
            self._end(replace(before, ended_at=world.clock.now(), code=0))  # it ended after all, when we had
            return ""
        now = world.clock.now()
        attempt = Attempt(project=step.project.project, due=step.due.label, started_at=now)
        if before is not None:
            attempt = replace(before, starts=before.starts + 1, ended_at=None, code=None)
        world.attempts.keep(attempt)  # what cannot be kept is not begun: it would be begun again and again
        self._know(attempt)
        world.say(f"{'goes on with' if before else 'begins'} the night of {attempt.due}: {attempt.project}")
        world.tell(None, attempt.project, "")
        try:
            code = world.night(schedule, step)
        except SleepError:
            self._undo(attempt, before)
            raise
        if code == NightRunning.exit_code:  # somebody else was quicker; nothing was begun
            self._undo(attempt, before)
            return "another night is running"
        code = INTERRUPTED if self.stopping and code else code
        self.code = abs(code) or self.code
        self._end(replace(attempt, ended_at=world.clock.now(), code=code))
        world.say(f"the night of {attempt.due} ended with {code}: {attempt.project}")
        return ""

    def _end(self, attempt: Attempt) -> None:
        """Know it before it is kept: when it cannot be kept, it still has ended."""
        self._know(attempt)
        self._world.attempts.keep(attempt)

    def _know(self, attempt: Attempt) -> None:
        self._known[attempt.project, attempt.due] = attempt
        while len(self._known) > MOST_KNOWN * max(1, len(self._of or ())):
            del self._known[next(iter(self._known))]

    def _undo(self, attempt: Attempt, before: Attempt | None) -> None:
        if before is not None:
            self._end(before)
            return
        self._known.pop((attempt.project, attempt.due), None)
        self._world.attempts.drop(attempt)

    def _say_once(self, line: str) -> None:
        if line and line != self._said:
            self._world.say(line)
        self._said = line
