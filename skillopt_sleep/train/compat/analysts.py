"""The reflection helpers of the reference, for adapters that reflect by themselves: this program's analysts do it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from skillopt_sleep.errors import UsageError
from skillopt_sleep.train.compat.chats import working
from skillopt_sleep.train.compat.rows import Row, as_result, conversation_of, said
from skillopt_sleep.train.results import RolloutResult

PARTS = {"cmd": 500, "obs": 800, "reasoning": 300, "action": 200, "env_feedback": 500, "system": 2_000, "said": 500}
"""Characters shown of the parts of a turn."""
REFERENCE, PROMPTS_SHOWN = 4_000, 3_000


def run_minibatch_reflect(
    results: list[Row],
    skill_content: str,
    prediction_dir: str,
    patches_dir: str,
    workers: int,
    failure_only: bool,  # noqa: FBT001  published so
    minibatch_size: int = 8,
    edit_budget: int = 4,
    random_seed: int | None = None,
    *,
    error_system: str | None = None,
    success_system: str | None = None,
    rejection_context: str = "",
    trajectory_memory_context: str = "",
    step_buffer_context: str = "",
    meta_skill_context: str = "",
    update_mode: str = "patch",
) -> list[Row | None]:
    """Have the analysts of this program look at the results, and keep what they say in ``patches_dir``.

    Conversations are read from ``prediction_dir`` where a result brings none. Raises ``UsageError`` for an
    ``update_mode`` other than patch: whole rewrites are not trained here.
    """
    from skillopt_sleep.train.reflection import reflect_on  # noqa: PLC0415  an adapter that never reflects needs none

    _only_patches(update_mode)
    patches = reflect_on(
        [as_result(row, None, Path(prediction_dir)) for row in results],
        skill_content,
        optimizer_client=working.client("optimizer"),
        workers=workers,
        failure_only=failure_only,
        minibatch_size=minibatch_size,
        edit_budget=edit_budget,
        random_seed=random_seed or 0,
        error_system=_filled(error_system, edit_budget),
        success_system=_filled(success_system, edit_budget),
        step_buffer_context=step_buffer_context or rejection_context or trajectory_memory_context,
        meta_skill_context=meta_skill_context,
    )
    Path(patches_dir).mkdir(parents=True, exist_ok=True)
    rows = [patch.to_dict() for patch in patches]
    for number, row in enumerate(rows):
        name = f"minibatch_{'succ' if row['source_type'] == 'success' else 'fail'}_{number:03d}.json"
        Path(patches_dir, name).write_text(json.dumps(row, ensure_ascii=False, indent=2), encoding="utf-8")
    return [*rows]


def run_error_analyst_minibatch(
    skill_content: str,
    items: list[Row],
    prediction_dir: str,
    edit_budget: int = 4,
    *,
    system_prompt: str | None = None,
    rejection_context: str = "",
    trajectory_memory_context: str = "",
    step_buffer_context: str = "",
    meta_skill_context: str = "",
    update_mode: str = "patch",
) -> Row | None:
    """Show one analyst these results as failures, whatever they scored: its patch, None when it has none."""
    _only_patches(update_mode)
    return _one_minibatch(
        items,
        skill_content,
        prediction_dir,
        edit_budget,
        passed=False,
        system=system_prompt,
        tried=step_buffer_context or rejection_context or trajectory_memory_context,
        notes=meta_skill_context,
    )


def run_success_analyst_minibatch(
    skill_content: str,
    items: list[Row],
    prediction_dir: str,
    edit_budget: int = 4,
    *,
    system_prompt: str | None = None,
    trajectory_memory_context: str = "",
    step_buffer_context: str = "",
    meta_skill_context: str = "",
    update_mode: str = "patch",
) -> Row | None:
    """Show one analyst these results as successes, in the same way."""
    _only_patches(update_mode)
    return _one_minibatch(
        items,
        skill_content,
        prediction_dir,
        edit_budget,
        passed=True,
        system=system_prompt,
        tried=step_buffer_context or trajectory_memory_context,
        notes=meta_skill_context,
    )


def fmt_trajectory(conversation: list[Row], max_chars: int = 12_000) -> str:
    """A conversation as text, a line for each thing that was said or done; its middle goes first."""
    text = "\n".join(line for turn in conversation for line in _lines(turn))
    half = max_chars // 2
    return text if len(text) <= max_chars else f"{text[:half]}\n...[middle left out]...\n{text[-half:]}"


def fmt_minibatch_trajectories(items: list[Row], prediction_dir: str) -> str:
    """The conversations that lie in ``prediction_dir``, each under a heading of what is known of it."""
    shown = []
    for number, row in enumerate(items, start=1):
        result = as_result({"hard": 0, "soft": 0} | row, None, Path(prediction_dir))
        turns = conversation_of(Path(prediction_dir), result.id)
        if turns:
            shown.append(f"{_heading(number, row, result)}\n\n{fmt_trajectory(turns)}")
    return "\n\n---\n\n".join(shown)


def _one_minibatch(
    items: Sequence[Row],
    skill: str,
    prediction_dir: str,
    edit_budget: int,
    *,
    passed: bool,
    system: str | None,
    tried: str,
    notes: str,
) -> Row | None:
    from skillopt_sleep.train.reflection import reflect_on  # noqa: PLC0415  an adapter that never reflects needs none

    score = float(passed)
    read = [as_result({"hard": score, "soft": score} | row, None, Path(prediction_dir)) for row in items]
    patches = reflect_on(
        [replace(each, hard=score, soft=score) for each in read],
        skill,
        optimizer_client=working.client("optimizer"),
        workers=1,
        failure_only=not passed,
        minibatch_size=max(1, len(items)),
        edit_budget=edit_budget,
        random_seed=0,
        error_system=_filled(system, edit_budget),
        success_system=_filled(system, edit_budget),
        step_buffer_context=tried,
        meta_skill_context=notes,
    )
    return patches[0].to_dict() if patches else None


def _heading(number: int, row: Row, result: RolloutResult) -> str:
    told = {
        "Task": result.task_description or str(row.get("instruction") or ""),
        "Task type": result.task_type or str(row.get("instruction_type") or ""),
        "Why it failed": result.fail_reason,
        "Steps": str(row.get("n_turns", "?")),
    }
    longer = {
        "Reference": result.reference_text.strip()[:REFERENCE],
        "System prompt of the target": result.target_system_prompt[:PROMPTS_SHOWN],
        "User prompt of the target": result.target_user_prompt[:PROMPTS_SHOWN],
        "Preview of the spreadsheet": result.spreadsheet_preview[:PROMPTS_SHOWN],
    }
    lines = [f"### Trajectory {number} (id={result.id})", *(f"{name}: {text}" for name, text in told.items() if text)]
    lines += [f"\n#### {name}\n{text}" for name, text in longer.items() if text]
    return "\n".join(lines)


def _lines(turn: object) -> list[str]:
    """A turn in any of the published forms."""
    if not isinstance(turn, Mapping):
        return [f"[agent] {str(turn)[: PARTS['said']]}"]
    parts = {name: "" if turn.get(name) is None else str(turn.get(name))[:most] for name, most in PARTS.items()}
    if turn.get("type") == "tool_call":
        return [f"[action] {parts['cmd']}", f"[obs]    {parts['obs']}"]
    if "action" in turn and "env_feedback" in turn:
        step = turn.get("step", "?")
        thought = [f"[step {step} think] {parts['reasoning']}"] if parts["reasoning"] else []
        return [*thought, f"[step {step} action] {parts['action']}", f"[step {step} obs]    {parts['env_feedback']}"]
    if turn.get("role") == "system":
        return [f"[verification] {said(turn)[: PARTS['system']]}"]
    return [f"[{turn.get('role', 'agent')}] {said(turn)[: PARTS['said']]}"]


def _only_patches(update_mode: str) -> None:
    if update_mode != "patch":
        raise UsageError(f"update_mode {update_mode!r} is not trained here, only 'patch'")


def _filled(system: str | None, edit_budget: int) -> str | None:
    """Instructions with the fields that ``load_prompt`` leaves open."""
    if system is None:
        return None
    return system.replace("{{edit_budget}}", str(edit_budget)).replace("{{kind}}", "skill")
