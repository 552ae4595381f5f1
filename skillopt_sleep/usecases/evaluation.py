"""What an evaluation needs built: the environment, a backend for each target, and a folder for its replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from skillopt_sleep.errors import UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.model.call import Role
from skillopt_sleep.train.identity import client_traits, digest_of, env_traits
from skillopt_sleep.train.recipe import merge_role
from skillopt_sleep.usecases.adapters import role_of
from skillopt_sleep.usecases.training import backend_for, build_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillopt_sleep.model.ports import Progress
    from skillopt_sleep.train.evaluate import Evaluation, Matrix
    from skillopt_sleep.train.ports import Item
    from skillopt_sleep.train.recipe import Recipe
    from skillopt_sleep.usecases.workspace import Workspace


class Part(Struct, frozen=True, kw_only=True):
    """What is scored: skill files, targets (``backend`` or ``backend:model``; none: the recipe's own), and the items.

    ``bare`` puts no skill at all in front of them; ``limit`` 0 takes every item of the split.
    """

    skills: Sequence[Path]
    targets: Sequence[str]
    bare: bool = False
    split: str = "test"
    limit: int = 0


@contextmanager
def open_evaluation(
    workspace: Workspace, recipe: Recipe, part: Part, progress: Progress | None = None
) -> Iterator[Evaluation]:
    """The evaluation that these files and names make; its backends are closed when the context is left.

    Raises ``UsageError``.
    """
    evaluation = evaluation_for(workspace, recipe, part, progress)
    try:
        yield evaluation
    finally:
        for backend in {id(each): each for each in [evaluation.optimizer, *evaluation.targets.values()]}.values():
            backend.close()


def evaluation_for(workspace: Workspace, recipe: Recipe, part: Part, progress: Progress | None = None) -> Evaluation:
    """See ``open_evaluation``."""
    from skillopt_sleep.train.evaluate import Evaluation

    config = recipe.config
    tables: dict[str, Mapping[str, Json]] = {
        spec: _on_recipe(workspace, recipe.target, target_table("--target", spec)) for spec in part.targets
    }
    if len(tables) != len(part.targets):
        raise UsageError("a --target is named twice; each is scored once")
    named = {name: backend_for(workspace, Role.TARGET, table) for name, table in tables.items()}
    if not named:
        backend = backend_for(workspace, Role.TARGET, recipe.target)
        named = {f"{backend.name}:{backend.model}" if backend.model else backend.name: backend}
    skills, env = _read(part.skills, bare=part.bare), build_environment(recipe.env, config.to_dict())
    return Evaluation(
        env=env,
        skills=skills,
        targets=named,
        optimizer=backend_for(workspace, Role.OPTIMIZER, recipe.optimizer),
        split=part.split,
        limit=part.limit,
        rollouts_k=config.rollouts_k,
        workers=config.workers,
        seed=config.seed,
        caps=config.caps,
        extras=config.extras,
        progress=progress,
        redactor=workspace.redactor if env.from_sessions else None,
    )


def folder_for(workspace: Workspace, evaluation: Evaluation, items: Sequence[Item]) -> Path:
    """Where the replies of this evaluation are kept, so that none is paid for twice: one for all that changes a score.

    These are the items, how the environment asks and scores, the skills, and each client with its options.
    """
    clients = {"(optimizer)": evaluation.optimizer, **evaluation.targets}
    asked = [
        evaluation.env.name,
        env_traits(evaluation.env),
        digest_of(items),
        evaluation.split,
        evaluation.skills,
        {name: [backend.name, backend.model, client_traits(backend)] for name, backend in clients.items()},
        evaluation.seed,
        evaluation.extras,
    ]
    return workspace.data_dir / "evals" / digest_of(asked)


def _on_recipe(workspace: Workspace, own: Mapping[str, Json], named: Mapping[str, Json]) -> Mapping[str, Json]:
    """What a flag names, with what the training file says of that backend: its endpoint, its world, …."""
    return merge_role({"backend": role_of(workspace, Role.TARGET)[0], **own}, named)


def run_evaluation(evaluation: Evaluation, folder: Path, max_calls: int | None = None) -> Matrix:
    """Score it, in that folder; ``max_calls`` is a cap where none was given. Raises as ``evaluate`` does."""
    from skillopt_sleep.storage.ledger import open_training_folder
    from skillopt_sleep.train.evaluate import evaluate

    if max_calls is not None:
        evaluation = replace(evaluation, caps=msgspec.structs.replace(evaluation.caps, calls=max_calls))
    with open_training_folder(folder) as store:
        return evaluate(evaluation, store)


def target_table(flag: str, spec: str) -> dict[str, Json]:
    """``backend`` or ``backend:model`` as the table of a role. Raises ``UsageError``."""
    backend, _, model = spec.partition(":")
    if not backend:
        raise UsageError(f"{flag} {spec!r}: wanted a backend, or backend:model, such as openai:the-small-one")
    table: dict[str, Json] = {"backend": backend}
    return table | {"model": model} if model else table


def _read(paths: Sequence[Path], *, bare: bool) -> dict[str, str]:
    """The texts by the shortest names that tell them apart."""
    found: dict[str, str] = {"(no skill)": ""} if bare else {}
    texts = {}
    for path in paths:
        file = path / "SKILL.md" if path.is_dir() else path
        try:
            texts[file] = file.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot read the skill {file}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"the skill {file} is not UTF-8, at byte {error.start}") from None
    if len(texts) != len(paths):
        raise UsageError("a skill is named twice; each is scored once")
    for file, text in texts.items():
        name = file.name if file.name != "SKILL.md" else f"{file.absolute().parent.name}/SKILL.md"
        found[name if name not in found else str(file)] = text
    if not found:
        raise UsageError("name a SKILL file, or --no-skill")
    return found
