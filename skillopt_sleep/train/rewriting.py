"""Two ways to change a skill as a whole instead of by edits, and the appendix that reminds the agent of rules.

``rewrite_from_suggestions``: analysts suggest edits, the best within the budget are chosen as ever, and the optimizer
rewrites the skill so that it does what they say. ``full_rewrite_minibatch``: each analyst rewrites the skill from the
attempts it sees, and the versions are merged; no edit budget applies. Either way the gate decides about the result.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Prompt
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import AppliedEdit, EditOp, EditRecord, EditStatus, compute_edit_id
from skillopt_sleep.model.replies import escape_tags
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.optimizer.aggregate import EditPatch, Learnt, Proposal, cut_list
from skillopt_sleep.optimizer.client import TAGS, Optimizer, make_object_schema, number_edits
from skillopt_sleep.optimizer.reflect import LAPSES, Analysis, Lesson, Minibatch, describe_context
from skillopt_sleep.optimizer.step import Selected, StepProposal
from skillopt_sleep.safety.guard import guard
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.skill_text import PART_CAP, Part, get_part, read_body, replace_part, rewrite_body

WHOLE = "(the whole skill)"
"""Stands for the anchor of a rewrite."""
SCHEMA = make_object_schema(skill={"type": "string"}, summary={"type": "string"})
SCHEMA_OF_LAPSES = make_object_schema(lapses=LAPSES)
PHASE = "rewrite"


class _Rewritten(Struct, frozen=True, kw_only=True):
    skill: str
    summary: str = ""


class _Shortened(Struct, frozen=True, kw_only=True):
    lapses: tuple[str, ...]


class _Draft(Struct, frozen=True, kw_only=True):
    """One version of the body, and what it changes."""

    text: str
    summary: str = ""


def rewrite_from_suggestions(
    skill: str, edits: Sequence[EditRecord], optimizer: Optimizer, config: SkillOptConfig
) -> tuple[str, tuple[AppliedEdit, ...]]:
    """Let the optimizer rewrite the skill by these suggestions, and report what became of each.

    They are applied all together, or, with the reason, none. Raises ``FatalBackend`` and ``BudgetSpent``.
    """
    if not edits:
        return skill, ()
    prompt = _prompt("rewrite", optimizer, config, document=_show(skill), edits=number_edits(edits))
    reply, answer = optimizer.read(prompt, _Rewritten, phase=PHASE)
    changed, why = skill, f"the rewrite is missing: {answer.error}"
    if reply is not None:
        changed, why = rewrite_body(skill, reply.skill, cap=config.max_skill_chars)
    status = EditStatus.SKIPPED if why else EditStatus.APPLIED
    return changed, tuple(AppliedEdit(edit=edit, status=status, why=why) for edit in edits)


def rewrite_by_minibatches(
    skill: str, minibatches: Sequence[Minibatch], optimizer: Optimizer, config: SkillOptConfig, *, lesson: Lesson
) -> StepProposal[str]:
    """Let each analyst rewrite the skill from its minibatch, merge the versions, and return the result as a step.

    The step has one edit, the replacement of the whole skill, whose text is the analysts' summary. Raises
    ``FatalBackend`` and ``BudgetSpent``.
    """
    if not minibatches:
        return StepProposal(document=skill, nothing="there is nothing to learn from in this batch")

    def ask(minibatch: Minibatch) -> tuple[Analysis, _Draft | None]:
        context = describe_context(lesson)
        prompt = _prompt(
            "rewrite_cases", optimizer, config, document=_show(skill), cases="\n\n".join(minibatch.cases), **context
        )
        reply, answer = optimizer.read(prompt, _Rewritten, phase="reflect")
        empty = EditPatch(learnt=minibatch.learnt, cases=len(minibatch.cases))
        if reply is None:
            return Analysis(patch=empty, nothing=f"the rewrite is missing: {answer.error}", lost=answer.lost), None
        if reply.skill.strip() == read_body(skill):
            return Analysis(patch=empty, raw=(answer.text,), nothing="the analyst changed nothing"), None
        proposal = Proposal(edit=_describe(reply.summary), learnt=minibatch.learnt)
        analysis = Analysis(patch=replace(empty, proposals=(proposal,)), raw=(answer.text,))
        return analysis, _Draft(text=reply.skill.strip(), summary=reply.summary)

    asked = optimizer.parallel(ask, minibatches)
    analyses = tuple(analysis for analysis, _ in asked)
    drafts = [(analysis.patch.learnt, draft) for analysis, draft in asked if draft is not None]
    drafts.sort(key=lambda pair: pair[0] is Learnt.SUCCESS)
    if not drafts:
        nothing = "; ".join(dict.fromkeys(analysis.nothing for analysis in analyses))
        return StepProposal(document=skill, analyses=analyses, nothing=nothing)
    draft, notes = _merge_drafts(skill, [draft for _, draft in drafts], optimizer, config)
    changed, why = rewrite_body(skill, draft.text, cap=config.max_skill_chars)
    merged = EditPatch(proposals=(Proposal(edit=_describe(draft.summary)),), cases=len(drafts))
    applied = AppliedEdit(edit=merged.edits[0], status=EditStatus.SKIPPED if why else EditStatus.APPLIED, why=why)
    return StepProposal(
        document=changed,
        analyses=analyses,
        merged=merged,
        selected=Selected(chosen=merged.proposals, how="the whole skill is rewritten"),
        edits=(applied,),
        notes=notes,
        nothing=why,
    )


def add_lapses(
    skill: str, lapses: Sequence[str], optimizer: Optimizer, *, threshold: int
) -> tuple[str, tuple[str, ...]]:
    """Add reminders to the appendix of a skill; return the skill and those that are new in it.

    With more than ``threshold`` reminders (0: never) the optimizer shortens them. The oldest give way to the cap.
    Raises ``FatalBackend`` and ``BudgetSpent``.
    """
    lines = [line.removeprefix("- ") for line in get_part(skill, Part.APPENDIX).splitlines() if line.strip()]
    known = {line.casefold() for line in lines}
    new = tuple({line.casefold(): line for line in reversed(lapses) if line.casefold() not in known}.values())[::-1]
    if not new:
        return skill, ()
    lines += new
    if 0 < threshold < len(lines):
        lines = _shorten(skill, lines, optimizer)
    while len(text := "\n".join(f"- {line}" for line in lines)) > PART_CAP:
        del lines[0]
    return replace_part(skill, text, Part.APPENDIX), new


def _shorten(skill: str, lines: list[str], optimizer: Optimizer) -> list[str]:
    prompt = optimizer.prompt(
        "consolidate", SCHEMA_OF_LAPSES, document=_show(skill), appendix="\n".join(f"- {line}" for line in lines)
    )
    reply, _ = optimizer.read(prompt, _Shortened, phase="consolidate")
    made = [" ".join(line.split()) for line in reply.lapses] if reply else []
    usable = made and all(line and "skillopt-sleep:" not in line and guard(line) is None for line in made)
    return made if usable else lines


def _merge_drafts(
    skill: str, drafts: Sequence[_Draft], optimizer: Optimizer, config: SkillOptConfig
) -> tuple[_Draft, tuple[str, ...]]:
    """Merge versions ``merge_batch_size`` at a time, level by level; where a merge fails, its first version stays."""
    merge = functools.partial(_merge_batch, skill, optimizer=optimizer, config=config)
    notes: list[str] = []
    left = list(drafts)
    while len(left) > 1:
        merged = optimizer.parallel(merge, cut_list(left, config.merge_batch_size))
        left = [draft for draft, _ in merged]
        notes += [why for _, why in merged if why]
    return left[0], tuple(notes)


def _merge_batch(
    skill: str, drafts: Sequence[_Draft], *, optimizer: Optimizer, config: SkillOptConfig
) -> tuple[_Draft, str]:
    unique = list({draft.text: draft for draft in reversed(drafts)}.values())[::-1]
    if len(unique) == 1:
        return unique[0], ""
    shown = "\n\n".join(f"<candidate>\n{escape_tags(draft.text, *TAGS)}\n</candidate>" for draft in unique)
    prompt = _prompt("rewrite_merge", optimizer, config, document=_show(skill), candidates=shown)
    reply, answer = optimizer.read(prompt, _Rewritten, phase="aggregate")
    if reply is None or not reply.skill.strip():
        return unique[0], f"{len(unique)} versions were not merged: {answer.error or 'the reply is empty'}"
    summary = reply.summary or "; ".join(draft.summary for draft in unique if draft.summary)
    return _Draft(text=reply.skill.strip(), summary=summary), ""


def _describe(summary: str) -> EditRecord:
    """Return the edit that stands for a rewrite in records, notes and the buffer of rejected edits."""
    text = excerpt(" ".join(summary.split()), 300) or "rewritten without a summary"
    kind = DocumentKind.SKILL
    return EditRecord(
        id=compute_edit_id(EditOp.REPLACE, kind, text, WHOLE), op=EditOp.REPLACE, document=kind, text=text, anchor=WHOLE
    )


def _show(skill: str) -> str:
    return read_body(skill) or "(empty)"


def _prompt(template: str, optimizer: Optimizer, config: SkillOptConfig, **fields: str) -> Prompt:
    schema: dict[str, Json] = SCHEMA
    prompt = optimizer.prompt(template, schema, most=str(config.max_skill_chars), **fields)
    return replace(prompt, max_output_tokens=config.rewrite_max_completion_tokens)
