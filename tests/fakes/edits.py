"""Edits of a skill, and a parallel map that uses no threads."""

from __future__ import annotations

from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord, compute_edit_id


def record(text, *, op="append", anchor="", tasks=()):
    """Make an edit of the skill as an analyst proposes it."""
    kind, op = DocumentKind.SKILL, EditOp(op)
    return EditRecord(
        id=compute_edit_id(op, kind, text, anchor), op=op, document=kind, text=text, anchor=anchor, task_ids=tasks
    )


def in_order(work, items):
    """``ports.Parallel`` without threads."""
    return [work(item) for item in items]
