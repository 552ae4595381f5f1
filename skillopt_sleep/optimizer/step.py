"""One step of the optimizer, between the rollouts and the gate: analyses, one patch, the budget, the skill changed.

Select: rank the edits and keep as many as the edit budget allows, which is what keeps a step small.

A skill as one text, as training holds it: a body that steps edit, and guidance that only an epoch's end writes.

The guidance lies between two markers at the end of the text, so the agent reads it with the rest; edits of a step are
given the body alone, and can neither anchor in the guidance nor write its markers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model.document import Document, DocumentKind
from skillopt_sleep.model.edit import AppliedEdit, EditRecord, EditStatus, apply_edits, is_same
from skillopt_sleep.model.replies import Refusal
from skillopt_sleep.model.text import sha256
from skillopt_sleep.optimizer.aggregate import EditPatch, Proposal, aggregate, by_support, united
from skillopt_sleep.optimizer.client import Optimizer, numbered, object_schema
from skillopt_sleep.optimizer.reflect import Analysis, Lesson, Minibatch, analyse
from skillopt_sleep.safety.guard import guard

SCHEMA = object_schema(ranking={"type": "array", "items": {"type": "integer"}})
SCHEMA_WITH_BUDGET = object_schema(ranking={"type": "array", "items": {"type": "integer"}}, budget={"type": "integer"})
PHASE = "select"


class _Reply(Struct, frozen=True, kw_only=True):
    ranking: tuple[int, ...]
    budget: int | None = None


class Selected(Struct, frozen=True, kw_only=True):
    """The edits of a step, the best first, and those that the budget left out.

    ``asked``: the budget that the optimizer asked for, None when it was not asked. ``how``: who ranked, in words.
    """

    chosen: tuple[Proposal, ...] = ()
    left_out: tuple[Proposal, ...] = ()
    asked: int | None = None
    how: str = ""


def select(
    patch: EditPatch,
    document: str,
    optimizer: Optimizer,
    *,
    edit_budget: int,
    least: int | None = None,
) -> Selected:
    """Rank and clip. With ``least`` the optimizer says how many edits it wants, between that and ``edit_budget``.

    What fits the budget (or is no more than ``least``) is not ranked and costs no call. An edit that a ranking leaves
    out comes after the ones it names; without a readable ranking, the most often proposed come first. Raises
    ``FatalBackend`` and ``BudgetSpent``.
    """
    proposals = by_support(patch.proposals)
    if len(proposals) <= (edit_budget if least is None else least):
        return Selected(chosen=proposals, how="all fit the budget")
    prompt = optimizer.prompt(
        "ranking",
        SCHEMA if least is None else SCHEMA_WITH_BUDGET,
        edit_budget=str(edit_budget),
        budget=f"exactly {edit_budget}" if least is None else f"from {least} to {edit_budget}, as you decide",
        document=document.strip() or "(empty)",
        edits=numbered([each.edit for each in proposals]),
    )
    reply, answer = optimizer.read(prompt, _Reply, phase=PHASE)
    if reply is None:
        return _clipped(proposals, edit_budget, how=f"by support: the ranking was lost ({answer.error})")
    named = [number for number in dict.fromkeys(reply.ranking) if 1 <= number <= len(proposals)]
    ranked = [proposals[number - 1] for number in named]
    ranked += [each for number, each in enumerate(proposals, start=1) if number not in named]
    budget, asked = edit_budget, None
    if least is not None:
        asked = max(least, min(edit_budget, reply.budget or edit_budget))
        budget = asked
    how = "by the optimizer" if named else "by support: the ranking names no edit"
    return _clipped(ranked, budget, how=how, asked=asked)


def _clipped(
    ranked: list[Proposal] | tuple[Proposal, ...], budget: int, *, how: str, asked: int | None = None
) -> Selected:
    return Selected(chosen=tuple(ranked[:budget]), left_out=tuple(ranked[budget:]), asked=asked, how=how)


GUIDANCE_BEGIN = "<!-- skillopt-sleep:guidance -->"
GUIDANCE_END = "<!-- skillopt-sleep:end of guidance -->"
GUIDANCE_CAP = 2_000
"""Characters of guidance: it is read with every task."""

_GUIDANCE = re.compile(rf"\n*{re.escape(GUIDANCE_BEGIN)}\n(?P<guidance>.*?)\n?{re.escape(GUIDANCE_END)}\n?", re.DOTALL)


def skill_hash(skill: str) -> str:
    """Sixteen hex digits of a skill's text."""
    return sha256(skill.encode("utf-8", "surrogatepass"))[:16]


def guidance_of(skill: str) -> str:
    """The guidance in a skill, "" where there is none."""
    found = _GUIDANCE.search(skill)
    return found["guidance"].strip() if found else ""


def with_guidance(skill: str, guidance: str) -> str:
    """The skill with this guidance in place of any other; with "" there is none.

    Raises ``ValueError`` for guidance that holds a marker of ours, or is over ``GUIDANCE_CAP``.
    """
    if "skillopt-sleep:" in guidance:
        raise ValueError("guidance may not hold the markers of its own region")
    if len(guidance) > GUIDANCE_CAP:
        raise ValueError(f"guidance has {len(guidance)} characters, over the cap of {GUIDANCE_CAP}")
    body = _body(skill)
    if not guidance.strip():
        return body
    return f"{body.rstrip()}\n\n{GUIDANCE_BEGIN}\n{guidance.strip()}\n{GUIDANCE_END}\n".lstrip("\n")


def apply_to_skill(
    skill: str, edits: Iterable[EditRecord], *, cap: int | None = None
) -> tuple[str, tuple[AppliedEdit, ...]]:
    """Apply edits in order to the body of a skill; each comes back with what became of it.

    An anchor is a whole rule, or words that stand in the body exactly once. ``cap`` bounds the characters of the body.
    Raises ``Refused`` for a skill whose frontmatter never ends.
    """
    guidance, body = guidance_of(skill), _body(skill)
    document = Document(kind=DocumentKind.SKILL, path="skill/SKILL.md", content=body.encode(), whole=True)
    changed, applied = apply_edits(document, edits, cap=cap, prose=True)
    if changed == document:
        return skill, applied
    text = (changed.content or b"").decode()
    return (with_guidance(text, guidance) if guidance else text), applied


def _body(skill: str) -> str:
    found = _GUIDANCE.search(skill)
    if not found:
        return skill
    before, after = skill[: found.start()], skill[found.end() :]
    return f"{before}\n{after}" if before and not before.endswith("\n") else before + after


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
