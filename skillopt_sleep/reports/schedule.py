"""What is said of the nightly schedule: by `schedule`, and as lines of `status` and `doctor`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from skillopt_sleep.reports.words import number, plain
from skillopt_sleep.scheduling.due import Attempt, DaemonState, Outlook, Schedule, Waker

WAKERS = {
    Waker.SYSTEMD: "a systemd user timer",
    Waker.LAUNCHD: "launchd",
    Waker.TASKSCHEDULER: "the Task Scheduler",
    Waker.CRON: "cron",
    Waker.DAEMON: "`skillopt-sleep daemon`, which you keep running",
}
ENDS = {
    0: "with a verdict, or nothing new",
    1: "in an error of this program (exit 1)",
    2: "because a flag, a file or a setting could not be used (exit 2)",
    3: "waiting for answers (exit 3)",
    4: "because the backend could not be used (exit 4)",
    5: "before enough could be measured (exit 5)",
    6: "because another night was running (exit 6)",
    7: "because our own files could not be read or written (exit 7)",
    8: "refused (exit 8)",
}
"""What the exit codes of a night mean."""


def scheduled(schedule: Schedule, data_dir: Path) -> str:
    """What a schedule that is in place comes to."""
    shared = schedule.shared_caps
    later = f", or up to {number(schedule.jitter, 'minute')} later" if schedule.jitter else ""
    found = [
        f"Every night at {schedule.at}{later}, woken by {WAKERS[schedule.using]}:",
        *(f"  {plain(each.project)}  {plain(shlex.join(each.arguments))}".rstrip() for each in schedule.projects),
        f"From noon to noon at most {shared.calls:,} calls, {shared.tokens:,} tokens, {shared.usd:.2f} USD together.",
        f"{'Also' if schedule.on_battery else 'Not'} on battery. Own data in {plain(str(data_dir))}.",
        "`skillopt-sleep status` says when it ran; `skillopt-sleep unschedule` takes it away.",
    ]
    return "\n".join(found)


def lines(outlook: Outlook) -> Iterator[str]:
    """How the nights of a project are scheduled; what is wrong comes first, and in capitals."""
    if not outlook.scheduled:
        yield (
            f"Not in the nightly schedule, which has {number(outlook.others, 'other project')}:"
            " skillopt-sleep schedule adds it."
        )
        return
    if outlook.missed:
        nights = number(len(outlook.missed), "night")
        which = ", ".join(label.replace("T", " ") for label in outlook.missed)
        yield f"MISSED: {nights} of the last week had no run, due at {which}."
        yield "  The machine was off, asleep or on battery, or nothing woke: skillopt-sleep doctor looks."
    if outlook.problem:
        yield f"NOT RUNNING: {plain(outlook.problem)}."
    yield f"Every night at {outlook.at}, woken by {WAKERS[outlook.using]}. {_last(outlook.last)}{_next(outlook)}"
    if outlook.daemon is not None:
        yield _daemon(outlook.daemon)


def _last(attempt: Attempt | None) -> str:
    if attempt is None:
        return "It has not run yet."
    began = f"Last ran {_moment(attempt.started_at)}"
    if attempt.ended_at is None or attempt.code is None:
        return f"{began}, and has not ended."
    if attempt.code < 0 or attempt.code in {129, 130, 143}:
        return f"{began}, cut short {_moment(attempt.ended_at)}; the next start goes on with it."
    return f"{began}, ended {_moment(attempt.ended_at)} {ENDS.get(attempt.code, f'with exit {attempt.code}')}."


def _next(outlook: Outlook) -> str:
    if outlook.next is None:
        return ""
    if outlook.waits:
        return f" One has been due since {_moment(outlook.next)}, and is held as soon as something wakes."
    return f" Next: {_moment(outlook.next)}."


def _daemon(state: DaemonState) -> str:
    who = "Woken by the system" if state.once else "The daemon runs"
    doing = f"; at work on {plain(state.doing)}" if state.doing else ""
    held = f"; a night is due and waits: {plain(state.held)}" if state.held else ""
    following = f"; next {_moment(state.next.astimezone())}" if state.next and not state.once else ""
    return f"{who} since {_moment(state.since.astimezone())} (process {state.pid}){doing}{held}{following}."


def _moment(moment: datetime) -> str:
    return f"{moment:%a %d %b %H:%M}"
