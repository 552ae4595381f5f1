"""Builds what a training run is made of: the environment and the backends of its file, and the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from skillopt_sleep.errors import ConfigError, UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Role
from skillopt_sleep.model.text import did_you_mean
from skillopt_sleep.registry import Kind, build, find, option_names
from skillopt_sleep.usecases.adapters import role_of
from skillopt_sleep.usecases.documents import read_live_documents

if TYPE_CHECKING:
    from skillopt_sleep.model.ports import Backend
    from skillopt_sleep.train.ports import SkillEnv, TrainProgress
    from skillopt_sleep.train.recipe import Recipe
    from skillopt_sleep.train.trainer import SkillOptTrainer
    from skillopt_sleep.usecases.workspace import Workspace

Table = Mapping[str, Json]

NIGHT_TASKS = "tasks.json"
NIGHT_SKILL = "initial_skill.md"
"""The tasks of a run on one's own nights, and the live skill, as they were when it began."""


def build_environment(table: Table, config: Mapping[str, Any] | None = None) -> SkillEnv:
    """The environment of an ``[env]`` table: by ``name``, or from a ``file``; the rest are its options.

    An adapter of the reference takes fields of the training ``config`` as arguments too; its table comes first. Raises
    ``UsageError`` naming what is unknown.
    """
    from skillopt_sleep.train.environments import load_environment, make_environment

    options = {key: value for key, value in table.items() if key not in {"name", "file"}}
    name, file = str(table.get("name") or ""), str(table.get("file") or "")
    if name and file:
        raise UsageError(f"[env] has a name, {name!r}, and a file, {file!r}: it needs one of the two")
    if not name and not file:
        there = f", only {', '.join(options)}" if options else ""
        raise UsageError(f"[env] has neither a name (simple_qa, checks, …) nor a file with an environment{there}")
    if file:
        return load_environment(file, options, config=config)
    return make_environment(find(Kind.ENVIRONMENT, name), options, f"[env] {name}", config=config)


def backend_for(workspace: Workspace, role: Role, table: Table) -> Backend:
    """The backend of a ``[target]`` or ``[optimizer]`` table; what it leaves open is as the settings have it."""
    name, model = role_of(workspace, role)
    chosen = str(table.get("backend") or name)
    own = {key: each for key, each in table.items() if key != "backend"}
    known = option_names(Kind.BACKEND, chosen)
    for key in own:
        if key not in known:
            near = did_you_mean(key, ["backend", *known])
            raise ConfigError(f"[{role}] has no option {key!r} for the backend {chosen}{near}")
    options = {**workspace.settings.backends.get(chosen, {}), **own}
    if chosen == name and model and "model" not in table:
        options["model"] = model
    return cast("Backend", build(Kind.BACKEND, chosen, options, env=workspace.env))


def trainer_for(workspace: Workspace, recipe: Recipe, *, progress: TrainProgress | None) -> SkillOptTrainer:
    """The trainer of a recipe. Raises ``UsageError``."""
    from skillopt_sleep.train.trainer import SkillOptTrainer

    return SkillOptTrainer(
        config=recipe.config,
        env=build_environment(recipe.env, recipe.config.to_dict()),
        optimizer_client=backend_for(workspace, Role.OPTIMIZER, recipe.optimizer),
        target_client=backend_for(workspace, Role.TARGET, recipe.target),
        initial_skill=recipe.skill,
        prompt_overrides=recipe.prompts,
        progress=progress,
        environ=workspace.env,
    )


def night_material(workspace: Workspace, out_root: Path, folder: Path) -> str:
    """Put the user's own tasks and their live skill into a folder, as files; the text of the skill.

    They are those that the run in ``out_root`` began with, else all tasks and what is live now: nights go on meanwhile.
    Raises ``UsageError`` when there are no tasks.
    """
    from skillopt_sleep.mining.task_file import encode_tasks
    from skillopt_sleep.model.document import DocumentKind, region
    from skillopt_sleep.storage.files import read_regular, write_atomic

    data, skill = (read_regular(out_root / name) for name in (NIGHT_TASKS, NIGHT_SKILL))
    if data is None:
        tasks = workspace.archive.tasks(workspace.scope)
        if not tasks:
            raise UsageError(
                f"no night has mined tasks of {workspace.scope or 'your work'} yet; `skillopt-sleep run` does, and"
                " --scope all takes those of all projects"
            )
        data = encode_tasks(workspace.redactor.clean(tasks))  # a secret may have become one since the tasks were mined
    if skill is None:
        live = read_live_documents(workspace)[0][DocumentKind.SKILL]
        skill = region(live).lstrip("\n").encode("utf-8", "surrogatepass") if live else b""
    _own_folder(folder)
    write_atomic(folder / NIGHT_TASKS, data)
    write_atomic(folder / NIGHT_SKILL, skill)
    return skill.decode("utf-8", "surrogatepass")


def _own_folder(folder: Path) -> None:
    """Make the folder of such a run, for its user alone and out of git: the user's sessions are in it.

    One that holds something else already keeps its mode, and is not put out of git.
    """
    from skillopt_sleep.storage.files import write_atomic

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / NIGHT_TASKS).exists() or not any(folder.iterdir()):
        folder.chmod(0o700)
        if not (folder / ".gitignore").exists():
            write_atomic(folder / ".gitignore", b"*\n")
