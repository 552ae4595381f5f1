"""Runs the due nights of a schedule, one after the other.

The module ``due`` decides which nights are due. Who starts the attendant, how often and how late, does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Protocol

from msgspec.structs import replace

from skillopt_sleep.errors import NightRunning, SleepError
from skillopt_sleep.model.ports import Clock
from skillopt_sleep.scheduling.due import (
    REMEMBERED,
    Attempt,
    Schedule,
    Step,
    choose_step,
    draw_jitter,
    find_last_due,
    find_next_due,
)

STOPPED = 143
"""Exit code recorded for a night that this program stopped, whatever exit code the night had."""
BUSY = "another night is running"
"""The reason why a night has to wait while another night is running."""


class Attempts(Protocol):
    """Stores the attempts at the night of each due date. Every method raises ``DiskError`` only."""

    def known(self, projects: tuple[str, ...]) -> Mapping[tuple[str, str], Attempt]:
        """Return the latest attempts, by project and label of the due date."""

    def keep(self, attempt: Attempt) -> None:
        """Store an attempt in place of an earlier attempt at the same night."""

    def drop(self, attempt: Attempt) -> None:
        """Delete an attempt whose night was never started."""

    def note(self, project: str, due: str, why: str) -> None:
        """Store why a night that is due has not begun yet."""

    def has_finished_night(self, project: str, since: datetime) -> bool:
        """Tell whether a night of the project that began after ``since`` has finished, whoever ran it."""


class RunNight(Protocol):
    """A function that runs one night."""

    def __call__(self, schedule: Schedule, step: Step) -> int:
        """Start or resume a night; return its exit code, negative for a signal. Raises ``SleepError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that an ``Attendant`` uses from outside: the schedule, the clock, the log and others."""

    schedule: Callable[[], Schedule | None]
    """Reads the present schedule; returns the same object as long as the schedule has not changed."""
    attempts: Attempts
    run_night: RunNight
    clock: Clock
    zone: Callable[[], tzinfo]
    """Returns the present time zone of this machine."""
    find_obstacle: Callable[[Schedule], str]
    """Returns why no night may begin now, or "" when one may."""
    log: Callable[[str], None]
    """Writes one line to the log for people."""
    publish: Callable[[datetime | None, str, str], None]
    """Publishes the state: the next time of waking, the project whose night runs, and why a due night waits."""
    read_last_words: Callable[[], str] = str
    """Returns the last line that the latest night printed as an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quiet:
    """A period in which no night is due, as long as the schedule and the time zone's offset stay the same."""

    since: datetime
    until: datetime
    schedule: Schedule | None
    offset: timedelta | None


