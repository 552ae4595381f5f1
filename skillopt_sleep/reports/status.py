"""The state of a project between two nights: the last nights, what waits for the user, and the schedule.

``status`` prints all of it; ``schedule`` and ``doctor`` print the schedule alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from skillopt_sleep.gate.account import Account
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.night.report import NightReport, NightState, PendingReport, SealedTest
from skillopt_sleep.reports.formatting import DOCUMENTS, align_columns, money, number, plain, total_spend
from skillopt_sleep.reports.headline import Ending, summarize_night
from skillopt_sleep.reports.measurements import (
    describe_account,
    describe_audit,
    describe_pending,
    describe_sealed,
    describe_shortfall,
)
from skillopt_sleep.reports.rows import without_bullet
from skillopt_sleep.scheduling.due import Attempt, DaemonState, Outlook, Schedule, Waker


class Status(Struct, frozen=True, kw_only=True):
    """What ``status`` prints."""

    project: str
    nights: tuple[NightReport, ...] = ()
    """The nights of the project, the latest first."""
    proposals: tuple[str, ...] = ()
    """Nights whose proposal can still be adopted."""
    adopted: tuple[str, ...] = ()
    """Nights that are adopted and can be reverted."""
    waiting: int = 0
    """Sessions in the inbox."""
    fresh: int = 0
    """Tasks that no finished night has used."""
    pending: tuple[PendingReport, ...] = ()
    """Changes that are not decided yet."""
    account: Account = Account()
    """All changes tried so far, added up."""
    sealed: tuple[SealedTest, ...] = ()
    """Adopted changes scored on sealed tasks, the latest first."""
    running: bool = False
    schedule: Outlook | None = None
    """None when nothing is scheduled."""


HEAD = ("night", "ended", "score", "rules", "calls", "money", "proposal")

SEALED = 3
"""Sealed tests shown, the latest."""

RULE = 90
"""Characters of a pending rule."""

FIRST_STEPS = """\
  skillopt-sleep insights  shows in seconds what your sessions tell; no model call
  skillopt-sleep doctor    shows what a night would do and cost; spends nothing
  skillopt-sleep run       runs a night"""

WAKERS = {
    Waker.SYSTEMD: "a systemd user timer",
    Waker.LAUNCHD: "launchd",
    Waker.TASKSCHEDULER: "the Task Scheduler",
    Waker.CRON: "cron",
    Waker.DAEMON: "`skillopt-sleep daemon`, which you keep running",
}

EXIT_CODES = {
    0: "normally",
    1: "with an error in this program (exit 1)",
    2: "because a flag, file or setting was wrong (exit 2)",
    3: "waiting for answers (exit 3)",
    4: "because the backend could not be used (exit 4)",
    5: "with too little measured (exit 5)",
    6: "because another night was running (exit 6)",
    7: "because our own files could not be read or written (exit 7)",
    8: "refused (exit 8)",
}
"""What the exit code of a scheduled night means."""

SIGNAL_CODES = frozenset({129, 130, 143})
"""Exit codes of a night that a signal ended: hang-up, Ctrl-C, SIGTERM."""


def render_status(status: Status, *, most: int) -> str:
    """Return a table of at most ``most`` nights, the latest first, and what waits; without a final newline."""
    parts = [
        _table(status, most) if status.nights else f"No night yet. Begin with:\n\n{FIRST_STEPS}",
        "\n".join(_pending(status)),
        "\n".join(_waiting(status)),
        "\n".join(describe_schedule(status.schedule)) if status.schedule else "",
        "\n".join(_trust(status)),
    ]
    return "\n\n".join(part for part in parts if part)


def _table(status: Status, most: int) -> str:
    lines = align_columns([HEAD, *(_row(night, status) for night in status.nights[:most])])
    if len(status.nights) > most:
        lines.append(f"and {number(len(status.nights) - most, 'earlier night')}")
    return "\n".join(lines)


def _row(night: NightReport, status: Status) -> tuple[str, ...]:
    headline = summarize_night(night)
    tested = night.baseline_score is not None and night.candidate_score is not None
    spend = total_spend(night)
    proposal = "closed" if night.proposal else ""
    if night.night in status.adopted:
        proposal = "adopted"
    elif night.night in status.proposals:
        proposal = "waits for you"
    return (
        plain(night.night),
        f"stopped: {headline.title}" if headline.ending is Ending.STOPPED else headline.ending.lower(),
        f"{night.baseline_score:.2f} -> {night.candidate_score:.2f}" if tested else "",
        number(len(night.applied_edits)) if night.applied_edits else "",
        number(spend.calls),
        money(spend),
        proposal,
    )


def _pending(status: Status) -> Iterator[str]:
    if status.pending:
        yield "Not decided yet; the next night continues:"
    for pending in status.pending:
        for rule in pending.rules:
            document = DOCUMENTS.get(pending.document, plain(pending.document))
            yield f"  {document}: {excerpt(without_bullet(rule), RULE)}"
        yield f"    {describe_pending(pending)}"


def _waiting(status: Status) -> Iterator[str]:
    for night in map(plain, status.proposals[:1]):
        yield f"A change waits for you: skillopt-sleep show {night}, then skillopt-sleep adopt {night}."
    if status.running:
        yield "A night is running."
    elif status.nights and status.nights[0].state is NightState.RUNNING:
        yield "The last night was interrupted: skillopt-sleep run continues it, and nothing is paid for twice."
    waiting = ((status.waiting, "session to read", "sessions to read"), (status.fresh, "unused task", "unused tasks"))
    if said := ", ".join(number(count, one, many) for count, one, many in waiting if count):
        yield f"For the next night: {said}."


def _trust(status: Status) -> Iterator[str]:
    """Yield all changes tried so far, and how far the tests can be trusted."""
    if account := describe_account(status.account):
        yield f"In total: {account}"
    if status.nights:
        yield from describe_audit(status.nights[0].audit)
        yield from filter(None, [describe_shortfall(status.nights[0].shortfall)])
    yield from map(describe_sealed, status.sealed[:SEALED])


def render_schedule(schedule: Schedule, data_dir: Path) -> str:
    """Return what ``schedule`` prints after it installed the schedule."""
    shared = schedule.shared_caps
    later = f", or up to {number(schedule.jitter, 'minute')} later" if schedule.jitter else ""
    lines = [
        f"Every night at {schedule.at}{later}, started by {WAKERS[schedule.using]}:",
        *(f"  {plain(entry.project)}  {plain(shlex.join(entry.arguments))}".rstrip() for entry in schedule.projects),
        f"From noon to noon, at most {shared.calls:,} calls, {shared.tokens:,} tokens, {shared.usd:.2f} USD together.",
        f"{'Also' if schedule.on_battery else 'Not'} on battery. Data folder: {plain(str(data_dir))}.",
        "`skillopt-sleep status` shows when it ran; `skillopt-sleep unschedule` removes it.",
    ]
    return "\n".join(lines)


def describe_schedule(outlook: Outlook) -> Iterator[str]:
    """When the nights of a project run; problems come first, in capitals."""
    if not outlook.scheduled:
        yield (
            f"This project is not in the nightly schedule, which has {number(outlook.others, 'other project')}:"
            " skillopt-sleep schedule adds it."
        )
        return
    if outlook.missed:
        nights = number(len(outlook.missed), "night")
        which = ", ".join(label.replace("T", " ") for label in outlook.missed)
        yield f"MISSED: {nights} of the last week did not run, due at {which}."
        yield "  The machine was off, asleep or on battery, or nothing started it: skillopt-sleep doctor checks."
    if outlook.problem:
        yield f"NOT RUNNING: {plain(outlook.problem)}."
    yield f"Every night at {outlook.at}, started by {WAKERS[outlook.using]}. {_last(outlook.last)}{_next(outlook)}"
    if outlook.daemon is not None:
        yield _daemon(outlook.daemon)


def _last(attempt: Attempt | None) -> str:
    if attempt is None:
        return "It has not run yet."
    began = f"Last run {_moment(attempt.started_at)}"
    if attempt.ended_at is None or attempt.code is None:
        return f"{began}, not ended yet."
    if attempt.code < 0 or attempt.code in SIGNAL_CODES:
        return f"{began}, interrupted {_moment(attempt.ended_at)}; the next run continues it."
    return f"{began}, ended {_moment(attempt.ended_at)} {EXIT_CODES.get(attempt.code, f'with exit {attempt.code}')}."


def _next(outlook: Outlook) -> str:
    if outlook.next is None:
        return ""
    if outlook.waits:
        return f" A night has been due since {_moment(outlook.next)} and runs as soon as the scheduler wakes."
    return f" Next: {_moment(outlook.next)}."


def _daemon(state: DaemonState) -> str:
    who = "Started by the system" if state.once else "The daemon has been running"
    doing = f"; now at work on {plain(state.doing)}" if state.doing else ""
    held = f"; a night is due and waits: {plain(state.held)}" if state.held else ""
    following = f"; next {_moment(state.next.astimezone())}" if state.next and not state.once else ""
    since = "" if state.once else "since "
    return f"{who} {since}{_moment(state.since.astimezone())} (process {state.pid}){doing}{held}{following}."


def _moment(moment: datetime) -> str:
    return f"{moment:%a %d %b %H:%M}"
