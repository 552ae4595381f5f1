"""Why nights failed and what helps, for `status`, `doctor`, the plugins of the agents and the reports of the nights.

A scheduled night does not run in the user's shell. So its failures are explained, and checked in advance, by the
environment that its schedule recorded and its scheduler gives it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_sleep.agents import agent_of_backend
from skillopt_sleep.errors import BackendError, NotInstalled, NotLoggedIn, SleepError
from skillopt_sleep.model.call import Role
from skillopt_sleep.night.report import NightState
from skillopt_sleep.reports.headline import summarize_night
from skillopt_sleep.reports.status import EXIT_CODES, Failure
from skillopt_sleep.scheduling.due import INTERRUPTED_CODES, MOST_STARTS, Attempt, Schedule, Waker
from skillopt_sleep.scheduling.programs import SCHEDULED
from skillopt_sleep.scheduling.store import AttemptStore, load_schedule
from skillopt_sleep.storage.journal import get_night_folder
from skillopt_sleep.storage.lock import is_locked
from skillopt_sleep.usecases.adapters import get_role

if TYPE_CHECKING:
    from skillopt_sleep.night.report import NightReport
    from skillopt_sleep.usecases.workspace import Workspace

LOG = "daemon.log"
"""The log of the scheduled nights in the data folder."""
EPOCH = datetime.fromtimestamp(0, UTC)
NO_FAILURE = frozenset({None, 0, 3, *INTERRUPTED_CODES})
"""Exit codes of nights that run, ended well, wait for answers or were interrupted."""
KEY_PLACES = {
    Waker.SYSTEMD: "write NAME=value into ~/.config/environment.d/sleep.conf, then systemctl --user daemon-reload",
    Waker.LAUNCHD: "launchctl setenv NAME value",
    Waker.CRON: "write a line NAME=value above our lines: crontab -e",
    Waker.TASKSCHEDULER: "set it for your user: setx NAME value",
    Waker.DAEMON: "start `skillopt-sleep daemon` with it",
}
"""How a scheduled night gets a variable that no schedule may hold."""


def find_failure(workspace: Workspace, project: str) -> Failure | None:
    """Return why the last nights of a project failed, None when the last one did not."""
    reports = workspace.journal.reports(project)
    attempt = next(iter(AttemptStore(workspace.database).of(project, limit=1)), None)
    log = str(workspace.data_dir / LOG)
    began = datetime.fromisoformat(reports[0].started_at) if reports and reports[0].started_at else EPOCH
    if attempt is not None and attempt.code not in NO_FAILURE and attempt.started_at > began:
        return _describe_start(attempt, log)
    failed = list(takewhile(lambda report: report.exit_code not in NO_FAILURE, reports))
    if failed:
        headline = summarize_night(failed[0])
        folder = get_night_folder(project, failed[0].night)
        return Failure(
            key=failed[0].night,
            nights=len(failed),
            why=failed[0].why or headline.title,
            now=headline.now,
            log=str(folder / "report.md") if (folder / "report.md").exists() else log,
        )
    if attempt is not None and _was_cut_off(workspace, attempt, reports):
        return _describe_start(attempt, log)
    return None


def list_other_failures(workspace: Workspace, schedule: Schedule) -> Iterator[str]:
    """Yield a line for every other scheduled project whose last night failed."""
    for entry in schedule.projects:
        if entry.project != str(workspace.project) and (failure := find_failure(workspace, entry.project)):
            yield f"{entry.project}: {failure.why}. {failure.now}"


def explain_failure(workspace: Workspace, error: BaseException) -> str:
    """Return why an error ended a night; in a scheduled night, with what its environment lacks and how to give it."""
    why, schedule = str(error), None
    if isinstance(error, BackendError) and SCHEDULED in workspace.env:
        with contextlib.suppress(SleepError):
            schedule = load_schedule(workspace.data_dir)
    if schedule is None:
        return why
    if isinstance(error, NotInstalled):
        gone = [place for place in schedule.programs.values() if not Path(place).exists()]
        return describe_reinstall(gone[0]) if gone else why
    if lacks := select_lacking(workspace, schedule, proxies=not isinstance(error, NotLoggedIn)):
        return f"{describe_lacking(lacks, schedule.using)} ({why})"
    return why


def _describe_start(attempt: Attempt, log: str) -> Failure:
    """Describe a scheduled start that left no report of its own, or was killed."""
    code = attempt.code or 0
    why = attempt.why or f"it ended {EXIT_CODES.get(code, f'with exit {code}')}"
    now = "The log has the details; `skillopt-sleep doctor` checks the rest."
    if not Path(attempt.project).is_dir():
        why = f"the project folder {attempt.project} is gone"
        now = f"To remove it from the schedule: skillopt-sleep unschedule --project {attempt.project}"
    elif code < 0:
        why = f"something killed it with signal {-code}, as a system does that runs out of memory"
        now = "The next start continues it; fewer calls at a time need less memory: skillopt-sleep schedule --workers 1"
        if attempt.starts >= MOST_STARTS:
            why = f"{why}, {attempt.starts} times"
    return Failure(key=f"{attempt.project}{attempt.due}{attempt.starts}", nights=1, why=why, now=now, log=log)


def _was_cut_off(workspace: Workspace, attempt: Attempt, reports: Collection[NightReport]) -> bool:
    """Tell whether a scheduled night was killed or was interrupted too often, and nothing continues it now."""
    last = next(iter(reports), None)
    cut = last is not None and last.state is not NightState.FINISHED and attempt.code is not None
    killed = cut and (attempt.code or 0) < 0
    return (killed or (cut and attempt.starts >= MOST_STARTS)) and not is_locked(workspace.data_dir)


def select_lacking(workspace: Workspace, schedule: Schedule, *, proxies: bool = True) -> tuple[str, ...]:
    """Return the names of the recorded keys that this environment lacks and the backends could need."""
    prefixes = {"OPENAI_"}
    for role in Role:
        agent = agent_of_backend(get_role(workspace, role)[0])
        prefixes |= {f"{name.partition('_')[0]}_" for name in agent.variables} if agent else set()
    own = {str(table.get("api_key_env", "")) for table in workspace.settings.backends.values()}
    return tuple(
        name
        for name in schedule.lacks
        if name not in workspace.env
        and (name.startswith(tuple(prefixes)) or name in own or (proxies and name.upper().endswith("_PROXY")))
    )


def describe_lacking(lacks: Collection[str], using: Waker) -> str:
    """Say which keys the nights lack, and how their scheduler gives them."""
    names = " and ".join(lacks)
    return f"the nights have no {names}, which only your shell has: {KEY_PLACES[using]}"


def describe_reinstall(place: str) -> str:
    """Say that a recorded program is gone, and what helps."""
    again = f"install {Path(place).name} again, then run: skillopt-sleep schedule"
    return f"{place} is gone since the nights were scheduled: {again}"
