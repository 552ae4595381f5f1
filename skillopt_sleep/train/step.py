"""One training step: roll out a batch, reflect, aggregate, select, apply, gate; and the record of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from skillopt_sleep.errors import BackendUnusable, BadReply, TransientBackend
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.model.edit import AppliedEdit, EditStatus
from skillopt_sleep.model.replies import Refusal
from skillopt_sleep.optimizer.aggregate import EditPatch, Learnt
from skillopt_sleep.optimizer.reflect import Analysis, Lesson, analyse, describe_edit
from skillopt_sleep.optimizer.step import EditTarget, StepPlan, StepProposal, hold_back, propose
from skillopt_sleep.train.config import AutonomousScheduler, LRScheduler
from skillopt_sleep.train.gating import Judgement, judge_candidate
from skillopt_sleep.train.patches import build_minibatches, read_patch
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.results import RolloutResult, compute_score, report_mistakes, score_results
from skillopt_sleep.train.run import Draw, Run, RunState, StepNote, step_folder
from skillopt_sleep.train.skill_text import apply_to_skill, skill_hash

WITHOUT_BUDGET = 16
"""Edits an analyst may propose when there is no edit budget."""
REJECTED_KEPT = 30
"""The most rejected edits that later reflections are shown, the latest first."""


def train_step(
    run: Run,
    state: RunState,
    scheduler: LRScheduler,
    batches: Sequence[Sequence[Item]],
    *,
    epoch: int,
    step_in_epoch: int,
) -> tuple[RunState, dict[str, Any]]:
    """Run the next step on its batches; return the new state and the record of the step.

    The record depends on the models' answers only: it has no times and no costs. Raises ``FatalBackend`` and
    ``BudgetSpent``.
    """
    step = state.last_completed_step + 1
    folder = step_folder(step)
    rolled = _roll_out(run, state, batches, step)
    results = [result for batch in rolled for result in batch]
    hard, soft = compute_score(results)
    record: dict[str, Any] = {
        "step": step,
        "epoch": epoch,
        "step_in_epoch": step_in_epoch,
        "rollout_hard": hard,
        "rollout_soft": soft,
        "rollout_n": sum(not result.call_error for result in results),
        "rollout_lost": sum(bool(result.call_error) for result in results),
    }
    run.artefacts.json(f"{folder}/rollout_results.json", [result.to_dict() for result in results])
    made = _propose(run, state, scheduler, rolled, step=step)
    run.artefacts.proposal(step, made)
    record |= _describe_proposal(made, scheduler.get_lr() if run.config.use_edit_budget else None)
    if made.document == state.current_skill:
        state = replace(state, tried=(*state.tried, _note(step, made.edits, f"no change: {made.nothing}")))
        record |= {"action": "skip_no_patches", "why": made.nothing}
        run.tell(f"  step {step}: no change, {made.nothing}")
    else:
        judgement = judge_candidate(run, state, made.document, step=step, folder=f"{folder}/selection_eval")
        state = _remember(judgement, made, step)
        run.tell(f"  step {step}: {judgement.action}, {judgement.why}")
        record |= {
            "action": judgement.action,
            "why": judgement.why,
            "gate": run.config.gate,
            "gate_metric": run.config.gate_metric,
            "selection_hard": judgement.score.hard if judgement.score else None,
            "selection_soft": judgement.score.soft if judgement.score else None,
            "candidate_gate_score": judgement.after,
            "candidate_hash": skill_hash(made.document),
        }
    record |= {
        "current_score": state.current_score,
        "best_score": state.best_score,
        "best_step": state.best_step,
        "skill_len": len(state.current_skill),
    }
    run.artefacts.json(f"{folder}/step_record.json", record)
    return replace(state, last_completed_step=step, scheduler_state=scheduler.state_dict()), record


def remember_rejected(
    buffer: Sequence[AppliedEdit], edits: Sequence[AppliedEdit], *, before: float, after: float
) -> tuple[AppliedEdit, ...]:
    """Put rejected edits in front of the buffer, with the change of the selection score; every rule occurs once."""
    why = f"rejected: the selection score went from {before:.3f} to {after:.3f} ({after - before:+.3f})"
    new = [replace(edit, status=EditStatus.REJECTED, why=why) for edit in edits if edit.status is EditStatus.APPLIED]
    unique = {(one.edit.op, one.edit.text, one.edit.anchor): one for one in reversed([*new, *buffer])}
    return tuple(reversed(unique.values()))[:REJECTED_KEPT]


def describe_rejected(buffer: Sequence[AppliedEdit]) -> str:
    """Return the buffer of rejected edits as text, for an environment that reflects by itself."""
    return "\n".join(f"- {describe_edit(edit)} ({edit.why})" for edit in buffer)


def batch_folder(step: int, batch: int) -> str:
    """Return the folder of a batch of a step, both counted from 1 and 0; that of the first batch is the step's own."""
    return f"{step_folder(step)}/batch_{batch}" if batch else step_folder(step)


