"""A night on one screen: what ``run`` prints at its end.

Nothing is coloured here, so that a pipe, a log and a test read what a person reads.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.night.report import NightReport
from skillopt_sleep.reports.formatting import (
    DOCUMENTS,
    describe_earlier_spend,
    describe_expectation,
    list_left_out,
    money,
    number,
    plain,
)
from skillopt_sleep.reports.headline import Headline, summarize_night
from skillopt_sleep.reports.measurements import (
    describe_account,
    describe_pending,
    describe_trial,
    paired_trials,
    summarize_audit,
    summarize_sealed,
)
from skillopt_sleep.reports.rows import Outcome, describe_rule, list_held_back, list_tasks, without_bullet

LABEL = 12
"""Columns of the labels on the left."""

MIN_WIDTH = 40
"""A narrower window gets lines of this many columns."""

MOST = 6
"""Rules shown of each kind, and tasks of each outcome; ``show`` prints all of them."""

MISSING_FOLDER = "no such folder"
"""The reason a source gives for a folder that does not exist."""


def render_summary(
    report: NightReport, *, width: int, program: str = "skillopt-sleep", place: str = "", again: Sequence[str] = ()
) -> str:
    """Return the lines, without a final newline; only a command or a single long word is wider than ``width`` columns.

    ``program`` is how this program is called here, ``place`` the options that lead a command to this night, and
    ``again`` the options of this run, all of which a run that continues it needs.
    """
    headline = summarize_night(report)
    width = max(width, MIN_WIDTH)
    sections = [
        _entry(headline.ending, headline.text, width),
        [*_entry("Now", headline.now, width), *_steps(headline, width, program, place, again)],
        list(_rules("Learnt" if report.accepted else "Tried", report.applied_edits, report, width)),
        list(_rules("Dropped", report.rejected_edits, report, width)),
        list(_pending(report, width)),
        list(_rules("Held back", list_held_back(report), report, width)),
        list(_trials(report, width)),
        list(_tasks(report, width)),
        [
            *_entry("Read", _read(report), width),
            *_entry("Left out", _left_out(report), width),
            *_entry("Spent", _spent(report), width),
            *_entry("In total", describe_account(report.account), width),
            *_entry("Noise", summarize_audit(report.audit), width),
            *_entry("Sealed", summarize_sealed(report.sealed) if report.sealed else "", width),
        ],
        [line for note in report.notes for line in _entry("Note", plain(note), width)],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _entry(label: str, text: str, width: int, *, hang: int = 0) -> list[str]:
    """Return a text beside its label, wrapped, later lines ``hang`` columns further in; nothing for no text."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=f"{label:<{LABEL}}",
        subsequent_indent=" " * (LABEL + hang),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _steps(headline: Headline, width: int, program: str, place: str, again: Sequence[str]) -> Iterator[str]:
    """Commands, never broken, each with its effect beside it or, where the window is too narrow, below."""
    indent = " " * LABEL
    commands = [_complete(step.command, place, again).replace("skillopt-sleep", program, 1) for step in headline.steps]
    longest = max(map(len, commands), default=0)
    for command, step in zip(commands, headline.steps, strict=True):
        beside = f"{indent}{command:<{longest}}  {step.effect}"
        if len(beside) <= width:
            yield beside
        else:
            yield from (f"{indent}{command}", *_entry("", f"  {step.effect}", width, hang=2))


def _complete(command: str, place: str, again: Sequence[str]) -> str:
    """Return the command with the options it needs here; options it already names keep their value."""
    if command.split()[1:2] == ["run"] and again:
        return " ".join([command, *(option for option in again if option.split()[0] not in command.split())])
    return command + place


