"""The functions of the reference implementation that propose edits, for adapters that call these functions directly.

This program's model calls do the work; they see the adapter's results and ``predictions/ID/conversation.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from skillopt_sleep.calls.parallel import Pool
from skillopt_sleep.errors import UsageError
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.optimizer.aggregate import Learnt
from skillopt_sleep.optimizer.client import Optimizer
from skillopt_sleep.optimizer.reflect import LAPSES_FROM, Lesson, analyse
from skillopt_sleep.train.clients import as_ask
from skillopt_sleep.train.compat.chats import Row, current, get_message_text
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.patches import build_minibatches, make_raw_patch
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.results import RolloutResult, check_result

PART_CHARS = {
    "cmd": 500,
    "obs": 800,
    "reasoning": 300,
    "action": 200,
    "env_feedback": 500,
    "system": 2_000,
    "said": 500,
}
"""For each part of a turn, such as "obs" (a command's output), the maximum characters that a prompt shows."""
REFERENCE_CHARS, PROMPT_CHARS = 4_000, 3_000
PROMPT_FILES = {"target_system_prompt": "target_system_prompt.txt", "target_user_prompt": "target_user_prompt.txt"}
"""Files beside ``conversation.json`` from which two fields of a result are read if the adapter left them empty."""


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
    skill_aware_reflection: bool | None = None,
    skill_aware_appendix_source: str | None = None,
) -> list[Row | None]:
    """Let the optimizer propose edits after these results; return them as patches, also written to ``patches_dir``.

    The conversation of a result that has none is read from ``prediction_dir``. With ``skill_aware_reflection``, whose
    default is the config's value, patches may have ``appendix_notes``. Raises ``UsageError`` for an ``update_mode`` in
    which the skill is rewritten and not edited.
    """
    check_mode(update_mode)
    run = current.config
    aware = run.get("use_skill_aware_reflection") if skill_aware_reflection is None else skill_aware_reflection
    source = skill_aware_appendix_source or str(run.get("skill_aware_appendix_source") or "both")
    rows = _reflect(
        [read_row(row, None, Path(prediction_dir)) for row in results],
        skill_content,
        config=SkillOptConfig(
            minibatch_size=minibatch_size, failure_only=failure_only, edit_budget=edit_budget, min_edit_budget=1
        ),
        workers=workers,
        seed=random_seed or 0,
        systems=(error_system, success_system),
        tried=step_buffer_context or rejection_context or trajectory_memory_context,
        notes=meta_skill_context,
        lapses_from=LAPSES_FROM[source] if aware else frozenset(),
    )
    Path(patches_dir).mkdir(parents=True, exist_ok=True)
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
    """Show the results to one model call as failures, whatever their scores; return the edits it proposes, or None."""
    return _analyse_once(0.0, **locals())


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
    """Show the results to one model call as successes, whatever their scores; return the edits it proposes, or None."""
    return _analyse_once(1.0, **locals())


def fmt_trajectory(conversation: list[Row], max_chars: int = 12_000) -> str:
    """Return a conversation as text, a line per message or action; beyond ``max_chars``, the middle is left out."""
    text = "\n".join(line for turn in conversation for line in _format_turn(turn))
    half = max_chars // 2
    return text if len(text) <= max_chars else f"{text[:half]}\n...[middle left out]...\n{text[-half:]}"


def fmt_minibatch_trajectories(items: list[Row], prediction_dir: str) -> str:
    """Return the items' conversations as one text; each has a heading with, say, its task and why it failed."""
    shown = []
    for number, row in enumerate(items, start=1):
        result = read_row({"hard": 0, "soft": 0} | row, None, Path(prediction_dir))
        turns = _read_conversation(Path(prediction_dir), result.id)
        if turns:
            shown.append(f"{_format_heading(number, row, result)}\n\n{fmt_trajectory(turns)}")
    return "\n\n---\n\n".join(shown)