def _roll_out(run: Run, state: RunState, batches: Sequence[Sequence[Item]], step: int) -> list[list[RolloutResult]]:
    """Attempt each item ``rollouts_k`` times; return the results of each batch."""
    found: list[list[RolloutResult]] = []
    for batch, items in enumerate(batches):
        found.append([])
        for sample in range(run.config.rollouts_k):
            draw = Draw(
                phase="rollout",
                split="train",
                number=step * run.config.rollouts_k + sample,
                folder=f"{batch_folder(step, batch)}/rollout" + (f"_{sample}" if sample else ""),
                seed=run.config.seed + step + 100_000 * sample + 1_000_000 * batch,
            )
            found[batch] += run.roll(items, state.current_skill, draw)
    if not (score := score_results([result for results in found for result in results])).measured:
        raise BackendUnusable(
            f"step {step}: none of {score.items} attempts came back from the target ({score.lost}); nothing is scored:"
            " run again when it answers"
        )
    return found


def _propose(
    run: Run, state: RunState, scheduler: LRScheduler, rolled: Sequence[Sequence[RolloutResult]], *, step: int
) -> StepProposal[str]:
    """Reflect on the results of each batch, and turn all analyses into one candidate within the edit budget."""
    config, budget = run.config, scheduler.step()
    bound = budget if config.use_edit_budget else None
    lesson = Lesson(
        edit_budget=WITHOUT_BUDGET if bound is None else bound,
        rejected=state.rejected if config.use_rejected_buffer else (),
        notes=state.notes if config.use_meta_skill else "",
    )
    autonomous = isinstance(scheduler, AutonomousScheduler)
    plan = StepPlan(
        edit_budget=bound,
        least=config.min_edit_budget if autonomous and bound is not None else None,
        merge_batch_size=config.merge_batch_size,
        merge_by_model=config.use_aggregate,
    )
    analyses: list[Analysis] = []
    for batch, results in enumerate(rolled):
        own = _reflect_in_environment(run, state, results, step=step, folder=batch_folder(step, batch), lesson=lesson)
        analyses += (
            analyse(
                build_minibatches(results, config, f"{config.seed}:{step}" + (f":{batch}" if batch else "")),
                DocumentKind.SKILL,
                state.current_skill,
                frozenset(result.id for result in results),
                run.optimizer,
                lesson=lesson,
                phase="reflect",
            )
            if own is None
            else own
        )
    refuted = [edit for edit in lesson.rejected if (edit.edit.text or edit.edit.id) in state.refuted]
    target = EditTarget(
        document=state.current_skill,
        text=state.current_skill,
        hold_back=lambda edit: hold_back(edit, refuted),
        apply=lambda edits: apply_to_skill(state.current_skill, edits, cap=config.max_skill_chars),
    )
    made = propose(target, analyses, run.optimizer, plan=plan)
    if made.analyses and all(analysis.lost for analysis in made.analyses):
        raise BackendUnusable(
            f"step {step}: no analyst's call came back from the optimizer ({made.analyses[0].nothing}); nothing is"
            " scored: run again when it answers"
        )
    if isinstance(scheduler, AutonomousScheduler) and made.selected.asked is not None:
        scheduler.choose(made.selected.asked)
    return made


