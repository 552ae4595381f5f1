"""The rows that every report is made of: what was learnt and on whose words, and what each test task showed.

Strings here are ready to be shown (``plain``), and not yet escaped for any markup.
"""

from __future__ import annotations

import enum
from pathlib import PurePath

from msgspec import Struct

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.edit import AppliedEdit, EditOp, EditStatus
from skillopt_sleep.night.report import HoldoutRow, NightReport, TrialReport
from skillopt_sleep.reports.words import DOCUMENTS, plain

INTENT = 90
"""Characters of a task in a table."""

QUOTED = 160
"""Characters of a person's words that are quoted."""

WORDS = 2
"""Quotes shown for one rule; the evidence file has all of them."""


class Outcome(enum.StrEnum):
    """What a change did to one task."""

    BETTER = "better"
    WORSE = "worse"
    MIXED = "now better, now worse"
    SAME = "the same"
    UNMEASURED = "not measured"


class TaskRow(Struct, frozen=True, kw_only=True):
    """One task under both arms. ``task`` is what was asked, or its id where that is not known."""

    task: str
    before: HoldoutRow
    after: HoldoutRow
    outcome: Outcome


class RuleRow(Struct, frozen=True, kw_only=True):
    """One edit as a reader meets it.

    ``does`` says what happens to the document at ``path`` ("" where nothing is staged for it), ``instead_of`` is the
    rule that gives way, ``words`` are the person's corrections it stands on, ``why`` says what became of it.
    """

    text: str
    does: str
    path: str
    instead_of: str
    reason: str
    words: tuple[str, ...]
    why: str


def task_rows(report: NightReport) -> tuple[TaskRow, ...]:
    """The tasks that tested the change, before and after; what changed comes first."""
    after = {row.id: row for row in report.holdout_detail.candidate}
    labels = {label.id: plain(label.intent, QUOTED) for label in report.tasks}
    shown = _shown(report)
    pairs = [
        TaskRow(
            task=labels.get(before.id, plain(before.id)),
            before=before,
            after=after[before.id],
            outcome=_counted(before.id, shown) or _outcome(before, after[before.id], report.gate_metric),
        )
        for before in report.holdout_detail.baseline
        if before.id in after
    ]
    return tuple(sorted(pairs, key=lambda pair: list(Outcome).index(pair.outcome)))


def held(report: NightReport) -> tuple[AppliedEdit, ...]:
    """The edits that were held back, without those that are pending and shown as such."""
    pending = {edit for each in report.pending for edit in each.edits}
    return tuple(
        each for each in report.held_edits if each.status is not EditStatus.PENDING or each.edit.id not in pending
    )


def rule_row(applied: AppliedEdit, report: NightReport) -> RuleRow:
    """One edit of the night in words."""
    edit = applied.edit
    paths = {change.kind: within(change.path, report.project) for change in report.documents}
    labels = {label.id: label for label in report.tasks}
    words = (quote for task in edit.task_ids if task in labels for quote in labels[task].words)
    return RuleRow(
        text=bare(edit.text if edit.op is not EditOp.DELETE else edit.anchor),
        does=f"{_DOES[edit.op]} the {DOCUMENTS[edit.document]}",
        path=paths.get(edit.document, ""),
        instead_of=bare(edit.anchor) if edit.op is EditOp.REPLACE else "",
        reason=plain(edit.reason),
        words=tuple(dict.fromkeys(plain(quote, QUOTED) for quote in words))[:WORDS],
        why=plain(applied.why),
    )


def within(path: str, project: str) -> str:
    """A path as seen from the project where it lies inside, else as it is."""
    whole = PurePath(path)
    return plain(str(whole.relative_to(project)) if project and whole.is_relative_to(project) else path)


def bare(rule: str) -> str:
    """A rule without its bullet."""
    return plain(rule).removeprefix("- ")


def _value(row: HoldoutRow, metric: str) -> float | None:
    """The number that is compared; mixed at equal weights, which orders as any other weight unless both disagree."""
    if row.hard is None or row.soft is None:
        return None
    return {"hard": row.hard, "soft": row.soft}.get(metric, (row.hard + row.soft) / 2)


def _shown(report: NightReport) -> TrialReport | None:
    """The trial that the night's detail is of: the last accepted one, else the last."""
    trials = [each for each in report.trials if each.decision.pairs]
    accepted = [each for each in trials if each.decision.verdict is Verdict.ACCEPT]
    return next(reversed(accepted or trials), None)


def _counted(task: str, trial: TrialReport | None) -> Outcome | None:
    """What the paired rule made of a task's replays; None where it counted none of them, or another rule decided."""
    if trial is None or trial.k is None:
        return None
    won, lost = task in trial.improved, task in trial.worsened
    return Outcome.MIXED if won and lost else Outcome.BETTER if won else Outcome.WORSE if lost else None


def _outcome(before: HoldoutRow, after: HoldoutRow, metric: str) -> Outcome:
    old, new = _value(before, metric), _value(after, metric)
    if old is None or new is None:
        return Outcome.UNMEASURED
    return Outcome.SAME if new == old else Outcome.BETTER if new > old else Outcome.WORSE


_DOES = {
    EditOp.APPEND: "new in",
    EditOp.INSERT_AFTER: "new in",
    EditOp.REPLACE: "changed in",
    EditOp.DELETE: "taken out of",
}
