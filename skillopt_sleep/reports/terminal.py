"""The same night in a screen of plain lines: what is printed when a run ends, and by ``show``.

Nothing is coloured here, so that a pipe, a log and a test read what a person reads; the command line colours the first
word, which is ``ending.Word``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.night.report import NightReport
from skillopt_sleep.reports import tally, trust
from skillopt_sleep.reports.ending import Ending, ending
from skillopt_sleep.reports.rows import Outcome, RuleRow, bare, held, rule_row, task_rows
from skillopt_sleep.reports.words import DOCUMENTS, earlier, expected, money, number, plain

LABEL = 12
"""Columns of the labels on the left."""

LEAST = 40
"""A narrower window is written for as if it had this many columns."""

MOST = 6
"""Rules shown of each kind, and tasks of each outcome; the report has all of them."""


def render(
    report: NightReport, *, width: int, program: str = "skillopt-sleep", place: str = "", again: Sequence[str] = ()
) -> str:
    """The lines, none wider than ``width`` columns but for a command or a single word; not ended by a newline.

    ``program`` is how this program is called here, ``place`` the options that lead a command to this night, ``again``
    those that the run was given: a run that is to go on with it needs them all.
    """
    told = ending(report)
    room = max(width, LEAST)
    sections = [
        _entry(told.word, told.says, room),
        [*_entry("Now", told.now, room), *_steps(told, room, program, place, again)],
        list(_rules("Learnt" if report.accepted else "Tried", report.applied_edits, report, room)),
        list(_rules("Dropped", report.rejected_edits, report, room)),
        list(_pending(report, room)),
        list(_rules("Held back", held(report), report, room)),
        list(_tested(report, room)),
        list(_tasks(report, room)),
        [
            *_entry("Read", _read(report), room),
            *_entry("Left out", _left_out(report), room),
            *_entry("Spent", _spent(report), room),
            *_entry("Account", tally.account(report.account), room),
            *_entry("Noise", trust.brief(report.audit), room),
            *_entry("Sealed", trust.sealed_brief(report.sealed) if report.sealed else "", room),
        ],
        [line for note in report.notes for line in _entry("Note", plain(note), room)],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _entry(label: str, text: str, room: int, *, hang: int = 0) -> list[str]:
    """A text beside its label, wrapped, its later lines ``hang`` columns further in; nothing for no text."""
    return textwrap.wrap(
        text,
        room,
        initial_indent=f"{label:<{LABEL}}",
        subsequent_indent=" " * (LABEL + hang),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _steps(told: Ending, room: int, program: str, place: str, again: Sequence[str]) -> Iterator[str]:
    """Commands, never broken, each with what it does beside it or, where that is too narrow, under it."""
    indent = " " * LABEL
    commands = [_options(step.command, place, again).replace("skillopt-sleep", program, 1) for step in told.steps]
    longest = max(map(len, commands), default=0)
    for command, step in zip(commands, told.steps, strict=True):
        beside = f"{indent}{command:<{longest}}  {step.effect}"
        if len(beside) <= room:
            yield beside
        else:
            yield from (f"{indent}{command}", *_entry("", f"  {step.effect}", room, hang=2))


def _options(command: str, place: str, again: Sequence[str]) -> str:
    """The command with the options it needs here: what it names itself stays as it has it."""
    if command.split()[1:2] == ["run"] and again:
        return " ".join([command, *(each for each in again if each.split()[0] not in command.split())])
    return command + place


def _rules(label: str, edits: Sequence[AppliedEdit], report: NightReport, room: int) -> Iterator[str]:
    for count, applied in enumerate(edits[:MOST], start=1):
        row = rule_row(applied, report)
        yield from _entry(label if count == 1 else "", f"{count}. {row.text}", room, hang=3)
        yield from (line for about in _about(row) for line in _entry("", f"   {about}", room, hang=3))
    if len(edits) > MOST:
        yield from _entry("", f"and {len(edits) - MOST} more", room)


def _pending(report: NightReport, room: int) -> Iterator[str]:
    """What is not decided yet, and what it would take."""
    for count, pending in enumerate(report.pending[:MOST], start=1):
        rules = "; and with it: ".join(map(bare, pending.rules))
        yield from _entry("Pending" if count == 1 else "", f"{count}. {rules}", room, hang=3)
        yield from _entry("", f"   {tally.going_on(pending, report.night)}", room, hang=3)
    if len(report.pending) > MOST:
        yield from _entry("", f"and {len(report.pending) - MOST} more", room)


def _tested(report: NightReport, room: int) -> Iterator[str]:
    """The paired trials of tonight; those that go on stand under what is pending."""
    pending = {each.edits for each in report.pending}
    trials = [
        each
        for each in tally.paired(report)
        if each.decision.verdict is not Verdict.UNDECIDED or each.edits not in pending
    ]
    for count, each in enumerate(trials):
        document = DOCUMENTS.get(each.document, plain(each.document))
        yield from _entry("" if count else "Tested", f"{document}: {tally.trial(each)}", room, hang=2)


def _about(row: RuleRow) -> Iterator[str]:
    if row.why:
        yield row.why
        return
    yield f"{row.does} {row.path}".rstrip()
    yield from (f"you said: “{words}”" for words in row.words[:1])


def _tasks(report: NightReport, room: int) -> Iterator[str]:
    """The tasks on which the change made a difference, one line each."""
    rows = task_rows(report)
    for outcome in (Outcome.BETTER, Outcome.WORSE):
        tasks = [row.task for row in rows if row.outcome is outcome]
        for count, task in enumerate(tasks[:MOST]):
            yield from _entry(outcome.capitalize() if count == 0 else "", plain(task, room - LABEL), room)
        if len(tasks) > MOST:
            yield from _entry("", f"and {len(tasks) - MOST} more", room)


def _read(report: NightReport) -> str:
    counts = report.counts
    if not (counts.sessions or counts.prompts):
        return "nothing new"
    read = f"{number(counts.sessions, 'session')}, {number(counts.prompts, 'new prompt')}"
    gave = f" -> {number(counts.tasks, 'task')}: {counts.train} to learn from, {counts.val} to test on"
    return f"{read}, {number(counts.corrections, 'correction')}{gave if counts.tasks else ''}"


def _left_out(report: NightReport) -> str:
    counts = report.counts
    left = (
        (sum(skip.count for skip in report.skipped), "line or file", "lines or files", "that cannot be read"),
        (len(report.refused), "task or rule", "tasks or rules", "refused"),
        (counts.waiting, "session", "", "kept for the next night"),
        (counts.left, "task", "", "kept for the next night"),
        (counts.out_of_scope, "session", "", "of other projects"),
    )
    return "; ".join(f"{number(count, noun, plural)} {what}" for count, noun, plural, what in left if count)


def _spent(report: NightReport) -> str:
    caps, spend = report.caps, report.spend
    if not spend.calls:
        return "nothing, no model was called"
    used = ((spend.calls, caps.calls, "calls"), (spend.tokens, caps.tokens, "tokens"))
    parts = [f"{number(done)} of {number(cap)} {what}" for done, cap, what in used]
    parts += [f"{money(spend)} (cap ${caps.usd:,.2f})", f"{spend.seconds / 60:.1f} of {caps.minutes:g} minutes"]
    return "; ".join(filter(None, (", ".join(parts), earlier(report), expected(report))))