def _rules(label: str, edits: Sequence[AppliedEdit], report: NightReport, width: int) -> Iterator[str]:
    for count, applied in enumerate(edits[:MOST], start=1):
        row = describe_rule(applied, report)
        about = [row.why] if row.why else [f"{row.does} {row.path}", *(f"you said: “{said}”" for said in row.words[:1])]
        about += [row.moments] if row.moments else []
        yield from _entry(label if count == 1 else "", f"{count}. {row.text}", width, hang=3)
        yield from (line for text in about for line in _entry("", f"   {text}", width, hang=3))
    yield from _more(len(edits), width)


def _pending(report: NightReport, width: int) -> Iterator[str]:
    for count, pending in enumerate(report.pending[:MOST], start=1):
        *others, last = map(without_bullet, pending.rules)
        rules = "; together with: ".join([*(rule.removesuffix(".") for rule in others), last])
        yield from _entry("Pending" if count == 1 else "", f"{count}. {rules}", width, hang=3)
        yield from _entry("", f"   {describe_pending(pending, report.night)}", width, hang=3)
    yield from _more(len(report.pending), width)


def _trials(report: NightReport, width: int) -> Iterator[str]:
    """Tonight's paired trials, without those listed as pending."""
    pending = {change.edits for change in report.pending}
    trials = [
        trial
        for trial in paired_trials(report)
        if trial.decision.verdict is not Verdict.UNDECIDED or trial.edits not in pending
    ]
    for count, trial in enumerate(trials):
        document = DOCUMENTS.get(trial.document, plain(trial.document))
        yield from _entry("" if count else "Tested", f"{document}: {describe_trial(trial)}", width, hang=2)


def _tasks(report: NightReport, width: int) -> Iterator[str]:
    """Yield the tasks on which the change made a difference, one line each."""
    rows = list_tasks(report)
    for outcome in (Outcome.BETTER, Outcome.WORSE):
        tasks = [row.task for row in rows if row.outcome is outcome]
        for count, task in enumerate(tasks[:MOST]):
            yield from _entry(outcome.capitalize() if count == 0 else "", plain(task, width - LABEL), width)
        yield from _more(len(tasks), width)


def _more(count: int, width: int) -> list[str]:
    return _entry("", f"and {count - MOST} more", width) if count > MOST else []


def _read(report: NightReport) -> str:
    counts = report.counts
    if not (counts.sessions or counts.prompts):
        return "nothing new"
    read = f"{number(counts.sessions, 'session')}, {number(counts.prompts, 'new prompt')}"
    gave = f" -> {number(counts.tasks, 'task')}: {counts.train} to learn from, {counts.val} to test on"
    return f"{read}, {number(counts.corrections, 'correction')}{gave if counts.tasks else ''}"


def _left_out(report: NightReport) -> str:
    counts = report.counts
    skipped: Counter[str] = Counter()
    for skip in report.skipped:
        kind = "line" if skip.line else "folder" if skip.reason == MISSING_FOLDER else "file"
        skipped[kind] += skip.count
    left = (
        (skipped["file"], "unreadable file", ""),
        (skipped["line"], "unreadable line", ""),
        (skipped["folder"], "folder that does not exist", "folders that do not exist"),
        (len(report.refused), "unsuitable task or rule", "unsuitable tasks or rules"),
        (counts.waiting, "session kept for the next night", "sessions kept for the next night"),
        (counts.left, "task kept for the next night", "tasks kept for the next night"),
    )
    sessions = list_left_out(out_of_scope=counts.out_of_scope, older=counts.older, unplaced=counts.unplaced)
    return "; ".join((*(number(count, one, many) for count, one, many in left if count), *sessions))


def _spent(report: NightReport) -> str:
    caps, spend = report.caps, report.spend
    if not spend.calls:
        return "nothing: no model was called"
    used = (
        f"{number(spend.calls)} of {number(caps.calls)} calls",
        f"{number(spend.tokens)} of {number(caps.tokens)} tokens",
        f"{money(spend)} (cap ${caps.usd:,.2f})",
        f"{spend.seconds / 60:.1f} of {caps.minutes:g} minutes",
    )
    return "; ".join(filter(None, (", ".join(used), describe_earlier_spend(report), describe_expectation(report))))
