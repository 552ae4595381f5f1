"""The environment that a config or a command line names, built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_sleep.domain import Json
from skillopt_sleep.registry import find_environment

if TYPE_CHECKING:
    from skillopt_sleep.train.ports import SkillEnv

__all__ = ["build_environment"]

PATHS = ("data", "data_path", "split_dir", "split_output_dir")
"""Options that name a file or folder: a relative one begins where the config lies."""


def build_environment(name: str, options: Mapping[str, Json], folder: Path) -> SkillEnv:
    """The environment of that name, or of a file (``my_env.py``, ``my_env.py:MyEnv``), made with these options.

    Paths are taken from ``folder``. Raises ``UsageError`` for a name, a file or an option that there is not.
    """
    from skillopt_sleep.train.environments import load_environment
    from skillopt_sleep.train.environments.finding import make_environment

    placed = {
        key: str(folder / value) if key in PATHS and isinstance(value, str) and value else value
        for key, value in options.items()
    }
    if name.partition(":")[0].endswith(".py"):
        return load_environment(name, placed, folder)
    return make_environment(find_environment(name), placed, f"the environment {name}")
