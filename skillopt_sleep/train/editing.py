"""Apply edits and patches to a skill's text, as users of the reference call it; the rules are those of ``domain``.

They differ from the reference where it guesses: a target has to be found exactly once, else the edit is ``unmatched``
and nothing is changed, and nothing is appended in its place.

The arithmetic of scores and of the strict gate, as users of the reference call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum
from typing import Any

from skillopt_sleep.errors import ConfigError
from skillopt_sleep.gate.rule import is_strictly_better
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import AppliedEdit, EditOp, EditRecord, EditStatus, edit_id
from skillopt_sleep.model.replies import extract_json as read_json
from skillopt_sleep.model.rollout import GateMetric, Score, combine
from skillopt_sleep.model.text import excerpt
from skillopt_sleep.optimizer.aggregate import EditPatch, Learnt, Proposal
from skillopt_sleep.optimizer.step import hold_back
from skillopt_sleep.train.results import Edit, GateAction, GateResult, Patch, RawPatch, RolloutResult
from skillopt_sleep.train.skill_text import apply_to_skill

PREVIEW = 200


def apply_edit(skill: str, edit: Edit | Mapping[str, Any]) -> str:
    """The skill with one edit applied; unchanged when it cannot be."""
    return apply_patch(skill, Patch(edits=[_edit(edit)]))


def apply_patch(skill: str, patch: Patch | Mapping[str, Any]) -> str:
    """The skill with every edit of a patch applied, in order, each to what the ones before it made."""
    return apply_patch_with_report(skill, patch)[0]


def apply_patch_with_report(skill: str, patch: Patch | Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The skill after a patch, and for each edit what became of it.

    A row has ``index`` (from 1), ``op``, ``target``, ``content_preview``, ``status`` (applied, unmatched, skipped, or
    guarded for a text that must not enter a document) and ``why`` ("" when applied).
    """
    edits = patch.edits if isinstance(patch, Patch) else [_edit(each) for each in patch.get("edits") or ()]
    rows = []
    for index, edit in enumerate(edits, start=1):
        row = {
            "index": index,
            "op": edit.op,
            "target": edit.target[:PREVIEW],
            "content_preview": edit.content[:PREVIEW],
        }
        try:
            record = to_record(edit)
        except ValueError as error:
            rows.append(row | {"status": str(EditStatus.SKIPPED), "why": str(error)})
            continue
        held = hold_back(record, ())
        skill, (applied,) = (skill, (held,)) if held else apply_to_skill(skill, [record])
        rows.append(row | {"status": str(applied.status), "why": applied.why})
    return skill, rows


def extract_json(text: object) -> Any:  # noqa: ANN401  any JSON
    """The JSON in a model's reply: all of it, what a code fence holds, else the largest object; None without any."""
    try:
        return read_json(text) if isinstance(text, str) else None
    except ValueError:
        return None


def to_record(edit: Edit) -> EditRecord:
    """An edit as ``domain`` has it. Raises ``ValueError`` for one without a known operation, or its target or text."""
    op = "append" if edit.op == "add" else edit.op
    if op not in list(EditOp):
        raise ValueError(f"there is no edit {edit.op!r}, only {', '.join(EditOp)}")
    if op != EditOp.APPEND and not (edit.target or "").strip():
        raise ValueError(f"{op} needs a target")
    if op != EditOp.DELETE and not (edit.content or "").strip():
        raise ValueError(f"{op} needs a content")
    kind, text, anchor = DocumentKind.SKILL, (edit.content or "").strip(), edit.target or ""
    text, anchor = ("" if op == EditOp.DELETE else text), ("" if op == EditOp.APPEND else anchor)
    return EditRecord(
        id=edit_id(EditOp(op), kind, text, anchor),
        op=EditOp(op),
        document=kind,
        text=text,
        anchor=anchor,
        support=max(edit.support_count or 1, 1),
    )


def to_edit(proposal: Proposal) -> Edit:
    """An edit as the reference writes it down."""
    edit = proposal.edit
    return Edit(
        op=str(edit.op),
        content=edit.text,
        target=edit.anchor,
        support_count=edit.support,
        source_type="success" if proposal.learnt is Learnt.SUCCESS else "failure",
        merge_level=proposal.level or None,
        update_origin=proposal.origin,
        update_target=proposal.part,
    )


