"""What adapters of the reference return and write, read as values of this program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from skillopt_sleep.errors import UsageError
from skillopt_sleep.train.environments.loading import checked
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.results import RolloutResult

Row: TypeAlias = dict[str, Any]
FILES = {"target_system_prompt": "target_system_prompt.txt", "target_user_prompt": "target_user_prompt.txt"}
"""What adapters leave beside a conversation, by the field of the result it belongs to."""


def as_result(row: object, known: Mapping[str, Item] | None, prediction_dir: Path) -> RolloutResult:
    """A row of the adapter as a result, with what its item and the files it wrote say besides."""
    name = str(row.get("id")) if isinstance(row, Mapping) else ""
    item = (known or {}).get(name)
    result = checked(dict(row) if isinstance(row, Mapping) else row, item)
    folder = prediction_dir / result.id
    if folder.resolve().parent == prediction_dir.resolve() and folder.is_dir():
        for field, file in FILES.items():
            if not getattr(result, field) and (folder / file).is_file():
                setattr(result, field, (folder / file).read_text(encoding="utf-8"))
        result.conversation = result.conversation or conversation_of(prediction_dir, result.id)
    result.conversation = [_turn(each) for each in result.conversation]
    if item:
        result.question = result.question or str(item.get("question") or "")
        result.task_type = result.task_type or str(item.get("task_type") or "")
    return result


def unmeasured(item: Item, why: str) -> RolloutResult:
    """The result of an attempt that was lost."""
    return RolloutResult(id=str(item["id"]), hard=0.0, task_type=str(item.get("task_type") or ""), call_error=why)


def said(message: Mapping[str, Any]) -> str:
    """The text of a message, which some write in parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") if isinstance(part, Mapping) else str(part) for part in content)
    return "" if content is None else str(content)


def plain(row: Mapping[Any, Any], where: str) -> Row:
    """A row as it is after a restart: plain JSON, numbers of other libraries as numbers, what else there is as text.

    Raises ``UsageError`` for one that JSON cannot hold.
    """
    try:
        return msgspec.json.decode(msgspec.json.encode(dict(row), enc_hook=_simple), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{where}: its row cannot be kept as JSON: {error}") from None


def conversation_of(prediction_dir: Path, name: str) -> list[Any]:
    """The turns that an adapter wrote for a result, in any of the published forms; [] where it wrote none."""
    path = prediction_dir / name / "conversation.json"
    if path.parent.resolve().parent != prediction_dir.resolve() or not path.is_file():
        return []
    try:
        turns = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
    return [each for each in turns if each] if isinstance(turns, list) else []


def _simple(value: object) -> object:
    listed = getattr(value, "tolist", None)
    return listed() if callable(listed) else str(value)


def _turn(turn: object) -> Row:
    if not isinstance(turn, Mapping):
        return {"role": "assistant", "content": str(turn)}
    if turn.get("type") == "tool_call":
        return {"role": "tool", "content": f"{turn.get('cmd') or ''}\n{turn.get('obs') or ''}".strip()}
    if "action" in turn:
        parts = (turn.get("reasoning"), turn.get("action"), turn.get("env_feedback"))
        return {"role": "assistant", "content": "\n".join(str(part) for part in parts if part)}
    return {"role": str(turn.get("role") or "assistant"), "content": said(turn)}
