"""An edit that is not decided yet, with its tally: it goes on the next night, as long as nothing beneath it moved."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.domain.candidate import Candidate
from skillopt_sleep.domain.document import Document, DocumentKind
from skillopt_sleep.domain.edit import EditRecord, EditStatus, apply_edits
from skillopt_sleep.domain.paired import PAIRS_A_LIFE, Tally, needs
from skillopt_sleep.domain.task import TaskRecord, group_of

__all__ = ["Dropped", "PendingEdit", "base_digest", "revive"]


def base_digest(document: Document) -> str:
    """Digest of the text an edit was tried on; a file that is not there has one of its own."""
    import hashlib  # noqa: PLC0415  `status` reads this module and digests nothing

    return hashlib.sha256(document.content if document.content is not None else b"\0absent").hexdigest()


class PendingEdit(Struct, frozen=True, kw_only=True):
    """The edits of one document that were tried together.

    ``groups`` are the task groups its own reflection has seen, and the ids of their tasks, for a group may come to be
    part of another: it is never tried on them. ``k`` is the score that
    accepts, fixed when it was first tried; ``night`` is that night.
    """

    id: str
    night: str
    kind: DocumentKind
    base: str
    model: str
    k: int
    edits: tuple[EditRecord, ...]
    groups: tuple[str, ...]
    tally: Tally
    nights: int = 1

    def unseen(self, tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
        """The tasks of groups that its own reflection has not seen, whatever a group has come to be called since."""
        seen = {*self.groups, *(group_of(task) for task in tasks if task.id in self.groups)}
        return tuple(task for task in tasks if group_of(task) not in seen)

    @property
    def needs(self) -> str:
        """What it would take: "2 more wins"."""
        return needs(self.tally, self.k)


class Dropped(Struct, frozen=True, kw_only=True):
    """A pending edit that cannot go on, and why."""

    edit: PendingEdit
    why: str


def revive(pending: PendingEdit, current: Candidate, model: str) -> Candidate | Dropped:
    """The candidate that goes on with an edit, or why it cannot: what was measured must still be what is measured."""
    document = current[pending.kind]
    if document is None or base_digest(document) != pending.base:
        return Dropped(edit=pending, why=f"the text of the {pending.kind} it was tried on has changed")
    if model != pending.model:
        return Dropped(edit=pending, why=f"the model has changed, from {pending.model} to {model}")
    if pending.tally.pairs >= PAIRS_A_LIFE:
        return Dropped(edit=pending, why=f"undecided after {pending.tally.pairs} pairs")
    changed, applied = apply_edits(document, pending.edits, cap=None)
    if any(each.status is not EditStatus.APPLIED for each in applied):
        return Dropped(edit=pending, why="it can no longer be applied")
    return current.with_document(changed)
