"""The rows of every night report: each rule with the words it rests on, and each test task before and after.

Strings are safe to show (``plain``) but not yet escaped for Markdown.
"""

from __future__ import annotations

import enum
from pathlib import PurePath

from msgspec import Struct

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.edit import AppliedEdit, EditOp, EditStatus
from skillopt_sleep.night.report import HoldoutRow, NightReport, PendingReport, TaskLabel, TrialReport
from skillopt_sleep.reports.formatting import DOCUMENTS, number, plain

TASK_CHARACTERS = 90
"""Characters of a task in a table."""

SHORT = 60
"""Characters of the person's words, and of the request before them, where both name a task."""

QUOTE_CHARACTERS = 160
"""Characters of a quotation of the person."""

QUOTES = 2
"""Quotations shown for one rule; the evidence file has all of them."""

OPERATIONS = {
    EditOp.APPEND: "new in",
    EditOp.INSERT_AFTER: "new in",
    EditOp.REPLACE: "changed in",
    EditOp.DELETE: "removed from",
}
"""What an edit does to its document."""


class Outcome(enum.StrEnum):
    """How one task fared with the change; the members are in the order in which reports list them."""

    BETTER = "better"
    WORSE = "worse"
    MIXED = "mixed"
    SAME = "the same"
    UNMEASURED = "not measured"


class TaskRow(Struct, frozen=True, kw_only=True):
    """One test task without and with the change."""

    task: str
    """The request, or at a moment what the person said; the task's id when the request is not known."""
    label: TaskLabel | None
    before: HoldoutRow
    after: HoldoutRow
    outcome: Outcome


class RuleRow(Struct, frozen=True, kw_only=True):
    """One edit as a reader meets it."""

    text: str
    does: str
    """What happens to which document: "new in the skill"."""
    path: str
    """The document's file, "" when nothing is staged for it."""
    instead_of: str
    """The rule that is replaced, "" when none is."""
    reason: str
    words: tuple[str, ...]
    """The person's own corrections that the rule rests on."""
    why: str
    """Why the edit ended as it did."""
    moments: str = ""
    """What came of it where the person stepped in, and where its lesson applies besides; "" when nothing is known."""


def list_tasks(report: NightReport) -> tuple[TaskRow, ...]:
    """Return the tasks that tested the change; those that changed come first."""
    after = {row.id: row for row in report.holdout_detail.candidate}
    labels = {label.id: label for label in report.tasks}
    trial = _reported_trial(report)
    rows = [
        TaskRow(
            task=describe_task(labels[before.id]) if before.id in labels else plain(before.id),
            label=labels.get(before.id),
            before=before,
            after=after[before.id],
            outcome=_counted_outcome(before.id, trial) or _compare(before, after[before.id], report.gate_metric),
        )
        for before in report.holdout_detail.baseline
        if before.id in after
    ]
    return tuple(sorted(rows, key=lambda row: list(Outcome).index(row.outcome)))


def describe_task(label: TaskLabel) -> str:
    """Say what a task is about: its request or, at a moment, what the person said there."""
    if not (label.moment and label.words):
        return plain(label.intent, QUOTE_CHARACTERS)
    said, asked = plain(label.words[0], SHORT), plain(label.intent, SHORT)
    return f"where “{said}” applies too: {asked}" if label.sibling else f"you said “{said}” after {asked}"


def list_said(report: NightReport) -> tuple[PendingReport, ...]:
    """Return the undecided rules that are standing wishes of the person, who may adopt them one by one."""
    return tuple(pending for pending in report.pending if pending.you_said_so)


def list_undecided(report: NightReport) -> tuple[PendingReport, ...]:
    """Return the undecided rules without those that reports list as said by the person."""
    return tuple(pending for pending in report.pending if not pending.you_said_so)


def list_held_back(report: NightReport) -> tuple[AppliedEdit, ...]:
    """Return the edits that were held back, without the pending ones, which reports list on their own."""
    pending = {edit for change in report.pending for edit in change.edits}
    return tuple(
        held for held in report.held_edits if held.status is not EditStatus.PENDING or held.edit.id not in pending
    )


