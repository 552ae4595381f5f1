"""One step of the optimizer, between the rollouts and the gate: analyses, one patch, the budget, the skill changed."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.document import DocumentKind
from skillopt_sleep.domain.edit import AppliedEdit, EditRecord, EditStatus
from skillopt_sleep.domain.guard import guard
from skillopt_sleep.domain.patch import EditPatch, Proposal, united
from skillopt_sleep.domain.pending import is_same
from skillopt_sleep.domain.refusal import Refusal
from skillopt_sleep.domain.skill_text import apply_to_skill
from skillopt_sleep.optimize.aggregate import aggregate
from skillopt_sleep.optimize.analyse import Analysis, Lesson, Minibatch, analyse
from skillopt_sleep.optimize.optimizer import Optimizer
from skillopt_sleep.optimize.select import Selected, select

__all__ = ["StepPlan", "StepProposal", "held_back", "propose", "propose_from"]


class StepPlan(Struct, frozen=True, kw_only=True):
    """How a step comes to its edits. ``edit_budget`` None: no bound. ``least``: see ``select``.

    ``refuted``: rules that were turned down alone, so that nothing else can have been the reason; they are not tried
    again. One that was turned down together with others may be.
    """

    edit_budget: int | None
    least: int | None = None
    merge_batch_size: int = 8
    by_model: bool = True
    skill_cap: int | None = None
    refuted: frozenset[str] = frozenset()


class StepProposal(Struct, frozen=True, kw_only=True):
    """What a step would change, with everything that led to it. ``skill`` is the text with the edits applied.

    ``nothing`` says why there is no change; "" when there is one.
    """

    skill: str
    analyses: tuple[Analysis, ...] = ()
    merged: EditPatch = EditPatch()
    selected: Selected = Selected()
    edits: tuple[AppliedEdit, ...] = ()
    notes: tuple[str, ...] = ()
    nothing: str = ""

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """What of the analysts' replies could not be used."""
        return tuple(refusal for each in self.analyses for refusal in each.refused)


def propose(
    skill: str,
    minibatches: Sequence[Minibatch],
    known_tasks: frozenset[str],
    optimizer: Optimizer,
    *,
    lesson: Lesson,
    plan: StepPlan,
) -> StepProposal:
    """Analyse the minibatches and make one bounded change of them. Raises ``FatalBackend`` and ``BudgetSpent``."""
    if not minibatches:
        return StepProposal(skill=skill, nothing="there is nothing to learn from in this batch")
    analyses = analyse(minibatches, DocumentKind.SKILL, skill, known_tasks, optimizer, lesson=lesson, phase="reflect")
    return propose_from(skill, analyses, optimizer, lesson=lesson, plan=plan)


def propose_from(
    skill: str, analyses: Sequence[Analysis], optimizer: Optimizer, *, lesson: Lesson, plan: StepPlan
) -> StepProposal:
    """The change that these analyses come to: aggregate, select, apply."""
    patches = [each.patch for each in analyses if each.patch.proposals]
    made = StepProposal(skill=skill, analyses=tuple(analyses))
    if not patches:
        why = "; ".join(dict.fromkeys(each.nothing for each in analyses if each.nothing))
        return replace(made, nothing=why or "no analyst proposed an edit")
    notes: tuple[str, ...] = ()
    if plan.by_model:
        aggregated = aggregate(patches, skill, optimizer, merge_batch_size=plan.merge_batch_size)
        merged, notes = aggregated.patch, aggregated.notes
    else:
        merged = united(patches)
    refuted = [each for each in lesson.rejected if (each.edit.text or each.edit.id) in plan.refuted]
    holding = {each.edit.id: each for edit in merged.edits if (each := held_back(edit, refuted)) is not None}
    free = EditPatch(proposals=tuple(each for each in merged.proposals if each.edit.id not in holding))
    selected = _selected(free, skill, optimizer, plan)
    changed, applied = apply_to_skill(skill, [each.edit for each in selected.chosen], cap=plan.skill_cap)
    nothing = "" if changed != skill else _why_nothing((*applied, *holding.values()))
    return StepProposal(
        skill=changed,
        analyses=tuple(analyses),
        merged=merged,
        selected=selected,
        edits=(*applied, *holding.values()),
        notes=notes,
        nothing=nothing,
    )


def _selected(patch: EditPatch, skill: str, optimizer: Optimizer, plan: StepPlan) -> Selected:
    if plan.edit_budget is None:
        chosen: tuple[Proposal, ...] = patch.proposals
        return Selected(chosen=chosen, how="there is no budget")
    return select(patch, skill, optimizer, edit_budget=plan.edit_budget, least=plan.least)


def held_back(edit: EditRecord, rejected: Sequence[AppliedEdit]) -> AppliedEdit | None:
    """Why an edit is not even tried: the guard holds it, or it was tried before, or is being tried, here or elsewhere.

    ``rejected`` that are only skipped say in ``why`` what became of them.
    """
    if (why := guard(edit.text)) is not None:
        return AppliedEdit(edit=edit, status=EditStatus.GUARDED, why=why)
    before = next((each for each in rejected if is_same(edit, each.edit)), None)
    if before is None:
        return None
    told = f"is {before.why}" if before.status is EditStatus.SKIPPED else "was tried before and turned down"
    noun = "rule" if edit.text else "deletion"
    return AppliedEdit(edit=edit, status=EditStatus.SKIPPED, why=f"this very {noun} {told}")


def _why_nothing(edits: Sequence[AppliedEdit]) -> str:
    return "; ".join(dict.fromkeys(f"{each.status}: {each.why}" for each in edits if each.why)) or "nothing changed"
