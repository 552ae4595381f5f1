"""What the schedule of this user comes to: what a night is given, and how things stand for a project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from skillopt_sleep.calls.zone import system_zone
from skillopt_sleep.domain.schedule import (
    Attempt,
    DaemonState,
    DayCaps,
    Outlook,
    Schedule,
    ScheduledProject,
    Waker,
    last_due,
    missed,
    next_due,
)
from skillopt_sleep.stores.lock import DAEMON, is_held
from skillopt_sleep.stores.schedule import AttemptStore, load_daemon, load_schedule

if TYPE_CHECKING:
    from skillopt_sleep.app import App
    from skillopt_sleep.domain.report import NightReport

__all__ = ["environment_of", "merged", "outlook_of", "scheduled"]

T = TypeVar("T")

GIVEN = frozenset(
    {
        "HOME", "PATH", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME",
        "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "OPENAI_BASE_URL", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX",
        "ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION", "AWS_PROFILE", "AWS_REGION", "NODE_EXTRA_CA_CERTS",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
        "no_proxy",
    }
)  # fmt: skip
"""Variables of the shell that a night is given too, as they were when it was scheduled; and our own settings."""
OWN = "SKILLOPT_SLEEP_"
KEYS = ("ANTHROPIC_", "CLAUDE_CODE_", "OPENAI_", "CODEX_")
KEY_WORDS = ("KEY", "TOKEN")
FEW = 32
"""Attempts that `status` looks at: those of the last week are among them."""


def environment_of(env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """What of an environment goes into a schedule, and the names of what agents may need and is too secret to.

    Of PATH the absolute folders, since a night runs in none that one could stand in.
    """
    from skillopt_sleep.app.unwritten import of_environment

    given = {name: value for name, value in env.items() if name in GIVEN or name.startswith(OWN)}
    secret = set(of_environment(env, GIVEN, OWN))
    secret |= {name for name in env if name.startswith(KEYS) and any(word in name for word in KEY_WORDS)}
    given = {name: value for name, value in sorted(given.items()) if name not in secret}
    if "PATH" in given:
        given["PATH"] = ":".join(part for part in given["PATH"].split(":") if Path(part).is_absolute())
    return given, tuple(sorted(secret))


def scheduled(app: App, arguments: Sequence[str]) -> ScheduledProject:
    """The entry of an app's project; ``arguments`` are the flags of ``run`` for it."""
    return ScheduledProject(
        project=str(app.project), since=app.clock.now(), arguments=tuple(arguments), caps=app.caps()
    )


def merged(
    before: Schedule | None,
    entries: Sequence[ScheduledProject],
    *,
    at: str | None,
    day: DayCaps,
    changed: Mapping[str, object],
) -> Schedule:
    """The schedule with these projects in it; what is None, and every other project, stays as it was.

    Other times mean that nothing of before counts as due.
    """
    old = before or Schedule()
    entries = tuple({each.project: each for each in entries}.values())
    if before is not None and at in {None, before.at}:
        earlier = {each.project: each.since for each in before.projects}
        entries = tuple(replace(each, since=earlier.get(each.project, each.since)) for each in entries)
        others = before.projects
    else:
        others = tuple(replace(each, since=entries[0].since) for each in old.projects)
    new = {each.project: each for each in (*others, *entries)}
    return replace(
        old,
        at=at or old.at,
        day=DayCaps(
            calls=_first(day.calls, old.day.calls),
            tokens=_first(day.tokens, old.day.tokens),
            usd=_first(day.usd, old.day.usd),
        ),
        projects=tuple(new.values()),
        **{name: value for name, value in changed.items() if value is not None},
    )


def outlook_of(app: App, nights: Sequence[NightReport]) -> Outlook | None:
    """How the nights of an app's project are scheduled, None when nothing is. Raises ``DiskError``."""
    schedule = load_schedule(app.data_dir)
    if schedule is None:
        return None
    entry = schedule.of(str(app.project))
    daemon = load_daemon(app.data_dir) if is_held(app.data_dir, DAEMON) else None
    found = Outlook(
        using=schedule.using,
        at=schedule.at,
        scheduled=entry is not None,
        others=len(schedule.projects) - (entry is not None),
        daemon=daemon,
        problem=_problem(schedule, daemon),
    )
    if entry is None:
        return found
    now, zone = app.clock.now(), system_zone()
    attempts = AttemptStore(app.database).of(entry.project, limit=FEW)
    active = [each.started_at for each in attempts] + [
        datetime.fromisoformat(moment) for night in nights for moment in (night.started_at, night.updated_at) if moment
    ]
    jitter = timedelta(minutes=schedule.jitter)
    absent = missed(entry.since, now, schedule.clock, zone, active=active, jitter=jitter)
    following = _next(schedule, entry, attempts, now)
    return replace(
        found,
        last=_local(attempts[0]) if attempts else None,
        next=following.astimezone(),
        waits=following <= now,
        missed=tuple(due.label for due in absent),
    )


def _first(new: T | None, old: T | None) -> T | None:
    return old if new is None else new


def _next(schedule: Schedule, entry: ScheduledProject, attempts: Sequence[Attempt], now: datetime) -> datetime:
    """When the next night of a project is due; the last one still is until somebody has seen to it."""
    zone = system_zone()
    last = last_due(now, schedule.clock, zone)
    over = any(each.due == last.label and each.over for each in attempts)
    if last.moment <= entry.since or over:
        return next_due(now, schedule.clock, zone).moment
    return last.moment


def _problem(schedule: Schedule, daemon: DaemonState | None) -> str:
    if schedule.using is Waker.DAEMON and daemon is None:
        return "nobody is there to hold the nights: `skillopt-sleep daemon` must be kept running"
    return ""


def _local(attempt: Attempt) -> Attempt:
    return replace(
        attempt,
        started_at=attempt.started_at.astimezone(),
        ended_at=attempt.ended_at.astimezone() if attempt.ended_at else None,
    )