def read_row(row: object, known: Mapping[str, Item] | None, prediction_dir: Path) -> RolloutResult:
    """Convert a dict that a user's adapter returned to a result; fill gaps from the item and the adapter's files."""
    item = (known or {}).get(str(row.get("id")) if isinstance(row, Mapping) else "")
    result = check_result(dict(row) if isinstance(row, Mapping) else row, item)
    folder = prediction_dir / result.id
    if folder.resolve().parent == prediction_dir.resolve() and folder.is_dir():
        for field, file in PROMPT_FILES.items():
            if not getattr(result, field) and (folder / file).is_file():
                setattr(result, field, (folder / file).read_text(encoding="utf-8"))
        result.conversation = result.conversation or _read_conversation(prediction_dir, result.id)
    result.conversation = [_read_turn(turn) for turn in result.conversation]
    if item:
        result.question = result.question or str(item.get("question") or "")
        result.task_type = result.task_type or str(item.get("task_type") or "")
    return result


def convert_to_plain_row(row: Mapping[Any, Any], where: str) -> Row:
    """Return a dict of a user's adapter as plain JSON: numpy numbers become numbers, other objects become text.

    So a resumed run gets it back from disk unchanged. Raises ``UsageError`` for values that JSON cannot hold.
    """

    def simplify(value: object) -> object:
        to_list = getattr(value, "tolist", None)
        return to_list() if callable(to_list) else str(value)

    try:
        return msgspec.json.decode(msgspec.json.encode(dict(row), enc_hook=simplify), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{where}: the returned row cannot be stored as JSON: {error}") from None


def _reflect(
    results: Sequence[RolloutResult],
    skill: str,
    *,
    config: SkillOptConfig,
    workers: int,
    seed: int,
    systems: tuple[str | None, str | None],
    tried: str,
    notes: str,
    lapses_from: frozenset[Learnt] = frozenset(),
) -> list[Row]:
    """Return the patches, as dicts, of those model calls that proposed something.

    ``systems`` are texts that replace the prompts' instructions for failures and for successes; the form of the reply
    stays. ``tried`` is a list of rejected edits, ``notes`` are the optimizer's notes, both as text for the prompt.
    Raises ``FatalBackend`` and ``BudgetSpent``.
    """
    wording = {
        name: text.replace("{{edit_budget}}", str(config.edit_budget)).replace("{{kind}}", "skill")
        for name, text in zip(("analyst_error", "analyst_success"), systems, strict=True)
        if text is not None
    }
    context = [notes.strip(), f"Tried before:\n{tried}" if tried.strip() else ""]
    analyses = analyse(
        build_minibatches(results, config, str(seed)),
        DocumentKind.SKILL,
        skill,
        frozenset(result.id for result in results),
        Optimizer(ask=as_ask(current.client("optimizer")), parallel=Pool(workers), wording=wording),
        lesson=Lesson(
            edit_budget=config.edit_budget, notes="\n\n".join(filter(None, context)), lapses_from=lapses_from
        ),
        phase="reflect",
    )
    rows = []
    for analysis in analyses:
        raw = make_raw_patch(analysis.patch)
        raw.appendix_notes = list(analysis.lapses)
        rows += [raw.to_dict()] if analysis.patch.proposals or analysis.lapses else []
    return rows


def _analyse_once(score: float, *, items: list[Row], prediction_dir: str, edit_budget: int, **given: Any) -> Row | None:
    """Show all results to one model call, as failures (score 0) or as successes (1); return its patch, or None."""
    check_mode(given["update_mode"])
    contexts = ("step_buffer_context", "rejection_context", "trajectory_memory_context")
    read = [read_row({"hard": score, "soft": score} | row, None, Path(prediction_dir)) for row in items]
    rows = _reflect(
        [replace(result, hard=score, soft=score) for result in read],
        given["skill_content"],
        config=SkillOptConfig(
            minibatch_size=max(1, len(items)), failure_only=not score, edit_budget=edit_budget, min_edit_budget=1
        ),
        workers=1,
        seed=0,
        systems=(given["system_prompt"], given["system_prompt"]),
        tried=next((given[name] for name in contexts if given.get(name)), ""),
        notes=given["meta_skill_context"],
    )
    return rows[0] if rows else None


def _read_conversation(prediction_dir: Path, name: str) -> list[Any]:
    """Return the conversation that a user's adapter left in a result's ``conversation.json``; [] without that file."""
    path = prediction_dir / name / "conversation.json"
    if path.parent.resolve().parent != prediction_dir.resolve() or not path.is_file():
        return []
    try:
        turns = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"the conversation file {path} is not JSON: {error}") from None
    return [turn for turn in turns if turn] if isinstance(turns, list) else []


