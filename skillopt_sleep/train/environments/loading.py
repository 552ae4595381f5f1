"""An environment of one's own: a class or an object, a file, an adapter of the reference; made ready for training.

Hold an environment, which may be anyone's code, to what it promised: one error that names the item.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from skillopt_sleep.errors import SleepError, UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.model.text import did_you_mean, excerpt, sha256
from skillopt_sleep.train.identity import MADE_WITH
from skillopt_sleep.train.ports import ChatClient, Item, SkillEnv
from skillopt_sleep.train.results import RolloutResult

NEEDED = ("get_items", "rollout_one")


def as_env(env: object) -> SkillEnv:
    """The environment itself, or the way to it for an adapter of the reference.

    Raises ``UsageError`` naming what it lacks to be one.
    """
    if isinstance(env, SkillEnv):
        return env
    if inspect.isclass(env):
        raise UsageError(f"the environment is the class {env.__name__}; make one of it: env={env.__name__}(…)")
    if hasattr(env, "rollout") and hasattr(env, "build_train_env"):
        from skillopt_sleep.train.compat.bridge import AdapterEnv  # noqa: PLC0415  it imports this package

        return AdapterEnv(env)  # type: ignore[arg-type]  # by its methods, wherever its base class came from
    missing = [name for name in NEEDED if not callable(getattr(env, name, None))]
    if missing:
        raise UsageError(f"{excerpt(repr(env), 60)} is no environment: it has no {' and no '.join(missing)}")
    return _Borrowed(env)


def load_environment(
    file: str, options: Mapping[str, Json], folder: Path | None = None, *, config: Mapping[str, Any] | None = None
) -> SkillEnv:
    """The environment that a file makes: ``my_env.py``, or ``my_env.py:MyEnv`` where it holds several.

    A relative path begins at ``folder``; ``config`` as in ``make_environment``. Raises ``UsageError`` naming the file.
    """
    path, _, name = file.rpartition(":") if ".py:" in file else (file, "", "")
    place = (folder or Path()) / path
    if not place.is_file():
        raise UsageError(f"there is no environment file {place}")
    module = _imported(place)
    return make_environment(_chosen(module, name, place), options, f"{place}", config=config)


def make_environment(
    maker: object, options: Mapping[str, Json], where: str, *, config: Mapping[str, Any] | None = None
) -> SkillEnv:
    """Call a class or function with options; an adapter class takes what it can of a training ``config`` too.

    Raises ``UsageError`` naming an option that it does not take.
    """
    if not callable(maker):
        if options:
            raise UsageError(f"{where}: an environment that is made already takes no options ({', '.join(options)})")
        return as_env(maker)
    takes = inspect.signature(maker).parameters.values()
    known = [each.name for each in takes if each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}]
    if not any(each.kind is each.VAR_KEYWORD for each in takes):
        for option in options:
            if option not in known:
                raise UsageError(
                    f"{where} has no option {option!r}, only {', '.join(known)}{did_you_mean(option, known)}"
                )
    try:
        env = as_env(maker(**{**_of_config(maker, config), **options}))
    except SleepError:
        raise
    except Exception as error:
        raise UsageError(f"{where} cannot be made: {type(error).__name__}: {excerpt(str(error), 160)}") from error
    with suppress(AttributeError):  # one with slots of its own
        setattr(env, MADE_WITH, dict(options))
    return env


def _of_config(maker: object, config: Mapping[str, Any] | None) -> dict[str, Any]:
    if not config:
        return {}
    from skillopt_sleep.train.compat.bridge import taken_from_config  # noqa: PLC0415  it imports this package

    return taken_from_config(maker, config)


class _Borrowed(SkillEnv):
    """An object with the methods of an environment, but not its base class."""

    def __init__(self, env: object) -> None:
        self._env = env
        self.name = str(getattr(env, "name", type(env).__name__))
        self.task_types = getattr(env, "task_types", None)
        self.from_sessions = bool(getattr(env, "from_sessions", False))
        for method in (
            "get_initial_skill",
            "get_task_types",
            "calls_of",
            "setup",
            "plan_epoch",
            "traits",
            "rollout_batch",
            "reflect_batch",
            *NEEDED,
        ):
            if callable(found := getattr(env, method, None)):
                setattr(self, method, found)


def _imported(path: Path) -> ModuleType:
    """The module of a file, under a name of its own; its folder is importable while it is read."""
    name = f"skillopt_sleep_env_{sha256(str(path.resolve()).encode())[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except SleepError:
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be loaded: {type(error).__name__}: {excerpt(str(error), 160)}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _chosen(module: ModuleType, name: str, path: Path) -> object:
    """What the file offers: the thing named, ``ENVIRONMENT``, or the only environment class it defines."""
    if name:
        if not hasattr(module, name):
            raise UsageError(f"{path} has no {name!r}{did_you_mean(name, vars(module))}")
        return getattr(module, name)
    if hasattr(module, "ENVIRONMENT"):
        return module.ENVIRONMENT
    there = [
        each
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__ and _is_environment(each)
    ]
    own = [each for each in there if not inspect.isabstract(each)] or there
    if len(own) != 1:
        found = ", ".join(each.__name__ for each in own) or "none"
        raise UsageError(f"{path} defines {len(own)} environments ({found}); name one as {path.name}:Class")
    return own[0]


def _is_environment(each: type) -> bool:
    shaped = all(callable(getattr(each, name, None)) for name in NEEDED)
    adapter = hasattr(each, "rollout") and hasattr(each, "build_train_env")
    return shaped or adapter


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
