"""Environments to train on: the built-in ones are files of this package, your own comes from a class or a file.

This module turns whatever the user names (an object, a class with options, ``my_env.py``, an adapter written for the
reference) into a ``SkillEnv``, and runs one checked attempt of it.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from skillopt_sleep.errors import SleepError, UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.model.text import did_you_mean, excerpt, sha256
from skillopt_sleep.train.compat.bridge import AdapterEnv, arguments_from_config, is_adapter
from skillopt_sleep.train.ports import MADE_WITH, ChatClient, Item, SkillEnv
from skillopt_sleep.train.results import RolloutResult, check_result, environment_error

REQUIRED = ("get_items", "rollout_one")
OPTIONAL = (
    "get_initial_skill",
    "get_task_types",
    "calls_of",
    "setup",
    "plan_epoch",
    "traits",
    "rollout_batch",
    "reflect_batch",
)


def as_env(env: object) -> SkillEnv:
    """Return an object as an environment; an adapter of the reference is wrapped.

    Raises ``UsageError`` naming the methods it lacks.
    """
    if isinstance(env, SkillEnv):
        return env
    if inspect.isclass(env):
        raise UsageError(f"the environment is the class {env.__name__}; pass an instance: env={env.__name__}(…)")
    if is_adapter(env):
        return AdapterEnv(env)  # type: ignore[arg-type]  # by its methods, wherever its base class came from
    missing = [name for name in REQUIRED if not callable(getattr(env, name, None))]
    if missing:
        raise UsageError(f"{excerpt(repr(env), 60)} is not an environment: it has no {' and no '.join(missing)}")
    return _DuckTypedEnv(env)


def load_environment(
    file: str, options: Mapping[str, Json], folder: Path | None = None, *, config: Mapping[str, Any] | None = None
) -> SkillEnv:
    """Make the environment that a file defines: ``my_env.py``, or ``my_env.py:MyEnv`` if it defines several.

    A relative path starts at ``folder``; ``config`` as in ``make_environment``. Raises ``UsageError`` naming the file.
    """
    path, _, name = file.rpartition(":") if ".py:" in file else (file, "", "")
    place = (folder or Path()) / path
    if not place.is_file():
        raise UsageError(f"there is no environment file {place}")
    return make_environment(_find_in_module(_import_file(place), name, place), options, f"{place}", config=config)


def make_environment(
    maker: object, options: Mapping[str, Json], where: str, *, config: Mapping[str, Any] | None = None
) -> SkillEnv:
    """Call a class or function with options; an adapter class also gets the arguments a training ``config`` has.

    Raises ``UsageError`` naming an unknown option.
    """
    if not callable(maker):
        if options:
            raise UsageError(f"{where}: an environment that exists already takes no options ({', '.join(options)})")
        return as_env(maker)
    takes = inspect.signature(maker).parameters.values()
    known = [item.name for item in takes if item.kind in {item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY}]
    if not any(item.kind is item.VAR_KEYWORD for item in takes):
        for option in options:
            if option not in known:
                raise UsageError(
                    f"{where} has no option {option!r}, only {', '.join(known)}{did_you_mean(option, known)}"
                )
    try:
        env = as_env(maker(**{**arguments_from_config(maker, config or {}), **options}))
    except SleepError:
        raise
    except Exception as error:
        raise UsageError(f"{where} cannot be made: {type(error).__name__}: {excerpt(str(error), 160)}") from error
    with suppress(AttributeError):  # a class with __slots__ has no room for it
        setattr(env, MADE_WITH, dict(options))
    return env


def set_up(env: SkillEnv, config: Mapping[str, Any], optimizer: ChatClient, target: ChatClient) -> None:
    """Call the environment's ``setup``, if it has one, with the flat config and the clients of a run."""
    setup = getattr(env, "setup", None)
    if callable(setup):
        setup({"env": env.name, **config}, optimizer_client=optimizer, target_client=target)


def roll_out(env: SkillEnv, item: Item, skill: str, target_client: ChatClient) -> RolloutResult:
    """Attempt one item and check the result.

    Raises what the client raises, and ``UsageError`` for a mistake of the environment.
    """
    try:
        result = env.rollout_one(item=item, skill=skill, target_client=target_client)
    except SleepError:
        raise
    except Exception as error:
        raise environment_error(f"the environment {env.name!r}", error, item) from error
    result = check_result(result, item)
    if result.id != str(item["id"]):
        raise UsageError(f"item {str(item['id'])!r}: its result has the id {result.id!r}; it must be that of the item")
    result.task_type = result.task_type or str(item.get("task_type") or "")
    return result


class _DuckTypedEnv(SkillEnv):
    """An object with the methods of an environment, but not its base class."""

    def __init__(self, env: object) -> None:
        self._env = env
        self.name = str(getattr(env, "name", type(env).__name__))
        self.task_types = getattr(env, "task_types", None)
        self.from_sessions = bool(getattr(env, "from_sessions", False))
        for method in (*OPTIONAL, *REQUIRED):
            if callable(found := getattr(env, method, None)):
                setattr(self, method, found)


def _import_file(path: Path) -> ModuleType:
    """Import a file under a name of its own; its folder is on the import path meanwhile."""
    name = f"skillopt_sleep_env_{sha256(str(path.resolve()).encode())[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
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


def _find_in_module(module: ModuleType, name: str, path: Path) -> object:
    """What a file offers: the name asked for, ``ENVIRONMENT``, or the only environment class it defines."""
    if name:
        if not hasattr(module, name):
            raise UsageError(f"{path} has no {name!r}{did_you_mean(name, vars(module))}")
        return getattr(module, name)
    if hasattr(module, "ENVIRONMENT"):
        return module.ENVIRONMENT
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and _is_environment(value)
    ]
    usable = [kind for kind in classes if not inspect.isabstract(kind)] or classes
    if len(usable) != 1:
        found = ", ".join(kind.__name__ for kind in usable) or "none"
        raise UsageError(f"{path} defines {len(usable)} environments ({found}); name one as {path.name}:Class")
    return usable[0]


def _is_environment(kind: type) -> bool:
    return is_adapter(kind) or all(callable(getattr(kind, name, None)) for name in REQUIRED)
