"""What training needs built: backends by name, judges, and the folder of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from skillopt_sleep.domain import Json
from skillopt_sleep.registry import Kind, build, names
from skillopt_sleep.settings import environment

if TYPE_CHECKING:
    from skillopt_sleep.ports import Backend, Judge
    from skillopt_sleep.stores.training import TrainingFolder

__all__ = ["TrainWorkshop"]


class TrainWorkshop:
    """``train.ports.Workshop`` over the registry and this machine's disk. ``env`` takes the place of the process's."""

    def __init__(
        self, env: Mapping[str, str] | None = None, judges: Mapping[str, Mapping[str, Json]] | None = None
    ) -> None:
        self._env = environment() if env is None else env
        self._judges = judges or {}

    def backend(self, name: str, options: Mapping[str, Json]) -> Backend:
        """The backend of that name; its option ``env``, where it has one, is laid over the environment."""
        rest = {key: value for key, value in options.items() if key != "env"}
        over = cast("dict[str, str]", options.get("env") or {})
        return cast("Backend", build(Kind.BACKEND, name, rest, env={**self._env, **over}))

    def judges(self) -> Mapping[str, Judge]:
        """Every judge by its name."""
        return {name: cast("Judge", build(Kind.JUDGE, name, self._judges.get(name, {}))) for name in names(Kind.JUDGE)}

    def environments(self) -> Sequence[str]:
        """The names of the environments that other packages bring."""
        from importlib import metadata

        return sorted(entry.name for entry in metadata.entry_points(group="skillopt_sleep.environments"))

    def run_store(self, folder: Path) -> AbstractContextManager[TrainingFolder]:
        """The folder of a run, held by this process alone."""
        from skillopt_sleep.stores.training import training_folder

        return training_folder(folder)
