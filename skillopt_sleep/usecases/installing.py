"""From a schedule to the scheduler of this system: which one works here, put in place, and taken away again."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skillopt_sleep.errors import DiskError, SleepError, UsageError
from skillopt_sleep.scheduling.cron import Cron
from skillopt_sleep.scheduling.due import Schedule, Waker
from skillopt_sleep.scheduling.installer import Installer, Waking, name_schedule
from skillopt_sleep.scheduling.launchd import Launchd
from skillopt_sleep.scheduling.store import load_schedule, save_schedule, schedule_path
from skillopt_sleep.scheduling.systemd import Systemd
from skillopt_sleep.scheduling.task_scheduler import NEVER_RUN, TaskScheduler

if TYPE_CHECKING:
    from skillopt_sleep.usecases.workspace import Workspace

INSTALLERS: Mapping[Waker, Callable[[Waking], Installer]] = {
    Waker.SYSTEMD: Systemd,
    Waker.LAUNCHD: Launchd,
    Waker.TASKSCHEDULER: TaskScheduler,
    Waker.CRON: Cron,
}


def start_of() -> tuple[str, ...]:
    """The command that starts this program, by absolute path. Raises ``UsageError`` where there is no interpreter.

    ``-P``: a file in the folder it happens to run in is never taken for a module.
    """
    if not sys.executable:
        raise UsageError("the Python that runs this does not know its own path; start it as `python -m skillopt_sleep`")
    return (str(Path(sys.executable).absolute()), "-P", "-m", "skillopt_sleep")


def python_path(env: Mapping[str, str]) -> Mapping[str, str]:
    """What an interpreter must be told to find this program: nothing, unless it runs from a folder of its own."""
    bare = {name: value for name, value in env.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    asked = [start_of()[0], "-P", "-c", "import skillopt_sleep"]
    found = subprocess.run(asked, env=bare, cwd="/", capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return {} if found.returncode == 0 else {"PYTHONPATH": str(Path(__file__).parents[2])}


def installer(workspace: Workspace, schedule: Schedule) -> Installer | None:
    """The scheduler a schedule uses, None when it is the daemon, which nobody installs."""
    if schedule.using is Waker.DAEMON:
        return None
    home = Path(workspace.env.get("HOME") or Path.home())
    waking = Waking(
        name=name_schedule(workspace.data_dir),
        at=schedule.clock,
        jitter=timedelta(minutes=schedule.jitter),
        argv=(*start_of(), "daemon", "--once", f"--data-dir={workspace.data_dir}"),
        environment={
            name: schedule.environment[name] for name in ("PATH", "PYTHONPATH") if name in schedule.environment
        },
        home=home,
        config=Path(workspace.env.get("XDG_CONFIG_HOME") or home / ".config"),
        data_dir=workspace.data_dir,
        env=workspace.env,
    )
    return INSTALLERS[schedule.using](waking)


def choose(workspace: Workspace) -> Waker:
    """The scheduler that works here: launchd on a Mac, else systemd, else cron. Raises ``UsageError`` for none."""
    if sys.platform == "win32":
        raise UsageError(NEVER_RUN)
    wanted = (Waker.LAUNCHD,) if sys.platform == "darwin" else (Waker.SYSTEMD, Waker.CRON)
    reasons = []
    for waker in wanted:
        reason = _installer(workspace, Schedule(using=waker)).find_obstacle()
        if not reason:
            return waker
        reasons.append(f"{waker}: {reason}")
    raise UsageError(
        f"nothing here can wake a night ({'; '.join(reasons)}); `skillopt-sleep schedule --using daemon`, and keep"
        " `skillopt-sleep daemon` running"
    )


def install(workspace: Workspace, schedule: Schedule) -> Schedule:
    """Put a schedule in place of the one there is, or change nothing; as it is kept then.

    Raises ``UsageError`` and ``Refused`` where the system's scheduler does not take it, and ``DiskError``.
    """
    before = load_schedule(workspace.data_dir)
    new = installer(workspace, schedule)
    if new is not None and (reason := new.find_obstacle()):
        raise UsageError(f"--using {schedule.using} does not work here: {reason}")
    save_schedule(workspace.data_dir, schedule)
    try:
        made = new.install() if new is not None else {}
    except BaseException:
        save_schedule(workspace.data_dir, before)
        raise
    earlier = before.folders if before else {}
    schedule = replace(schedule, folders={**made, **{path: count for path, count in earlier.items() if count}})
    save_schedule(workspace.data_dir, schedule)
    if before is not None and before.using is not schedule.using:
        old = installer(workspace, before)
        if old is not None:
            old.remove(before.folders)
    return schedule


def remove(workspace: Workspace) -> tuple[bool, tuple[str, ...]]:
    """Take away the schedule and all that was installed for it: whether there was anything, what was not looked at.

    Raises what its scheduler raises, and then has taken nothing away.
    """
    found, unseen = schedule_path(workspace.data_dir).exists(), []
    try:
        schedule = load_schedule(workspace.data_dir)
    except DiskError:  # it cannot be read, which is a reason to take it away
        schedule = None
    if schedule is not None:
        own = installer(workspace, schedule)
        if own is not None:
            own.remove(schedule.folders)
    else:  # it may have been deleted, with what it installed left behind
        for waker in INSTALLERS:
            try:
                found = _installer(workspace, Schedule(using=waker)).remove({}) or found
            except UsageError:
                continue  # that scheduler is not on this machine
            except SleepError as error:
                unseen.append(str(error))
    save_schedule(workspace.data_dir, None)
    with contextlib.suppress(OSError):  # it was made for the schedule, unless something else is in it
        workspace.data_dir.rmdir()
    return found, tuple(unseen)


def check(workspace: Workspace) -> str:
    """What is wrong with what was installed for the schedule, "" when nothing is, or there is none."""
    schedule = load_schedule(workspace.data_dir)
    found = installer(workspace, schedule) if schedule is not None else None
    return found.check() if found is not None else ""


def hints(workspace: Workspace, schedule: Schedule, secret: tuple[str, ...]) -> Iterator[str]:
    """What the user should know of a schedule that was put in place."""
    found = installer(workspace, schedule)
    if isinstance(found, Systemd) and (hint := found.find_hint(_user(workspace))):
        yield hint
    if schedule.using is Waker.DAEMON:
        yield "nothing was installed: keep `skillopt-sleep daemon` running, it holds the nights"
    if secret:
        yield (
            f"not written down, because they may be secret: {', '.join(secret)}; a night that needs them must get them"
            " from its scheduler (docs/unattended.md)"
        )


def _installer(workspace: Workspace, schedule: Schedule) -> Installer:
    found = installer(workspace, schedule)
    assert found is not None  # noqa: S101  the daemon is no installer
    return found


def _user(workspace: Workspace) -> str:
    return workspace.env.get("USER") or workspace.env.get("LOGNAME") or str(os.getuid())
