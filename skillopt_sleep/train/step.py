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
from skillopt_sleep.train.editing import compute_score, patch_of
from skillopt_sleep.train.gating import Judged, judged
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.reflection import minibatches
from skillopt_sleep.train.results import RolloutResult
from skillopt_sleep.train.run import Draw, Run, scored
from skillopt_sleep.train.schedules import AutonomousScheduler, Scheduler
from skillopt_sleep.train.skill_text import apply_to_skill, skill_hash
from skillopt_sleep.train.slow_update import StepNote, rejected_rules, remember
from skillopt_sleep.train.state import RunState, step_folder

WITHOUT_BUDGET = 16
"""Edits an analyst may propose where no budget holds."""


def train_step(
    run: Run, state: RunState, scheduler: Scheduler, items: Sequence[Item], *, epoch: int, step_in_epoch: int
) -> tuple[RunState, dict[str, Any]]:
    """The step after the last one that was completed. Raises ``FatalBackend`` and ``BudgetSpent``.

    Its record depends on what the models answered and on nothing else: no times, and nothing of what was paid when.
    """
    step = state.last_completed_step + 1
    folder = step_folder(step)
    results = _rolled(run, state, items, step, folder)
    hard, soft = compute_score(results)
    record: dict[str, Any] = {
        "step": step,
        "epoch": epoch,
        "step_in_epoch": step_in_epoch,
        "rollout_hard": hard,
        "rollout_soft": soft,
        "rollout_n": sum(not each.call_error for each in results),
        "rollout_lost": sum(bool(each.call_error) for each in results),
    }
    run.artefacts.json(f"{folder}/rollout_results.json", [each.to_dict() for each in results])
    budget = scheduler.step()
    made = _proposed(run, state, scheduler, results, step=step, folder=folder, budget=budget)
    run.artefacts.proposal(step, made)
    record |= _numbers(made, scheduler, run)
    if made.document == state.current_skill:
        state = replace(state, tried=(*state.tried, _note(step, made.edits, f"no change: {made.nothing}")))
        record |= {"action": "skip_no_patches", "why": made.nothing}
        run.tell(f"  step {step}: no change, {made.nothing}")
    else:
        verdict = judged(run, state, made.document, step=step, folder=f"{folder}/selection_eval")
        state = _learnt(run, verdict, made, step)
        record |= _verdict(verdict, made.document, run)
    record |= {
        "current_score": state.current_score,
        "best_score": state.best_score,
        "best_step": state.best_step,
        "skill_len": len(state.current_skill),
    }
    run.artefacts.json(f"{folder}/step_record.json", record)
    return replace(state, last_completed_step=step, scheduler_state=scheduler.state_dict()), record


def _rolled(run: Run, state: RunState, items: Sequence[Item], step: int, folder: str) -> list[RolloutResult]:
    """``rollouts_k`` attempts at each item of the batch."""
    found: list[RolloutResult] = []
    for sample in range(run.config.rollouts_k):
        draw = Draw(
            phase="rollout",
            split="train",
            number=step * run.config.rollouts_k + sample,
            folder=f"{folder}/rollout" + (f"_{sample}" if sample else ""),
            seed=run.config.seed + step + 100_000 * sample,
        )
        found += run.roll(items, state.current_skill, draw)
    if not (score := scored(found)).measured:
        raise BackendUnusable(
            f"step {step}: none of {score.items} attempts came back from the target ({score.lost}); nothing is scored:"
            " run again when it answers"
        )
    return found


def _proposed(
    run: Run,
    state: RunState,
    scheduler: Scheduler,
    results: Sequence[RolloutResult],
    *,
    step: int,
    folder: str,
    budget: int,
) -> StepProposal[str]:
    config = run.config
    autonomous = isinstance(scheduler, AutonomousScheduler)
    bound = budget if config.use_edit_budget else None
    lesson = Lesson(
        edit_budget=WITHOUT_BUDGET if bound is None else bound,
        rejected=state.rejected if config.use_rejected_buffer else (),
        notes=state.notes if config.use_meta_skill else "",
    )
    plan = StepPlan(
        edit_budget=bound,
        least=config.min_edit_budget if autonomous and bound is not None else None,
        merge_batch_size=config.merge_batch_size,
        merge_by_model=config.use_aggregate,
    )
    analyses = _own_analyses(run, state, results, step=step, folder=folder, lesson=lesson)
    if analyses is None:
        analyses = analyse(
            minibatches(results, config, f"{config.seed}:{step}"),
            DocumentKind.SKILL,
            state.current_skill,
            frozenset(result.id for result in results),
            run.optimizer,
            lesson=lesson,
            phase="reflect",
        )
    refuted = [edit for edit in lesson.rejected if (edit.edit.text or edit.edit.id) in state.refuted]
    target = EditTarget(
        document=state.current_skill,
        text=state.current_skill,
        hold_back=lambda edit: hold_back(edit, refuted),
        apply=lambda edits: apply_to_skill(state.current_skill, edits, cap=config.max_skill_chars),
    )
    made = propose(target, analyses, run.optimizer, plan=plan)
    if made.analyses and all(each.lost for each in made.analyses):
        raise BackendUnusable(
            f"step {step}: no analyst's call came back from the optimizer ({made.analyses[0].nothing}); nothing is"
            " scored: run again when it answers"
        )
    if isinstance(scheduler, AutonomousScheduler) and made.selected.asked is not None:
        scheduler.choose(made.selected.asked)
    return made


