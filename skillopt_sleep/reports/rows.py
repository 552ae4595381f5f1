"""The rows that every report is made of: what was learnt and on whose words, and what each test task showed.

Strings here are ready to be shown (``plain``), and not yet escaped for any markup.
"""

from __future__ import annotations

import enum
from pathlib import PurePath

from msgspec import Struct

from skillopt_sleep.domain.edit import AppliedEdit, EditOp
from skillopt_sleep.domain.report import HoldoutRow, NightReport
from skillopt_sleep.reports.phrases import DOCUMENTS
from skillopt_sleep.reports.plain import plain

__all__ = ["Outcome", "RuleRow", "TaskRow", "rule_row", "task_rows", "within"]

QUOTED = 160
"""Characters of a person's words that are quoted."""

WORDS = 2
"""Quotes shown for one rule; the evidence file has all of them."""


class Outcome(enum.StrEnum):
    """What a change did to one task."""

    BETTER = "better"
    WORSE = "worse"
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
    pairs = [
        TaskRow(
            task=labels.get(before.id, plain(before.id)),
            before=before,
            after=after[before.id],
            outcome=_outcome(_value(before, report.gate_metric), _value(after[before.id], report.gate_metric)),
        )
        for before in report.holdout_detail.baseline
        if before.id in after
    ]
    return tuple(sorted(pairs, key=lambda pair: list(Outcome).index(pair.outcome)))


def rule_row(applied: AppliedEdit, report: NightReport) -> RuleRow:
    """One edit of the night in words."""
    edit = applied.edit
    paths = {change.kind: within(change.path, report.project) for change in report.documents}
    labels = {label.id: label for label in report.tasks}
    words = (quote for task in edit.task_ids if task in labels for quote in labels[task].words)
    return RuleRow(
        text=_bare(edit.text if edit.op is not EditOp.DELETE else edit.anchor),
        does=f"{_DOES[edit.op]} the {DOCUMENTS[edit.document]}",
        path=paths.get(edit.document, ""),
        instead_of=_bare(edit.anchor) if edit.op is EditOp.REPLACE else "",
        reason=plain(edit.reason),
        words=tuple(dict.fromkeys(plain(quote, QUOTED) for quote in words))[:WORDS],
        why=plain(applied.why),
    )


def within(path: str, project: str) -> str:
    """A path as seen from the project where it lies inside, else as it is."""
    whole = PurePath(path)
    return plain(str(whole.relative_to(project)) if project and whole.is_relative_to(project) else path)


def _bare(rule: str) -> str:
    """A rule without its bullet."""
    return plain(rule).removeprefix("- ")


def _value(row: HoldoutRow, metric: str) -> float | None:
    """The number that is compared; mixed at equal weights, which orders as any other weight unless both disagree."""
    if row.hard is None or row.soft is None:
        return None
    return {"hard": row.hard, "soft": row.soft}.get(metric, (row.hard + row.soft) / 2)


def _outcome(before: float | None, after: float | None) -> Outcome:
    if before is None or after is None:
        return Outcome.UNMEASURED
    return Outcome.SAME if after == before else Outcome.BETTER if after > before else Outcome.WORSE


_DOES = {
    EditOp.APPEND: "new in",
    EditOp.INSERT_AFTER: "new in",
    EditOp.REPLACE: "changed in",
    EditOp.DELETE: "taken out of",
}