def to_patch(patch: EditPatch) -> Patch:
    """A patch as the reference writes it down."""
    return Patch(edits=[to_edit(each) for each in patch.proposals], reasoning=patch.reasoning)


def patch_of(raw: RawPatch) -> tuple[EditPatch, list[str]]:
    """What an environment's own analyst proposed, and what of it could not be used, by its value."""
    proposals, flaws = [], []
    learnt = Learnt.SUCCESS if raw.source_type == "success" else Learnt.FAILURE
    given: list[Any] = list(raw.patch.edits)
    for edit in given:
        if not isinstance(edit, Edit):
            flaws.append(f"{excerpt(repr(edit), 60)} is no edit: a dict with op, target and content is wanted")
            continue
        try:
            record = to_record(edit)
        except ValueError as error:
            flaws.append(str(error))
            continue
        proposals.append(
            Proposal(
                edit=record,
                learnt=learnt,
                level=edit.merge_level or 0,
                origin=edit.update_origin,
                part=edit.update_target,
            )
        )
    patch = EditPatch(
        proposals=tuple(proposals), reasoning=raw.patch.reasoning, learnt=learnt, cases=max(raw.batch_size, 1)
    )
    return patch, flaws


def report_of(applied: AppliedEdit) -> dict[str, Any]:
    """A row of an artefact for an edit of a step."""
    edit = applied.edit
    return {
        "op": str(edit.op),
        "target": edit.anchor,
        "content": edit.text,
        "support_count": edit.support,
        "status": str(applied.status),
        "why": applied.why,
    }


def _edit(edit: Edit | Mapping[str, Any]) -> Edit:
    return edit if isinstance(edit, Edit) else Edit.from_dict(edit)


def compute_score(results: Iterable[RolloutResult | Mapping[str, Any]]) -> tuple[float, float]:
    """Mean ``hard`` and ``soft`` over what could be measured; (0.0, 0.0) where nothing was."""
    scores = [
        (float(each["hard"]), float(each.get("soft", each["hard"])))
        if isinstance(each, Mapping)
        else (each.hard, each.soft)
        for each in results
        if not (each.get("call_error") if isinstance(each, Mapping) else each.call_error)
    ]
    if not scores:
        return 0.0, 0.0
    return fsum(hard for hard, _ in scores) / len(scores), fsum(soft for _, soft in scores) / len(scores)


def select_gate_score(hard: float, soft: float, metric: str = "hard", mixed_weight: float = 0.5) -> float:
    """The one number a metric makes of both. Raises ``ConfigError`` for a metric that is none."""
    if metric not in list(GateMetric):
        raise ConfigError(f"gate_metric is {metric!r}, must be one of {', '.join(GateMetric)}")
    return combine(Score(hard=hard, soft=soft), GateMetric(metric), mixed_weight)


def evaluate_gate(  # noqa: PLR0917  the signature that users of the reference call
    candidate_skill: str,
    cand_hard: float,
    current_skill: str,
    current_score: float,
    best_skill: str,
    best_score: float,
    best_step: int,
    global_step: int,
    *,
    cand_soft: float = 0.0,
    metric: str = "hard",
    mixed_weight: float = 0.5,
) -> GateResult:
    """The rule of the paper: a candidate whose score is strictly above the current one takes its place.

    It becomes the best one too when it is strictly above that. Pure.
    """
    score = select_gate_score(cand_hard, cand_soft, metric, mixed_weight)
    action: GateAction = "reject"
    if is_strictly_better(score, current_score):
        action, current_skill, current_score = "accept", candidate_skill, score
        if is_strictly_better(score, best_score):
            action, best_skill, best_score, best_step = "accept_new_best", candidate_skill, score, global_step
    return GateResult(
        action=action,
        current_skill=current_skill,
        current_score=current_score,
        best_skill=best_skill,
        best_score=best_score,
        best_step=best_step,
    )
