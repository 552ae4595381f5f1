"""``daemon`` runs the scheduled nights when they are due, in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_sleep.cli.options import data_dir_option, open_workspace

if TYPE_CHECKING:
    from skillopt_sleep.scheduling.due import Schedule
    from skillopt_sleep.usecases.workspace import Workspace


@click.command("daemon")
@click.option("--once", is_flag=True, help="Run the nights that are due now, then end; schedulers call this.")
@data_dir_option
def daemon_command(once: bool, data_dir: str | None) -> None:
    """Run the scheduled nights when they are due, until you stop it; set them up with `skillopt-sleep schedule`.

    Nights run one after the other, each once, or once late when the machine was asleep; none on battery unless you
    allowed it. Ctrl-C or SIGTERM stops a night at once, and the next start continues it; SIGHUP reads the schedule
    again. It writes daemon.log in the data folder.

    \b
    Exit codes: 0 · 1 an error in this program · 2 nothing is scheduled
    6 another process runs the schedule · 7 disk · 130 / 143 a night was
    interrupted and will be continued · with --once, the code of the last night
    that did not end well
    """  # noqa: D301  \b tells click to keep the lines
    from skillopt_sleep.errors import NightRunning
    from skillopt_sleep.storage.lock import lock_daemon

    workspace = _open_workspace(data_dir)
    try:
        with lock_daemon(workspace.data_dir):
            code = _attend(workspace, once=once)
    except NightRunning as error:
        if not once:
            raise
        click.echo(f"skillopt-sleep: {error}", err=True)
        code = 0  # the other process runs what is due
    sys.exit(code)


def _open_workspace(data_dir: str | None) -> Workspace:
    """A workspace with default settings: broken ones must be reported by the night, not keep the daemon from it."""
    if data_dir is None:
        return open_workspace({})
    from skillopt_sleep.settings import Settings, environment
    from skillopt_sleep.usecases.workspace import Workspace

    return Workspace(Settings(data_dir=data_dir), {}, environment(), Path(data_dir).absolute())


def _attend(workspace: Workspace, *, once: bool) -> int:
    from skillopt_sleep import __version__
    from skillopt_sleep.calls.clock import find_system_zone
    from skillopt_sleep.errors import UsageError
    from skillopt_sleep.scheduling.attend import Attendant, World
    from skillopt_sleep.scheduling.daemon import attend_forever, attend_once
    from skillopt_sleep.scheduling.installing import start_command
    from skillopt_sleep.scheduling.night_process import NightProcess, open_log
    from skillopt_sleep.scheduling.store import DaemonStatus, KeptSchedule
    from skillopt_sleep.usecases.announce import AnnouncingAttempts

    schedule = KeptSchedule(workspace.data_dir)
    if schedule() is None:
        raise UsageError(f"nothing is scheduled in {workspace.data_dir}; use `skillopt-sleep schedule`")
    with open_log(workspace.data_dir, sys.stderr) as say:
        night = NightProcess(start_command(), workspace.env, workspace.data_dir, say)
        world = World(
            schedule=schedule,
            attempts=AnnouncingAttempts(workspace),
            run_night=night,
            clock=workspace.clock,
            zone=find_system_zone,
            find_obstacle=lambda found: _find_obstacle(workspace, found),
            log=say,
            publish=DaemonStatus(workspace.data_dir, workspace.clock.now(), once=once),
            read_last_words=lambda: night.last_words,
        )
        attendant = Attendant(world, salt=str(workspace.data_dir), jitter=not once)
        if once:
            return attend_once(attendant, night.stop)
        following = attendant.find_wake_time(workspace.clock.now())
        say(f"skillopt-sleep {__version__} runs the schedule of {workspace.data_dir}, process {os.getpid()}")
        if following is not None:
            say(f"the next night is due at {following.astimezone():%Y-%m-%d %H:%M}")
        code = attend_forever(attendant, night.stop, say, terminal=sys.stderr.isatty())
        cut = "" if code in {0, 1} else "; the interrupted night continues at the next start"
        say(f"stopped{cut}")
        return code


def _find_obstacle(workspace: Workspace, schedule: Schedule) -> str:
    """Explain why no night may begin now, "" when one may."""
    from skillopt_sleep.scheduling.attend import BUSY
    from skillopt_sleep.scheduling.daemon import is_on_battery
    from skillopt_sleep.storage.lock import is_locked

    if not schedule.on_battery and is_on_battery():
        return "this machine runs on battery (`skillopt-sleep schedule --on-battery` allows it)"
    return BUSY if is_locked(workspace.data_dir) else ""
