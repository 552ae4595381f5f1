"""A night on one screen: what ``run`` prints at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.edit import AppliedEdit
from skillopt_sleep.night.report import NightReport, PendingReport
from skillopt_sleep.reports.blocks import Cell, Facts, Items, Line, Page, Part, Section, Tone
from skillopt_sleep.reports.formatting import (
    DOCUMENTS,
    describe_earlier_spend,
    describe_expectation,
    list_left_out,
    money,
    number,
    plain,
)
from skillopt_sleep.reports.headline import TONES, summarize_night
from skillopt_sleep.reports.measurements import (
    describe_account,
    describe_pending,
    describe_trial,
    paired_trials,
    summarize_audit,
    summarize_sealed,
)
from skillopt_sleep.reports.rows import (
    Outcome,
    describe_rule,
    list_held_back,
    list_said,
    list_tasks,
    list_undecided,
    without_bullet,
)

MOST = 6
"""Rules shown of each kind, and tasks of each outcome; ``show`` prints all of them."""

TASK_CHARACTERS = 76
"""Characters of a task, so that it takes one line of a usual window."""

MISSING_FOLDER = "no such folder"
"""The reason a source gives for a folder that does not exist."""


def describe_summary(
    report: NightReport, *, program: str = "skillopt-sleep", place: str = "", again: Sequence[str] = ()
) -> Page:
    """Return how the night ended, what to do now, its rules, and what it cost.

    ``program`` is how this program is called here, ``place`` the options that lead a command to this night, and
    ``again`` the options of this run, all of which a run that continues it needs.
    """
    headline = summarize_night(report)
    steps = [
        (_complete(step.command, place, again).replace("skillopt-sleep", program, 1), step.effect)
        for step in headline.steps
    ]
    facts = (
        ("Read", _read(report)),
        ("Left out", _left_out(report)),
        ("Spent", _spent(report)),
        ("In total", describe_account(report.account)),
        ("Noise", summarize_audit(report.audit)),
        ("Sealed", summarize_sealed(report.sealed) if report.sealed else ""),
    )
    return (
        Section(headline.ending, (Line(headline.text, TONES.get(headline.ending, Tone.PLAIN)),)),
        Section("Now", (headline.now, *([Facts(steps)] if steps else []))),
        Section("Learnt" if report.accepted else "Tried", _list_rules(report.applied_edits, report)),
        Section("Dropped", _list_rules(report.rejected_edits, report)),
        Section("You said so", _list_pending(list_said(report), report)),
        Section("Pending", _list_pending(list_undecided(report), report)),
        Section("Held back", _list_rules(list_held_back(report), report)),
        Section("Tested", tuple(_list_trials(report))),
        Section("Better", _list_tasks(report, Outcome.BETTER)),
        Section("Worse", _list_tasks(report, Outcome.WORSE)),
        Section("", (Facts([(label, text) for label, text in facts if text]),)),
        Section("Notes", tuple(map(plain, report.notes))),
    )


def _complete(command: str, place: str, again: Sequence[str]) -> str:
    """Return the command with the options it needs here; options it already names keep their value."""
    if command.split()[1:2] == ["run"] and again:
        return " ".join([command, *(option for option in again if option.split()[0] not in command.split())])
    return command + place


def _list_rules(edits: Sequence[AppliedEdit], report: NightReport) -> tuple[Part, ...]:
    items: list[list[Cell]] = []
    for row in (describe_rule(applied, report) for applied in edits):
        about = [row.why] if row.why else [f"{row.does} {row.path}", *(f"you said: “{said}”" for said in row.words[:1])]
        items.append([row.text, *about, *([row.moments] if row.moments else [])])
    return _list_first(items)


def _list_pending(rules_on_trial: Sequence[PendingReport], report: NightReport) -> tuple[Part, ...]:
    items: list[list[Cell]] = []
    for pending in rules_on_trial:
        *others, last = map(without_bullet, pending.rules)
        rules = "; together with: ".join([*(rule.removesuffix(".") for rule in others), last])
        items.append([rules, Line(describe_pending(pending, report.night), Tone.QUIET)])
    return _list_first(items)


def _list_trials(report: NightReport) -> Iterator[Cell]:
    """Yield tonight's paired trials, without those listed as pending."""
    pending = {change.edits for change in report.pending}
    for trial in paired_trials(report):
        if trial.decision.verdict is not Verdict.UNDECIDED or trial.edits not in pending:
            yield f"{DOCUMENTS.get(trial.document, plain(trial.document))}: {describe_trial(trial)}"


def _list_tasks(report: NightReport, outcome: Outcome) -> tuple[Part, ...]:
    """Return the tasks on which the change made that difference, one line each."""
    return _list_first([[plain(row.task, TASK_CHARACTERS)] for row in list_tasks(report) if row.outcome is outcome])


def _list_first(items: Sequence[Sequence[Cell]]) -> tuple[Part, ...]:
    more = [f"and {len(items) - MOST} more"] if len(items) > MOST else []
    return (Items(items[:MOST]), *more) if items else ()


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