def _read_turn(turn: object) -> Row:
    if not isinstance(turn, Mapping):
        return {"role": "assistant", "content": str(turn)}
    if turn.get("type") == "tool_call":
        return {"role": "tool", "content": f"{turn.get('cmd') or ''}\n{turn.get('obs') or ''}".strip()}
    if "action" in turn:
        parts = (turn.get("reasoning"), turn.get("action"), turn.get("env_feedback"))
        return {"role": "assistant", "content": "\n".join(str(part) for part in parts if part)}
    return {"role": str(turn.get("role") or "assistant"), "content": get_message_text(turn)}


def _format_heading(number: int, row: Row, result: RolloutResult) -> str:
    facts = {
        "Task": result.task_description or str(row.get("instruction") or ""),
        "Task type": result.task_type or str(row.get("instruction_type") or ""),
        "Why it failed": result.fail_reason,
        "Steps": str(row.get("n_turns", "?")),
    }
    longer = {
        "Reference": result.reference_text.strip()[:REFERENCE_CHARS],
        "System prompt of the target": result.target_system_prompt[:PROMPT_CHARS],
        "User prompt of the target": result.target_user_prompt[:PROMPT_CHARS],
        "Preview of the spreadsheet": result.spreadsheet_preview[:PROMPT_CHARS],
    }
    lines = [f"### Trajectory {number} (id={result.id})", *(f"{name}: {text}" for name, text in facts.items() if text)]
    lines += [f"\n#### {name}\n{text}" for name, text in longer.items() if text]
    return "\n".join(lines)


def _format_turn(turn: object) -> list[str]:
    """Return one turn of a conversation as lines of text; turns are dicts of several forms."""
    if not isinstance(turn, Mapping):
        return [f"[agent] {str(turn)[: PART_CHARS['said']]}"]
    parts = {name: "" if turn.get(name) is None else str(turn.get(name))[:most] for name, most in PART_CHARS.items()}
    if turn.get("type") == "tool_call":
        return [f"[action] {parts['cmd']}", f"[obs]    {parts['obs']}"]
    if "action" in turn and "env_feedback" in turn:
        step = turn.get("step", "?")
        thought = [f"[step {step} think] {parts['reasoning']}"] if parts["reasoning"] else []
        return [*thought, f"[step {step} action] {parts['action']}", f"[step {step} obs]    {parts['env_feedback']}"]
    if turn.get("role") == "system":
        return [f"[verification] {get_message_text(turn)[: PART_CHARS['system']]}"]
    return [f"[{turn.get('role', 'agent')}] {get_message_text(turn)[: PART_CHARS['said']]}"]


def check_mode(update_mode: str) -> None:
    """Raise ``UsageError`` for an update mode in which the optimizer rewrites the skill and proposes no edits."""
    if update_mode not in {"patch", "rewrite_from_suggestions"}:
        raise UsageError(
            f"update_mode {update_mode!r} cannot be used with functions that return edits; to rewrite whole skills,"
            " leave out reflect and set skill_update_mode = 'full_rewrite_minibatch'"
        )
