"""How things stand for a project between two nights.

What ``status`` prints: the last nights in a table, and what waits.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from skillopt_sleep.gate.account import Account
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.night.report import NightReport, NightState, PendingReport, SealedTest
from skillopt_sleep.reports import schedule, tally, trust
from skillopt_sleep.reports.ending import Word, ending
from skillopt_sleep.reports.rows import bare
from skillopt_sleep.reports.words import DOCUMENTS, money, number, plain, whole
from skillopt_sleep.scheduling.due import Outlook


class Status(Struct, frozen=True, kw_only=True):
    """The nights of a project, the latest first, and what waits.

    ``proposals`` are the nights whose proposal can still be adopted; ``adopted`` those that are live and can be
    reverted; ``waiting`` counts sessions in the inbox, ``fresh`` tasks no concluded night has used; ``pending`` edits
    are not decided yet, and ``account`` adds up all that were tried; ``sealed`` are the adopted changes that were
    scored on sealed tasks, the latest first. ``schedule`` is None when nothing is scheduled.
    """

    project: str
    nights: tuple[NightReport, ...] = ()
    proposals: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    waiting: int = 0
    fresh: int = 0
    pending: tuple[PendingReport, ...] = ()
    account: Account = Account()
    sealed: tuple[SealedTest, ...] = ()
    running: bool = False
    schedule: Outlook | None = None


HEAD = ("night", "ended", "score", "rules", "calls", "money", "proposal")

SEALED = 3
"""Sealed tests shown, the latest."""

RULE = 90
"""Characters of a pending rule."""

FIRST_STEPS = """\
  skillopt-sleep insights  shows in seconds what your sessions tell, and calls no model
  skillopt-sleep doctor    says what a night would do and cost, and spends nothing
  skillopt-sleep run       runs a night"""


def render(status: Status, *, most: int) -> str:
    """A table of at most ``most`` nights, the latest first, and what waits; not ended by a newline."""
    parts = [
        _table(status, most) if status.nights else f"No night yet.\n\n{FIRST_STEPS}",
        "\n".join(_pending(status)),
        "\n".join(_waits(status)),
        "\n".join(schedule.lines(status.schedule)) if status.schedule else "",
        "\n".join(_trust(status)),
    ]
    return "\n\n".join(part for part in parts if part)


def _table(status: Status, most: int) -> str:
    rows = [HEAD, *(_row(night, status) for night in status.nights[:most])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    if len(status.nights) > most:
        lines.append(f"and {number(len(status.nights) - most, 'earlier night')}")
    return "\n".join(lines)


def _row(night: NightReport, status: Status) -> tuple[str, ...]:
    told = ending(night)
    tested = night.baseline_score is not None and night.candidate_score is not None
    return (
        plain(night.night),
        f"stopped: {told.title}" if told.word is Word.STOPPED else told.word.lower(),
        f"{night.baseline_score:.2f} -> {night.candidate_score:.2f}" if tested else "",
        number(len(night.applied_edits)) if night.applied_edits else "",
        number(whole(night).calls),
        money(whole(night)),
        _proposal(night, status),
    )


def _proposal(night: NightReport, status: Status) -> str:
    if night.night in status.adopted:
        return "adopted"
    if night.night in status.proposals:
        return "waits for you"
    return "closed" if night.proposal else ""


def _pending(status: Status) -> Iterator[str]:
    if status.pending:
        yield "Pending, for the next nights to decide:"
    for pending in status.pending:
        for rule in pending.rules:
            yield f"  {DOCUMENTS.get(pending.document, plain(pending.document))}: {excerpt(bare(rule), RULE)}"
        yield f"    {tally.going_on(pending)}"


def _trust(status: Status) -> Iterator[str]:
    """The account, and what the nights so far say of the measurement itself."""
    if said := tally.account(status.account):
        yield f"Account of all edits: {said}"
    if status.nights:
        yield from trust.audited(status.nights[0].audit)
        yield from filter(None, [trust.missing(status.nights[0].shortfall)])
    yield from map(trust.sealed, status.sealed[:SEALED])


def _waits(status: Status) -> Iterator[str]:
    for night in map(plain, status.proposals[:1]):
        yield f"A change waits for you: skillopt-sleep show {night}, then skillopt-sleep adopt {night}."
    if status.running:
        yield "A night is running."
    elif status.nights and status.nights[0].state is NightState.RUNNING:
        yield "The last night was cut short: skillopt-sleep run goes on with it, and nothing is paid for twice."
    waiting = ((status.waiting, "session", "to read"), (status.fresh, "task", "that no night has used"))
    if said := ", ".join(f"{number(count, noun)} {what}" for count, noun, what in waiting if count):
        yield f"For the next night: {said}."