def _own_analyses(
    run: Run, state: RunState, results: Sequence[RolloutResult], *, step: int, folder: str, lesson: Lesson
) -> tuple[Analysis, ...] | None:
    """What the environment's own analysts propose; None when it has none."""
    reflect = getattr(run.env, "reflect_batch", None)
    if not callable(reflect):
        return None
    try:
        patches = reflect(
            results=list(results),
            skill=state.current_skill,
            out_dir=run.folder(folder),
            prediction_dir=run.folder(folder, "rollout", "predictions"),
            patches_dir=run.folder(folder, "patches"),
            random_seed=run.config.seed + step,
            step_buffer_context=rejected_rules(lesson.rejected),
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
        patch, flaws = patch_of(raw)
        for flaw in flaws:
            run.tell(f"  step {step}: of what {run.env.name} proposed, one edit is left out: {flaw}")
        said = msgspec.json.encode(raw.to_dict(), enc_hook=str).decode()
        refused = tuple(Refusal(subject=run.env.name, words=said, why=flaw) for flaw in flaws)
        analyses.append(Analysis(patch=patch, raw=(said,), refused=refused, nothing="; ".join(flaws)))
    return tuple(analyses)


def _learnt(run: Run, verdict: Judged, made: StepProposal[str], step: int) -> RunState:
    """The state after the gate, with what it is to remember of the step."""
    state = verdict.state
    turned_down = verdict.action in {"reject", "undecided"}
    if turned_down and verdict.before is not None and verdict.after is not None and verdict.after <= verdict.before:
        tried = [each.edit.text or each.edit.id for each in made.edits if each.status is EditStatus.APPLIED]
        state = replace(
            state,
            rejected=remember(state.rejected, made.edits, before=verdict.before, after=verdict.after),
            refuted=(*state.refuted, *tried) if len(tried) == 1 else state.refuted,
        )
    run.tell(f"  step {step}: {verdict.action}, {verdict.why}")
    return replace(state, tried=(*state.tried, _note(step, made.edits, f"{verdict.action}: {verdict.why}")))


def _note(step: int, edits: Sequence[AppliedEdit], outcome: str) -> StepNote:
    return StepNote(
        step=step,
        edits=tuple(f"{describe_edit(each)} [{each.status}]" for each in edits),
        outcome=outcome,
    )


def _numbers(made: StepProposal[str], scheduler: Scheduler, run: Run) -> dict[str, Any]:
    statuses = [each.status for each in made.edits]
    counts = {status: statuses.count(status) for status in EditStatus}
    return {
        "n_failure_patches": sum(each.patch.learnt is Learnt.FAILURE for each in made.analyses if each.patch.proposals),
        "n_success_patches": sum(each.patch.learnt is Learnt.SUCCESS for each in made.analyses if each.patch.proposals),
        "n_analyses_lost": sum(each.lost for each in made.analyses),
        "n_edits_dropped": len(made.refused),
        "n_edits_merged": len(made.merged.proposals),
        "edit_budget": scheduler.get_lr() if run.config.use_edit_budget else None,
        "n_edits_ranked": len(made.selected.chosen),
        "candidate_skill_len": len(made.document),
        "candidate_hash": skill_hash(made.document),
        "apply_report": {
            "total": len(statuses),
            "applied": counts[EditStatus.APPLIED],
            "unmatched": counts[EditStatus.UNMATCHED],
            "skipped": counts[EditStatus.SKIPPED],
            "guarded": counts[EditStatus.GUARDED],
        },
    }


def _verdict(verdict: Judged, candidate: str, run: Run) -> dict[str, Any]:
    score = verdict.score
    return {
        "action": verdict.action,
        "why": verdict.why,
        "gate": run.config.gate,
        "gate_metric": run.config.gate_metric,
        "selection_hard": score.hard if score else None,
        "selection_soft": score.soft if score else None,
        "candidate_gate_score": verdict.after,
        "candidate_hash": skill_hash(candidate),
    }
