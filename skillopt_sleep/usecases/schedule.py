"""What the schedule of this user comes to: what a night is given, and how things stand for a project.

Secrets that are never written into a schedule: those of the environment, and those somebody types as an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec.structs import replace

from skillopt_sleep.calls.clock import system_zone
from skillopt_sleep.model import Json
from skillopt_sleep.safety.receivers import says_secret, worth_hiding
from skillopt_sleep.scheduling.due import (
    Attempt,
    DaemonState,
    DayCaps,
    Outlook,
    Schedule,
    ScheduledProject,
    Waker,
    find_last_due,
    find_missed_dues,
    find_next_due,
)
from skillopt_sleep.scheduling.store import AttemptStore, load_daemon, load_schedule
from skillopt_sleep.storage.lock import DAEMON, is_held
from skillopt_sleep.usecases.adapters import night_caps

if TYPE_CHECKING:
    from skillopt_sleep.night.report import NightReport
    from skillopt_sleep.usecases.workspace import Workspace

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
    given = {name: value for name, value in env.items() if name in GIVEN or name.startswith(OWN)}
    secret = set(of_environment(env, GIVEN, OWN))
    secret |= {name for name in env if name.startswith(KEYS) and any(word in name for word in KEY_WORDS)}
    given = {name: value for name, value in sorted(given.items()) if name not in secret}
    if "PATH" in given:
        given["PATH"] = ":".join(part for part in given["PATH"].split(":") if Path(part).is_absolute())
    return given, tuple(sorted(secret))


def scheduled(workspace: Workspace, arguments: Sequence[str]) -> ScheduledProject:
    """The entry of an app's project; ``arguments`` are the flags of ``run`` for it."""
    return ScheduledProject(
        project=str(workspace.project),
        since=workspace.clock.now(),
        arguments=tuple(arguments),
        caps=night_caps(workspace),
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


def outlook_of(workspace: Workspace, nights: Sequence[NightReport]) -> Outlook | None:
    """How the nights of an app's project are scheduled, None when nothing is. Raises ``DiskError``."""
    schedule = load_schedule(workspace.data_dir)
    if schedule is None:
        return None
    entry = schedule.find_project(str(workspace.project))
    daemon = load_daemon(workspace.data_dir) if is_held(workspace.data_dir, DAEMON) else None
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
    now, zone = workspace.clock.now(), system_zone()
    attempts = AttemptStore(workspace.database).of(entry.project, limit=FEW)
    active = [each.started_at for each in attempts] + [
        datetime.fromisoformat(moment) for night in nights for moment in (night.started_at, night.updated_at) if moment
    ]
    jitter = timedelta(minutes=schedule.jitter)
    absent = find_missed_dues(entry.since, now, schedule.clock, zone, active=active, jitter=jitter)
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
    last = find_last_due(now, schedule.clock, zone)
    over = any(each.due == last.label and each.is_over for each in attempts)
    if last.moment <= entry.since or over:
        return find_next_due(now, schedule.clock, zone).moment
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


SECRET_NAMES = frozenset(
    {"authorization", "auth", "bearer", "code", "key", "pass", "psk", "pw", "pwd", "sas", "sig", "signature"}
)
"""Names that tell by themselves, as one has them in the query of a URL and among headers."""
COUNTED = re.compile(r"[\d_.+-]+|true|false", re.IGNORECASE)
"""Numbers and switches: ``max_tokens=5`` is about tokens and is none."""
VARIABLE = re.compile(r"[A-Za-z_]\w*")
LEFT_OUT = re.compile(r"[^A-Za-z0-9]+")


def leaves(assignment: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """What one ``a.b=value`` of ``--set`` sets: each value that is no table by its whole name, read as TOML."""
    path, _, text = assignment.partition("=")
    value: Json = text
    if text.lstrip()[:1] in {"{", "["}:
        try:
            value = msgspec.toml.decode(f"v = {text}", type=dict[str, Json])["v"]
        except msgspec.DecodeError:
            value = text
    else:
        value = text.strip().strip("\"'")
    yield from _below(tuple(path.split(".")), value)


def _below(path: tuple[str, ...], value: Json) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _below((*path, *key.split(".")), each)
    elif isinstance(value, list):
        for each in value:
            yield from _below(path, each)
            name, equals, text = str(each).partition("=")
            if equals and re.fullmatch(r"[\w.-]+", name):  # a setting of another program
                yield (*path, *name.split(".")), text.strip().strip("\"'")
    else:
        yield path, str(value)


class Unwritten:
    """Tells secrets; ``known`` are those of the user's environment."""

    def __init__(self, known: tuple[str, ...] = ()) -> None:
        from skillopt_sleep.safety.redaction.redactor import Redactor

        self._redactor = Redactor(known)

    def hides(self, name: str, value: str) -> bool:
        """Whether a value is a secret: by its own form, by its name, or as a URL by what stands in it."""
        if not value.strip():
            return False
        if self._redactor.suspects(value) or self._in_url(value):
            return True
        if name.lower().endswith("_env"):  # it names a variable that holds the secret
            return VARIABLE.fullmatch(value) is None
        return _tells(name, value) or self._redactor.suspects(f"{name}={value}")

    def _in_url(self, value: str) -> bool:
        if "://" not in value:
            return False
        try:
            url = urlsplit(value)
        except ValueError:
            return True  # nobody can say what stands where
        pairs = [pair for part in (url.query, url.fragment) for pair in parse_qsl(part, keep_blank_values=True)]
        return "@" in url.netloc or any(
            _tells(name, text) or self._redactor.suspects(f"{name}={text}") or (not text and worth_hiding(name))
            for name, text in pairs
        )


def _tells(name: str, value: str) -> bool:
    """Whether a name says that its value is a secret."""
    plain = LEFT_OUT.sub("_", name).strip("_")
    if "TOKENS" in plain.upper() and COUNTED.fullmatch(value):
        return False
    if value.lower() in {"true", "false"}:
        return False
    return says_secret(plain) or plain.lower() in SECRET_NAMES


def of_environment(env: Mapping[str, str], names: frozenset[str], own: str) -> frozenset[str]:
    """Which of these variables, and of our own, hold a secret."""
    secret = Unwritten()
    return frozenset(
        name
        for name, value in env.items()
        if (name in names and "://" in value and ("@" in value or secret.hides("", value)))
        or (name.startswith(own) and secret.hides(name.removeprefix(own).rpartition("__")[2], value))
    )
