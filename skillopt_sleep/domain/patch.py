"""Edits on their way from many analysts to one document: whom they come from, and how many said the same."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.edit import EditRecord

__all__ = ["EditPatch", "Learnt", "Proposal", "by_support", "joined", "united"]


class Learnt(enum.StrEnum):
    """What an edit was learnt from: attempts that failed, or ones that succeeded."""

    FAILURE = "failure"
    SUCCESS = "success"


class Proposal(Struct, frozen=True, kw_only=True):
    """One edit with where it comes from; ``level`` counts the rounds of merging it has been through.

    ``origin`` and ``part`` are what an environment's own analyst said of it: which part of training wrote it, and which
    part of the document it is for.
    """

    edit: EditRecord
    learnt: Learnt = Learnt.FAILURE
    level: int = 0
    origin: str = ""
    part: str = ""


class EditPatch(Struct, frozen=True, kw_only=True):
    """Edits that belong together. ``cases``: how many trajectories they were written from."""

    proposals: tuple[Proposal, ...] = ()
    reasoning: str = ""
    learnt: Learnt = Learnt.FAILURE
    cases: int = 0

    @property
    def edits(self) -> tuple[EditRecord, ...]:
        """The edits alone."""
        return tuple(proposal.edit for proposal in self.proposals)


def united(patches: Sequence[EditPatch]) -> EditPatch:
    """All edits of several patches, taken from each in turn; equal ones once, with their support and tasks summed.

    What failures taught comes first, and an edit that both taught counts as theirs.
    """
    ordered = sorted(patches, key=lambda patch: patch.learnt is Learnt.SUCCESS)
    merged: dict[str, Proposal] = {}
    for row in zip_longest(*(patch.proposals for patch in ordered)):
        for proposal in row:
            if proposal is not None:
                before = merged.get(proposal.edit.id)
                merged[proposal.edit.id] = proposal if before is None else joined([before, proposal])
    return EditPatch(
        proposals=tuple(merged.values()),
        reasoning="\n".join(dict.fromkeys(patch.reasoning for patch in ordered if patch.reasoning)),
        learnt=ordered[0].learnt if ordered else Learnt.FAILURE,
        cases=sum(patch.cases for patch in patches),
    )


def joined(proposals: Sequence[Proposal]) -> Proposal:
    """Several proposals of one edit as one: the first one's words, everyone's support and tasks."""
    first = proposals[0]
    tasks = tuple(dict.fromkeys(task for each in proposals for task in each.edit.task_ids))
    support = sum(each.edit.support for each in proposals)
    failed = any(each.learnt is Learnt.FAILURE for each in proposals)
    return replace(
        first,
        edit=replace(first.edit, support=support, task_ids=tasks),
        learnt=Learnt.FAILURE if failed else Learnt.SUCCESS,
        level=max(each.level for each in proposals),
    )


def by_support(proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """The most often proposed first, then what failures taught, then as they came."""
    return tuple(sorted(proposals, key=lambda each: (-each.edit.support, each.learnt is Learnt.SUCCESS)))