def _reflect_in_environment(
    run: Run, state: RunState, results: Sequence[RolloutResult], *, step: int, folder: str, lesson: Lesson
) -> tuple[Analysis, ...] | None:
    """Return what the environment's own analysts propose; None if it has none."""
    reflect = getattr(run.env, "reflect_batch", None)
    if not callable(reflect):
        return None
    try:
        with report_mistakes(f"reflect_batch of the environment {run.env.name!r}"):
            patches = reflect(
                results=list(results),
                skill=state.current_skill,
                out_dir=run.folder(folder),
                prediction_dir=run.folder(folder, "rollout", "predictions"),
                patches_dir=run.folder(folder, "patches"),
                random_seed=run.config.seed + step,
                step_buffer_context=describe_rejected(lesson.rejected),
                meta_skill_context=lesson.notes,
                edit_budget=lesson.edit_budget,
            )
    except TransientBackend as error:
        lost = not isinstance(error, BadReply)
        return (Analysis(patch=EditPatch(), nothing=f"{type(error).__name__}: {error}", lost=lost),)
    if patches is None:
        return None
    analyses = []
    for raw in patches:
        patch, flaws = read_patch(raw)
        for flaw in flaws:
            run.tell(f"  step {step}: an edit that {run.env.name} proposed is left out: {flaw}")
        words = msgspec.json.encode(raw.to_dict(), enc_hook=str).decode()
        refused = tuple(Refusal(subject=run.env.name, words=words, why=flaw) for flaw in flaws)
        analyses.append(Analysis(patch=patch, raw=(words,), refused=refused, nothing="; ".join(flaws)))
    return tuple(analyses)


def _remember(judgement: Judgement, made: StepProposal[str], step: int) -> RunState:
    """Return the state after the gate, with what later steps should know about this step."""
    state, before, after = judgement.state, judgement.before, judgement.after
    rejected = judgement.action in {"reject", "undecided"}
    if rejected and before is not None and after is not None and after <= before:
        tried = [one.edit.text or one.edit.id for one in made.edits if one.status is EditStatus.APPLIED]
        state = replace(
            state,
            rejected=remember_rejected(state.rejected, made.edits, before=before, after=after),
            refuted=(*state.refuted, *tried) if len(tried) == 1 else state.refuted,
        )
    note = _note(step, made.edits, f"{judgement.action}: {judgement.why}")
    return replace(state, tried=(*state.tried, note))


def _note(step: int, edits: Sequence[AppliedEdit], outcome: str) -> StepNote:
    return StepNote(step=step, edits=tuple(f"{describe_edit(edit)} [{edit.status}]" for edit in edits), outcome=outcome)


def _describe_proposal(made: StepProposal[str], edit_budget: int | None) -> dict[str, Any]:
    statuses = [edit.status for edit in made.edits]
    learnt = [analysis.patch.learnt for analysis in made.analyses if analysis.patch.proposals]
    return {
        "n_failure_patches": learnt.count(Learnt.FAILURE),
        "n_success_patches": learnt.count(Learnt.SUCCESS),
        "n_analyses_lost": sum(analysis.lost for analysis in made.analyses),
        "n_edits_dropped": len(made.refused),
        "n_edits_merged": len(made.merged.proposals),
        "edit_budget": edit_budget,
        "n_edits_ranked": len(made.selected.chosen),
        "candidate_skill_len": len(made.document),
        "candidate_hash": skill_hash(made.document),
        "apply_report": {
            "total": len(statuses),
            "applied": statuses.count(EditStatus.APPLIED),
            "unmatched": statuses.count(EditStatus.UNMATCHED),
            "skipped": statuses.count(EditStatus.SKIPPED),
            "guarded": statuses.count(EditStatus.GUARDED),
        },
    }
