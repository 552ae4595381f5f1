"""Aggregate: the patches of many analysts become one, so many at a time, level by level.

What failures taught and what successes taught are merged apart, at once, and then together. A merge asks the optimizer
which edits mean the same; it may reword those, and nothing else: an edit it does not name stays as it was, and how
many proposals an edit stands for is counted here, not by a model.

Edits on their way from many analysts to one document: whom they come from, and how many said the same.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model import Json
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import EditOp, EditRecord, parse_edits
from skillopt_sleep.optimizer.client import Optimizer, make_object_schema, number_edits


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


def unite_patches(patches: Sequence[EditPatch]) -> EditPatch:
    """All edits of several patches, taken from each in turn; equal ones once, with their support and tasks summed.

    What failures taught comes first, and an edit that both taught counts as theirs.
    """
    ordered = sorted(patches, key=lambda patch: patch.learnt is Learnt.SUCCESS)
    merged: dict[str, Proposal] = {}
    for row in zip_longest(*(patch.proposals for patch in ordered)):
        for proposal in row:
            if proposal is not None:
                before = merged.get(proposal.edit.id)
                merged[proposal.edit.id] = proposal if before is None else join_proposals([before, proposal])
    return EditPatch(
        proposals=tuple(merged.values()),
        reasoning="\n".join(dict.fromkeys(patch.reasoning for patch in ordered if patch.reasoning)),
        learnt=ordered[0].learnt if ordered else Learnt.FAILURE,
        cases=sum(patch.cases for patch in patches),
    )


def join_proposals(proposals: Sequence[Proposal]) -> Proposal:
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


def sort_by_support(proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """The most often proposed first, then what failures taught, then as they came."""
    return tuple(sorted(proposals, key=lambda each: (-each.edit.support, each.learnt is Learnt.SUCCESS)))


SCHEMA = make_object_schema(
    groups={
        "type": "array",
        "items": make_object_schema(
            same={"type": "array", "items": {"type": "integer"}},
            text={"type": "string"},
        ),
    }
)
WORDING = {Learnt.FAILURE: "merge_failure", Learnt.SUCCESS: "merge_success"}
PHASE = "aggregate"


class _Group(Struct, frozen=True, kw_only=True):
    same: tuple[int, ...]
    text: str = ""


class _Reply(Struct, frozen=True, kw_only=True):
    groups: tuple[_Group, ...]


class Aggregated(Struct, frozen=True, kw_only=True):
    """One patch out of many; ``notes`` say which merges had to do without the optimizer, and why."""

    patch: EditPatch
    notes: tuple[str, ...] = ()


def aggregate(
    patches: Sequence[EditPatch], document: str, optimizer: Optimizer, *, merge_batch_size: int
) -> Aggregated:
    """Merge all patches; ``merge_batch_size`` (2 or more) at a time, the merges of a level in parallel.

    A merge without two edits that differ costs no call. Where a reply is lost or unreadable, equal edits are joined
    and the others kept side by side. Raises ``FatalBackend`` and ``BudgetSpent``.
    """
    merge = functools.partial(_merge, document=document, optimizer=optimizer)
    sides = [[patch for patch in patches if patch.proposals and patch.learnt is learnt] for learnt in Learnt]
    notes: list[str] = []
    while any(len(side) > 1 for side in sides):
        batches = [_batched(side, merge_batch_size) for side in sides]
        merged = optimizer.parallel(merge, [batch for side in batches for batch in side])
        notes += [note for each in merged for note in each.notes]
        patches_left = [each.patch for each in merged]
        sides = [[patches_left.pop(0) for _ in side] for side in batches]
    last = [patch for side in sides for patch in side]
    if len(last) > 1:
        both = merge(last)
        return Aggregated(patch=both.patch, notes=(*notes, *both.notes))
    return Aggregated(patch=last[0] if last else EditPatch(), notes=tuple(notes))


def _batched(patches: Sequence[EditPatch], size: int) -> list[Sequence[EditPatch]]:
    return [patches[start : start + size] for start in range(0, len(patches), size)]


def _merge(patches: Sequence[EditPatch], *, document: str, optimizer: Optimizer) -> Aggregated:
    """One merge. A batch of one patch, or of edits that are all equal, needs no model."""
    patch = unite_patches(patches)
    if len(patches) == 1 or len(patch.proposals) <= 1:
        return Aggregated(patch=patch)
    both = {each.learnt for each in patches} == set(Learnt)
    prompt = optimizer.prompt(
        "merge",
        SCHEMA,
        wording="merge_final" if both else WORDING[patches[0].learnt],
        source="failures and of successes, failures first" if both else f"{patches[0].learnt}s",
        document=document.strip() or "(empty)",
        edits=number_edits(patch.edits),
    )
    reply, answer = optimizer.read(prompt, _Reply, phase=PHASE)
    raised = replace(patch, proposals=tuple(replace(each, level=each.level + 1) for each in patch.proposals))
    if reply is None:
        return Aggregated(patch=raised, notes=(f"{len(patch.proposals)} edits were not compared: {answer.error}",))
    return Aggregated(patch=replace(raised, proposals=_grouped(raised.proposals, reply.groups)))


def _grouped(proposals: Sequence[Proposal], groups: Sequence[_Group]) -> tuple[Proposal, ...]:
    """The proposals with each group as one, in the place of its first; a number counts in one group only."""
    place = {number: number for number in range(1, len(proposals) + 1)}
    merged: dict[int, Proposal] = dict(enumerate(proposals, start=1))
    for group in groups:
        members = [number for number in dict.fromkeys(group.same) if number in merged and place[number] == number]
        members = [number for number in members if _alike(merged[members[0]], merged[number])]
        if len(members) > 1:
            merged[min(members)] = _reworded(join_proposals([merged[number] for number in sorted(members)]), group.text)
            for number in members:
                place[number] = 0
            for number in sorted(members)[1:]:
                del merged[number]
    return tuple(merged[number] for number in sorted(merged))


def _alike(one: Proposal, other: Proposal) -> bool:
    """Whether two edits can mean the same at all: both take away, or both write."""
    return (one.edit.op is EditOp.DELETE) is (other.edit.op is EditOp.DELETE)


def _reworded(proposal: Proposal, text: str) -> Proposal:
    """The proposal in the optimizer's words for the group, where these can be a rule."""
    edit = proposal.edit
    if edit.op is EditOp.DELETE or not text.strip():
        return proposal
    item: Json = {"op": edit.op, "document": edit.document, "text": text, "anchor": edit.anchor}
    edits, _ = parse_edits({"edits": [item]}, known_tasks=(), document=DocumentKind(edit.document))
    if not edits:
        return proposal
    return replace(proposal, edit=replace(edit, id=edits[0].id, text=edits[0].text))
