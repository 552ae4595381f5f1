"""Carries an undecided edit from night to night with its tally, as long as what it was measured on has not changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.rule import GO_ON_AT, MOST_LOSSES, PAIRS_A_LIFE, describe_needs
from skillopt_sleep.gate.tally import Tally
from skillopt_sleep.model.document import Candidate, DocumentKind
from skillopt_sleep.model.edit import EditRecord, EditStatus, apply_edits
from skillopt_sleep.model.task import TaskRecord, group_of
from skillopt_sleep.model.text import sha256

BEHIND_A_NIGHT = 2
"""Edits with a score under ``GO_ON_AT`` that one night continues; those ahead all take their turn.

Without a bound a few of them would take every night's calls, and nothing new could be tried. Two share the replays of
the baseline and cost at most 60 of the usual 120 calls: 12 pairs each that all have the same outcome, judged by rubric.
"""
BEHIND_AT_MOST = 4
"""Edits with a score under ``GO_ON_AT`` that are kept at all: more would wait for a turn that never comes."""


class Base(Struct, frozen=True, kw_only=True):
    """Everything a tally of pairs depends on; when any of it changes, the tally says nothing any more."""

    documents: tuple[tuple[DocumentKind, str, str], ...] = ()
    """Kind, path and digest of the text of each document."""
    target: str = ""
    """Backend and model that replay."""
    optimizer: str = ""
    """Backend and model that judge."""
    metric: str = ""
    """How scores are counted."""
    replay: str = ""
    """How tasks are replayed."""
    scope: str = ""
    """Whose work is learnt from."""

    @staticmethod
    def describe_documents(candidate: Candidate) -> tuple[tuple[DocumentKind, str, str], ...]:
        """List the documents of a candidate; a file that does not exist has a digest of its own."""
        return tuple(
            (document.kind, document.path, sha256(b"\0absent" if document.content is None else document.content))
            for document in candidate.documents
        )

    @property
    def digest(self) -> str:
        """Sixteen hex digits over all of it."""
        return sha256(msgspec.json.encode(self))[:16]

    def list_changes(self, now: Base, kind: DocumentKind) -> Iterator[str]:
        """Say what has changed since, in plain words, for an edit of the document ``kind``."""
        before = {name: (path, text) for name, path, text in self.documents}
        after = {name: (path, text) for name, path, text in now.documents}
        for name in dict.fromkeys((kind, *before, *after)):
            where = "on" if name is kind else "beside"
            (path, text), (new_path, new_text) = before.get(name, ("", "")), after.get(name, ("", ""))
            if text != new_text:
                yield f"the text of the {name} it was tried {where} has changed"
            elif path != new_path:
                yield f"the {name} it was tried {where} has moved to {new_path}"
        for what, old, new in (
            ("model", self.target, now.target),
            ("model that judges", self.optimizer, now.optimizer),
            ("way scores are counted", self.metric, now.metric),
            ("way tasks are replayed", self.replay, now.replay),
            ("scope", self.scope, now.scope),
        ):
            if old != new:
                yield f"the {what} has changed, from {old or 'the default'} to {new or 'the default'}"


class PendingEdit(Struct, frozen=True, kw_only=True):
    """The undecided edits of one document that are tried together."""

    id: str
    night: str
    """The night that first tried it."""
    kind: DocumentKind
    k: int
    """The score that accepts it, fixed when it was first tried."""
    edits: tuple[EditRecord, ...]
    groups: tuple[str, ...]
    """Task groups its reflection saw, and the ids of their tasks (groups may merge); it is never tried on them."""
    tally: Tally
    on: Base = Base()
    """What the tally depends on."""
    atop: bool = False
    """Whether it was first tried on top of another proposal instead of the live documents."""
    nights: int = 1
    tasks: tuple[str, ...] = ()
    """The different requests its pairs were measured on: their groups, or the ids of their tasks."""

    @property
    def behind(self) -> bool:
        """Whether its score is below the one that earns another round in the same night."""
        return self.tally.score < GO_ON_AT

    @property
    def needs(self) -> str:
        """What it lacks for acceptance: "2 more wins"."""
        return describe_needs(self.tally, self.k)

    def seen(self, tasks: Sequence[TaskRecord]) -> frozenset[str]:
        """Return the current names of the groups of ``tasks`` that its reflection saw.

        Pass all tasks there are: a group of which one is missing may not be recognized.
        """
        return frozenset((*self.groups, *(group_of(task) for task in tasks if task.id in self.groups)))

    def unseen(self, tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
        """Return the tasks of groups that its reflection has not seen."""
        seen = self.seen(tasks)
        return tuple(task for task in tasks if group_of(task) not in seen)

    def among(self, tasks: Sequence[TaskRecord]) -> PendingEdit:
        """Update the group names it carries to those that ``tasks`` use now."""
        return replace(self, groups=tuple(sorted(self.seen(tasks))), tasks=current_groups(self.tasks, tasks))

    def after(self, tally: Tally | None, measured: Sequence[str], *, tried: bool) -> PendingEdit:
        """Return the edit after another night, with the tasks that added a pair to its tally."""
        tally = tally or self.tally
        kept = measured if tally.pairs > self.tally.pairs else ()
        return replace(self, tally=tally, tasks=tuple(dict.fromkeys((*self.tasks, *kept))), nights=self.nights + tried)


class Dropped(Struct, frozen=True, kw_only=True):
    """A pending edit that cannot continue."""

    edit: PendingEdit
    why: str
    final: bool = False
    """Whether it may not begin anew either, as long as its base is the same."""


class ClosedEdit(Struct, frozen=True, kw_only=True):
    """An edit that was turned down or given up; on the same base it gets no second life."""

    base: str
    """The digest of its ``Base``."""
    edit: EditRecord
    why: str
    night: str
    """The night that ended it."""


def current_groups(names: Iterable[str], tasks: Iterable[TaskRecord]) -> tuple[str, ...]:
    """Translate task ids and group names into the different groups that ``tasks`` have now."""
    groups = {task.id: group_of(task) for task in tasks}
    return tuple(dict.fromkeys(groups.get(name, name) for name in names))


def choose_for_tonight(pending: Sequence[PendingEdit]) -> tuple[tuple[PendingEdit, ...], tuple[PendingEdit, ...]]:
    """Split edits into those to continue, closest to a decision first, and those that wait for another night."""
    order = sorted(pending, key=_closeness)
    behind = [edit for edit in order if edit.behind]
    ahead = [edit for edit in order if not edit.behind]
    return (*ahead, *behind[:BEHIND_A_NIGHT]), tuple(behind[BEHIND_A_NIGHT:])


def drop_excess(pending: Sequence[PendingEdit]) -> tuple[Dropped, ...]:
    """Drop all but the ``BEHIND_AT_MOST`` closest of the edits that are behind.

    Giving up on an edit can only lower the chance that it is accepted, also when it is useless.
    """
    behind = sorted((edit for edit in pending if edit.behind), key=_closeness)
    return tuple(
        Dropped(
            edit=edit,
            why=f"it has {edit.tally.in_words}, and {BEHIND_AT_MOST} other edits are closer to a decision",
            final=True,
        )
        for edit in behind[BEHIND_AT_MOST:]
    )


def drop_if_over(pending: PendingEdit) -> Dropped | None:
    """Drop an edit that the pairs left in its life could no longer get accepted; None while they could."""
    tally = pending.tally
    left = PAIRS_A_LIFE - tally.pairs
    for_good = tally.losses + tally.unjudged  # what transport lost of one arm may still be made up for
    if left > 0 and left >= pending.k - tally.score + 2 * tally.unjudged and for_good <= MOST_LOSSES:
        return None
    why = f"undecided after {tally.pairs} pairs"
    if for_good > MOST_LOSSES:
        why += f", and the judge gave no readable verdict on {tally.unjudged} more"
    elif left > 0:
        why += f", and at most {left} more could not decide it"
    return Dropped(edit=pending, why=why, final=True)


def revive(pending: PendingEdit, live: Candidate, on: Base) -> Candidate | Dropped:
    """Rebuild the candidate that continues an edit, or say why it cannot continue.

    ``on`` is what tonight's pairs would depend on; it must be what the tally depends on.
    """
    if pending.on != on:
        return Dropped(edit=pending, why=_explain_change(pending, on))
    if (over := drop_if_over(pending)) is not None:
        return over
    document = live[pending.kind]
    if document is None:
        return Dropped(edit=pending, why=f"there is no {pending.kind} any more")
    changed, applied = apply_edits(document, pending.edits, cap=None)
    if any(edit.status is not EditStatus.APPLIED for edit in applied):
        return Dropped(edit=pending, why="it can no longer be applied")
    return live.with_document(changed)


def _closeness(edit: PendingEdit) -> tuple[int, int]:
    """Sort key: closest to a decision first; of equal scores, the one that has cost less so far."""
    return -edit.tally.score, edit.tally.pairs


def _explain_change(pending: PendingEdit, on: Base) -> str:
    if pending.on == Base():
        return "it was tried by an earlier version, which did not record all that it was tried on"
    if pending.atop and pending.on.documents != on.documents:
        rest = replace(pending.on, documents=on.documents).list_changes(on, pending.kind)
        return "; ".join(("it was tried together with a proposal that is not live now", *rest))
    return "; ".join(pending.on.list_changes(on, pending.kind))