class Attendant:
    """Checks whether a night is due, and runs it.

    ``salt`` makes the random delay different for each user; ``jitter`` switches the delay on. A check raises nothing:
    an error is logged once, and the next check tries again.
    """

    def __init__(self, world: World, *, salt: str, jitter: bool = True) -> None:
        self._world = world
        self._salt = salt
        self._jitter = jitter
        self._known: dict[tuple[str, str], Attempt] = {}
        self._known_projects: tuple[str, ...] | None = None
        self._last_line = ""
        self._quiet: _Quiet | None = None
        self._noted: tuple[str, str, str] | None = None
        self.stopping = False
        self.code = 0
        """Exit code of the last night that failed, or 0 when none did."""

    def look(self) -> bool:
        """Run the due nights; return whether one is still due, because it may not begin yet or an error occurred."""
        try:
            if self._is_quiet():
                return False
            reason = self._run_due_nights()
            self._world.publish(self.find_wake_time(self._world.clock.now()), "", reason)
            line = f"a night is due and waits: {reason}" if reason else ""
        except (SleepError, OSError) as error:
            line = f"no night can run now (trying again in a minute): {error}"
        if line and line != self._last_line:
            self._world.log(line)
        self._last_line = line
        return bool(line)

    def find_wake_time(self, now: datetime) -> datetime | None:
        """Return when the next night begins, its random delay included, or None when nothing is scheduled."""
        schedule, quiet = self._world.schedule(), self._quiet
        if schedule is None or not schedule.projects:
            return None
        if quiet is not None and quiet.schedule is schedule and quiet.since <= now < quiet.until:
            return quiet.until
        return self._compute_wake_time(schedule, now, self._world.zone())

    def _is_quiet(self) -> bool:
        """Tell whether no night can be due, without a query to the database; this is so at nearly every check."""
        quiet, now = self._quiet, self._world.clock.now()
        return (
            quiet is not None
            and quiet.since <= now < quiet.until
            and self._world.schedule() is quiet.schedule
            and now.astimezone(self._world.zone()).utcoffset() == quiet.offset
        )

    def _compute_wake_time(self, schedule: Schedule, now: datetime, zone: tzinfo) -> datetime:
        most = self._get_max_jitter(schedule)
        around = find_last_due(now, schedule.clock, zone), find_next_due(now, schedule.clock, zone)
        return next(at for due in around if (at := due.moment + draw_jitter(due, most, self._salt)) > now)

    def _get_max_jitter(self, schedule: Schedule) -> timedelta:
        return timedelta(minutes=schedule.jitter) if self._jitter else timedelta(0)

    def _run_due_nights(self) -> str:
        """Run every night that is due; return why a due night could not begin, or "" when none is left."""
        while not self.stopping:
            schedule = self._world.schedule()
            step = self._choose_step(schedule) if schedule is not None else None
            if schedule is None or step is None:
                return ""
            if reason := self._world.find_obstacle(schedule) or self._run_night(schedule, step):
                self._note(step, reason)
                return reason
        return ""

    def _choose_step(self, schedule: Schedule) -> Step | None:
        projects = tuple(entry.project for entry in schedule.projects)
        if projects != self._known_projects:
            self._known = dict(self._world.attempts.known(projects))
            self._known_projects = projects
        now, zone = self._world.clock.now(), self._world.zone()
        step = choose_step(schedule, now, zone, self._known, jitter=self._get_max_jitter(schedule), salt=self._salt)
        self._quiet = None
        if step is None:
            until, offset = self._compute_wake_time(schedule, now, zone), now.astimezone(zone).utcoffset()
            self._quiet = _Quiet(since=now, until=until, schedule=schedule, offset=offset)
        return step

    def _run_night(self, schedule: Schedule, step: Step) -> str:
        """Run one night; return why it could not begin, or "" when it did."""
        world, before = self._world, step.before
        if before is not None and world.attempts.has_finished_night(step.project.project, before.started_at):
            self._record_end(replace(before, ended_at=world.clock.now(), code=0))  # it outlived the daemon
            return ""
        attempt = Attempt(project=step.project.project, due=step.due.label, started_at=world.clock.now())
        if before is not None:
            attempt = replace(before, starts=before.starts + 1, ended_at=None, code=None)
        world.attempts.keep(attempt)  # first: a night that cannot be recorded would be started again and again
        self._remember(attempt)
        world.log(f"{'resumes' if before else 'starts'} the night of {attempt.due}: {attempt.project}")
        world.publish(None, attempt.project, "")
        try:
            code = world.run_night(schedule, step)
        except SleepError:
            self._undo(attempt, before)
            raise
        if code == NightRunning.exit_code:  # another process was quicker; nothing was started
            self._undo(attempt, before)
            return BUSY
        code = STOPPED if self.stopping and code else code
        self.code = abs(code) or self.code
        why = world.read_last_words() if code else ""
        self._record_end(replace(attempt, ended_at=world.clock.now(), code=code, why=why))
        world.log(f"the night of {attempt.due} ended with {code}: {attempt.project}")
        return ""

    def _note(self, step: Step, reason: str) -> None:
        """Store, once, why a due night waits, so that the reason is known if the night never begins."""
        noted = (step.project.project, step.due.label, reason)
        if noted != self._noted:
            self._world.attempts.note(*noted)
            self._noted = noted

    def _record_end(self, attempt: Attempt) -> None:
        """Note the end of a night in memory, then store it: if storing fails, the night has ended all the same."""
        self._remember(attempt)
        self._world.attempts.keep(attempt)

    def _remember(self, attempt: Attempt) -> None:
        self._known[attempt.project, attempt.due] = attempt
        while len(self._known) > REMEMBERED * max(1, len(self._known_projects or ())):
            del self._known[next(iter(self._known))]

    def _undo(self, attempt: Attempt, before: Attempt | None) -> None:
        if before is not None:
            self._record_end(before)
            return
        self._known.pop((attempt.project, attempt.due), None)
        self._world.attempts.drop(attempt)