def describe_rule(applied: AppliedEdit, report: NightReport) -> RuleRow:
    """One edit of the night as a row."""
    edit = applied.edit
    paths = {change.kind: relative_to_project(change.path, report.project) for change in report.documents[::-1]}
    labels = {label.id: label for label in report.tasks}
    words = (quote for task in edit.task_ids if task in labels for quote in labels[task].words)
    return RuleRow(
        text=without_bullet(edit.anchor if edit.op is EditOp.DELETE else edit.text),
        does=f"{OPERATIONS[edit.op]} the {DOCUMENTS[edit.document]}",
        path=paths.get(edit.document, ""),
        instead_of=without_bullet(edit.anchor) if edit.op is EditOp.REPLACE else "",
        reason=plain(edit.reason),
        words=tuple(dict.fromkeys(plain(quote, QUOTE_CHARACTERS) for quote in words))[:QUOTES],
        why=plain(applied.why),
        moments=describe_moments(applied, report),
    )


def describe_moments(applied: AppliedEdit, report: NightReport) -> str:
    """Say where a rule comes from and what came of it, in moments; "" for one that rests on none."""
    labels = {label.id: label for label in report.tasks if label.moment}
    written = [labels[task] for task in applied.edit.task_ids if task in labels]
    lessons = {label.moment for label in written}
    trials = [trial for trial in report.trials if applied.edit.id in trial.edits]
    measured = dict.fromkeys(task for trial in trials for task in trial.measured if task in labels)
    heeded = {task for trial in trials for task in trial.heeded}
    worse = {task for trial in trials for task in trial.worsened}
    parts = [f"written from {number(len(written), 'correction')} of yours"] if written else []
    places = [task for task in measured if labels[task].sibling and labels[task].moment in lessons]
    if places:
        count, lost = len(heeded.intersection(places)), len(worse.intersection(places))
        parts.append(
            f"at {count} of {number(len(places), 'other place')} where it applies the agent now does it unasked, and"
            f" did worse at {lost or 'none'}"
        )
    own = [task for task in measured if not labels[task].sibling]
    if own:
        parts.append(f"at moments of yours it heeds you {len(heeded.intersection(own))} of {number(len(own), 'time')}")
    return "; ".join(parts)


def relative_to_project(path: str, project: str) -> str:
    """Return a path as seen from the project when it lies inside, else unchanged."""
    whole = PurePath(path)
    return plain(str(whole.relative_to(project)) if project and whole.is_relative_to(project) else path)


def without_bullet(rule: str) -> str:
    """Return a rule without its list mark."""
    return plain(rule).removeprefix("- ")


def _reported_trial(report: NightReport) -> TrialReport | None:
    """Return the trial that the task details belong to: the last accepted one, else the last."""
    trials = [trial for trial in report.trials if trial.decision.pairs]
    accepted = [trial for trial in trials if trial.decision.verdict is Verdict.ACCEPT]
    return next(reversed(accepted or trials), None)


def _counted_outcome(task: str, trial: TrialReport | None) -> Outcome | None:
    """Return how the paired rule counted a task; None when it counted none of its pairs, or another rule decided."""
    if trial is None or trial.k is None:
        return None
    won, lost = task in trial.improved, task in trial.worsened
    return Outcome.MIXED if won and lost else Outcome.BETTER if won else Outcome.WORSE if lost else None


def _compare(before: HoldoutRow, after: HoldoutRow, metric: str) -> Outcome:
    old, new = _score(before, metric), _score(after, metric)
    if old is None or new is None:
        return Outcome.UNMEASURED
    return Outcome.SAME if new == old else Outcome.BETTER if new > old else Outcome.WORSE


def _score(row: HoldoutRow, metric: str) -> float | None:
    """Return the compared number.

    Mixed uses equal weights: any other weight orders alike unless hard and soft disagree.
    """
    if row.hard is None or row.soft is None:
        return None
    return {"hard": row.hard, "soft": row.soft}.get(metric, (row.hard + row.soft) / 2)
