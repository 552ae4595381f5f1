"""Hold an environment, which may be anyone's code, to what it promised: one error that names the item."""

from __future__ import annotations

import math
from collections.abc import Mapping

from skillopt_sleep.domain.words import excerpt
from skillopt_sleep.errors import SleepError, UsageError
from skillopt_sleep.train.ports import ChatClient, Item, SkillEnv
from skillopt_sleep.train.results import RolloutResult

__all__ = ["as_score", "blamed", "checked", "roll_out"]


def roll_out(env: SkillEnv, item: Item, skill: str, target_client: ChatClient) -> RolloutResult:
    """One attempt at an item, checked. Raises what the client raises, and ``UsageError`` for a mistake of the env."""
    try:
        result = env.rollout_one(item=item, skill=skill, target_client=target_client)
    except SleepError:
        raise
    except Exception as error:
        raise blamed(f"the environment {env.name!r}", error, item) from error
    result = checked(result, item)
    if result.id != str(item["id"]):
        raise UsageError(f"item {str(item['id'])!r}: its result has the id {result.id!r}; it must be that of the item")
    result.task_type = result.task_type or str(item.get("task_type") or "")
    return result


def checked(result: object, item: Item | None = None) -> RolloutResult:
    """The result, when it has an id and both scores are numbers from 0 to 1; a dict is read as one.

    Raises ``UsageError`` that names the item. A result that transport lost has no scores to check.
    """
    where = f"item {str((item or {}).get('id'))!r}" if item else "a rollout"
    if isinstance(result, Mapping):
        try:
            result = RolloutResult.from_dict(result)
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
    if not isinstance(result, RolloutResult):
        raise UsageError(f"{where}: a RolloutResult is wanted, the environment returned {excerpt(repr(result), 60)}")
    where = where if item else f"the rollout {result.id!r}"
    if not result.id.strip():
        raise UsageError(f"{where}: its result has no id")
    if not result.call_error:
        result.hard, result.soft = as_score(result.hard, f"{where}: hard"), as_score(result.soft, f"{where}: soft")
    return result


def as_score(value: object, what: str) -> float:
    """A score as a number from 0 to 1. Raises ``UsageError`` that names ``what``."""
    try:
        number = float(value)  # type: ignore[arg-type]  # numpy numbers and booleans are numbers too
    except (TypeError, ValueError):
        raise UsageError(f"{what} is {excerpt(repr(value), 40)}, no number; a score lies between 0 and 1") from None
    if not math.isfinite(number) or not 0 <= number <= 1:
        raise UsageError(f"{what} is {number}; a score lies between 0 and 1")
    return number


def blamed(whom: str, error: Exception, item: Item | None = None) -> UsageError:
    """The one line for a mistake in somebody's code, at an item if one is known."""
    said, where = excerpt(str(error), 160), f" on item {str(item.get('id'))!r}" if item else ""
    return UsageError(f"{whom} raised {type(error).__name__}{where}: {said or 'no message'}")
