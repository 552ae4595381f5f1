"""An edit that is not decided yet, with its tally: it goes on the next night, as long as nothing beneath it moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.rule import GO_ON_AT, MOST_LOSSES, PAIRS_A_LIFE, Tally, needs
from skillopt_sleep.model.document import Candidate, DocumentKind
from skillopt_sleep.model.edit import EditRecord, EditStatus, apply_edits
from skillopt_sleep.model.task import TaskRecord, group_of
from skillopt_sleep.model.text import sha256

BEHIND_A_NIGHT = 2
"""Edits that are behind, with a score under ``GO_ON_AT``, that a night goes on with; those ahead all take their turn.

Without a bound a few of them would take every night's calls, and nothing new could be tried. Two share the replays of
the baseline, and cost 60 of the usual 120 calls at most: 12 pairs each that all come out the same, judged by rubric.
"""
BEHIND_AT_MOST = 4
"""Edits that are behind that are kept at all: more would wait for a turn that never comes."""


class Base(Struct, frozen=True, kw_only=True):
    """All that a tally of pairs holds for. ``documents``: kind, path and digest of the text of each, in order.

    ``target`` and ``optimizer``, which judges, name backend and model; ``metric`` says how scores are counted,
    ``replay`` how tasks are replayed, ``scope`` whose work is learnt from.
    """

    documents: tuple[tuple[DocumentKind, str, str], ...] = ()
    target: str = ""
    optimizer: str = ""
    metric: str = ""
    replay: str = ""
    scope: str = ""

    @staticmethod
    def texts(candidate: Candidate) -> tuple[tuple[DocumentKind, str, str], ...]:
        """The documents of a candidate as a base has them; a file that is not there has a digest of its own."""
        return tuple(
            (each.kind, each.path, sha256(b"\0absent" if each.content is None else each.content))
            for each in candidate.documents
        )

    @property
    def digest(self) -> str:
        """Sixteen hex digits over all of it."""
        return sha256(msgspec.json.encode(self))[:16]

    def changes(self, now: Base, kind: DocumentKind) -> Iterator[str]:
        """What is not as it was, in plain words, for an edit of the document ``kind``."""
        before = {each: (path, text) for each, path, text in self.documents}
        after = {each: (path, text) for each, path, text in now.documents}
        for each in dict.fromkeys((kind, *before, *after)):
            where = "on" if each is kind else "beside"
            (path, text), (new_path, new_text) = before.get(each, ("", "")), after.get(each, ("", ""))
            if text != new_text:
                yield f"the text of the {each} it was tried {where} has changed"
            elif path != new_path:
                yield f"the {each} it was tried {where} lies elsewhere now, at {new_path}"
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
    """The edits of one document that were tried together.

    ``groups`` are the task groups its own reflection has seen, and the ids of their tasks, for a group may come to be
    part of another: it is never tried on them. ``tasks`` name the different requests its pairs were measured on: their
    groups, or the ids of their tasks. ``on`` is what the tally holds for; ``atop``: when it was first tried, that was
    not live but only proposed. ``k`` is the score that accepts, fixed when it was first tried; ``night`` is that night.
    """

    id: str
    night: str
    kind: DocumentKind
    k: int
    edits: tuple[EditRecord, ...]
    groups: tuple[str, ...]
    tally: Tally
    on: Base = Base()
    atop: bool = False
    nights: int = 1
    tasks: tuple[str, ...] = ()

    @property
    def behind(self) -> bool:
        """Whether its score is below the one from which a trial goes on within a night."""
        return self.tally.score < GO_ON_AT

    def seen(self, tasks: Sequence[TaskRecord]) -> frozenset[str]:
        """The names of the groups of ``tasks`` that its own reflection has seen, whatever they have come to be called.

        A group of which a task is missing here may not be known again: give all there are.
        """
        return frozenset((*self.groups, *(group_of(task) for task in tasks if task.id in self.groups)))

    def unseen(self, tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
        """The tasks of groups that its own reflection has not seen."""
        seen = self.seen(tasks)
        return tuple(task for task in tasks if group_of(task) not in seen)

    def among(self, tasks: Sequence[TaskRecord]) -> PendingEdit:
        """The edit, with the names that the groups it has seen, or was measured on, go by among ``tasks`` now."""
        return replace(self, groups=tuple(sorted(self.seen(tasks))), tasks=requests(self.tasks, tasks))

    def after(self, tally: Tally | None, measured: Sequence[str], *, tried: bool) -> PendingEdit:
        """The edit after another night: its tally by then, with the tasks of which a pair came back and was kept."""
        tally = tally or self.tally
        kept = measured if tally.pairs > self.tally.pairs else ()
        return replace(self, tally=tally, tasks=tuple(dict.fromkeys((*self.tasks, *kept))), nights=self.nights + tried)

    @property
    def needs(self) -> str:
        """What it would take: "2 more wins"."""
        return needs(self.tally, self.k)


def requests(names: Iterable[str], tasks: Iterable[TaskRecord]) -> tuple[str, ...]:
    """The different groups behind ``names``, ids of tasks or names of groups, as ``tasks`` have them now."""
    groups = {task.id: group_of(task) for task in tasks}
    return tuple(dict.fromkeys(groups.get(name, name) for name in names))


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
    return tuple(
        Dropped(edit=each, why=why.format(each.tally.in_words), final=True) for each in behind[BEHIND_AT_MOST:]
    )


def _closeness(edit: PendingEdit) -> tuple[int, int]:
    """Sorts what is closest to a decision to the front; of equal scores, the one that has cost less so far."""
    return -edit.tally.score, edit.tally.pairs


class Dropped(Struct, frozen=True, kw_only=True):
    """A pending edit that cannot go on, and why. ``final``: nor may it begin anew as long as its base is the same."""

    edit: PendingEdit
    why: str
    final: bool = False


class ClosedEdit(Struct, frozen=True, kw_only=True):
    """An edit whose life has ended without its being accepted: turned down, or given up.

    On the same ``base``, a digest, it gets no new life; ``night`` is the one that ended it.
    """

    base: str
    edit: EditRecord
    why: str
    night: str


def ended(pending: PendingEdit) -> Dropped | None:
    """Why its life is over, None while the pairs that are left of it could get it accepted."""
    tally = pending.tally
    left = PAIRS_A_LIFE - tally.pairs
    for_good = tally.losses + tally.unjudged  # what transport lost of one arm may yet be made up for
    if left > 0 and left >= pending.k - tally.score + 2 * tally.unjudged and for_good <= MOST_LOSSES:
        return None
    why = f"undecided after {tally.pairs} pairs"
    if for_good > MOST_LOSSES:
        why += f", and the judge gave no verdict that can be read on {tally.unjudged} more"
    elif left > 0:
        why += f", and at most {left} more could not decide it"
    return Dropped(edit=pending, why=why, final=True)


def revive(pending: PendingEdit, live: Candidate, on: Base) -> Candidate | Dropped:
    """The candidate that goes on with an edit, or why it cannot: what was measured must still be what is measured.

    ``on`` is what would be measured on tonight.
    """
    if pending.on != on:
        return Dropped(edit=pending, why=_moved(pending, on))
    if (over := ended(pending)) is not None:
        return over
    document = live[pending.kind]
    if document is None:
        return Dropped(edit=pending, why=f"there is no {pending.kind} any more")
    changed, applied = apply_edits(document, pending.edits, cap=None)
    if any(each.status is not EditStatus.APPLIED for each in applied):
        return Dropped(edit=pending, why="it can no longer be applied")
    return live.with_document(changed)


def _moved(pending: PendingEdit, on: Base) -> str:
    if pending.on == Base():
        return "it was tried by an earlier version, which did not note all that it was tried on"
    if pending.atop and pending.on.documents != on.documents:
        rest = replace(pending.on, documents=on.documents).changes(on, pending.kind)
        return "; ".join(("it was tried together with a proposal, and that is not what is live now", *rest))
    return "; ".join(pending.on.changes(on, pending.kind))
