"""An edit that is not decided yet, with its tally: it goes on the next night, as long as nothing beneath it moved."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.candidate import Candidate
from skillopt_sleep.domain.document import Document, DocumentKind
from skillopt_sleep.domain.edit import EditRecord, EditStatus, apply_edits
from skillopt_sleep.domain.paired import GO_ON_AT, PAIRS_A_LIFE, Tally, needs
from skillopt_sleep.domain.task import TaskRecord, group_of

__all__ = ["Dropped", "PendingEdit", "base_digest", "crowded_out", "revive", "tonight"]

BEHIND_A_NIGHT = 2
"""Edits that are behind, with a score under ``GO_ON_AT``, that a night goes on with; those ahead all take their turn.

Without a bound a few of them would take every night's calls, and nothing new could be tried. Two share the replays of
the baseline, and cost 60 of the usual 120 calls at most: 12 pairs each that all come out the same, judged by rubric.
"""
BEHIND_AT_MOST = 4
"""Edits that are behind that are kept at all: more would wait for a turn that never comes."""


def base_digest(document: Document) -> str:
    """Digest of the text an edit was tried on; a file that is not there has one of its own."""
    import hashlib  # noqa: PLC0415  `status` reads this module and digests nothing

    return hashlib.sha256(document.content if document.content is not None else b"\0absent").hexdigest()


class PendingEdit(Struct, frozen=True, kw_only=True):
    """The edits of one document that were tried together.

    ``groups`` are the task groups its own reflection has seen, and the ids of their tasks, for a group may come to be
    part of another: it is never tried on them. ``tasks`` are the ids of the different tasks its pairs were measured
    on. ``k`` is the score that accepts, fixed when it was first tried; ``night`` is that night.
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
    tasks: tuple[str, ...] = ()

    @property
    def behind(self) -> bool:
        """Whether its score is below the one from which a trial goes on within a night."""
        return self.tally.score < GO_ON_AT

    def unseen(self, tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
        """The tasks of groups that its own reflection has not seen, whatever a group has come to be called since."""
        seen = {*self.groups, *(group_of(task) for task in tasks if task.id in self.groups)}
        return tuple(task for task in tasks if group_of(task) not in seen)

    def after(self, tally: Tally | None, measured: Sequence[str], *, tried: bool) -> PendingEdit:
        """The edit after another night: its tally by then, with the tasks of which a pair came back and was kept."""
        tally = tally or self.tally
        kept = measured if tally.pairs > self.tally.pairs else ()
        return replace(self, tally=tally, tasks=tuple(dict.fromkeys((*self.tasks, *kept))), nights=self.nights + tried)

    @property
    def needs(self) -> str:
        """What it would take: "2 more wins"."""
        return needs(self.tally, self.k)


def tonight(pending: Sequence[PendingEdit]) -> tuple[tuple[PendingEdit, ...], tuple[PendingEdit, ...]]:
    """Those to go on with, what is closest to a decision first, and those that wait for another night."""
    order = sorted(pending, key=_closeness)
    behind = [each for each in order if each.behind]
    ahead = [each for each in order if not each.behind]
    return (*ahead, *behind[:BEHIND_A_NIGHT]), tuple(behind[BEHIND_A_NIGHT:])


def crowded_out(pending: Sequence[PendingEdit]) -> tuple[Dropped, ...]:
    """Those that give way to others: of the edits that are behind, all but the ``BEHIND_AT_MOST`` closest.

    Giving up on an edit can only lower the chance that it is accepted, a useless one's too.
    """
    behind = sorted((each for each in pending if each.behind), key=_closeness)
    why = f"it has {{}}, and {BEHIND_AT_MOST} other edits promise more"
    return tuple(Dropped(edit=each, why=why.format(each.tally.in_words)) for each in behind[BEHIND_AT_MOST:])


def _closeness(edit: PendingEdit) -> tuple[int, int]:
    """Sorts what is closest to a decision to the front; of equal scores, the one that has cost less so far."""
    return -edit.tally.score, edit.tally.pairs


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
