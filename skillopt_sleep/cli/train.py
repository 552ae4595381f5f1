"""``train`` trains a skill on a dataset, or on the tasks of your own nights."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skillopt_sleep.cli.options import (
    BACKENDS,
    CAPS,
    RESUME_HINT,
    as_json,
    choose_call_cap,
    describe_caps,
    open_workspace,
    place_options,
    print_json,
    run_options,
)
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from skillopt_sleep.model.call import Spend
    from skillopt_sleep.model.ports import Progress
    from skillopt_sleep.train.recipe import Recipe
    from skillopt_sleep.train.report import Price
    from skillopt_sleep.train.trainer import SkillOptTrainer
    from skillopt_sleep.usecases.workspace import Workspace

ROLES = ("target_backend", "target_model", "optimizer_backend", "optimizer_model")
FIELDS = ("out_root", "workers", "seed", "num_epochs", *CAPS)


@click.command("train")
@click.argument("config", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--from-nights", is_flag=True, help="Train on the tasks that your nights have found.")
@click.option("--dry-run", is_flag=True, help="Check everything and count the calls; call no model, write nothing.")
@click.option("--out-root", help="Folder of the run; a run that exists there is continued.")
@click.option("--target-backend", help=f"Backend of the model whose skill is trained: {BACKENDS}.")
@click.option("--target-model", help="Model whose skill is trained.")
@click.option("--optimizer-backend", help="Backend of the model that reflects and edits.")
@click.option("--optimizer-model", help="Model that reflects and edits.")
@click.option("--num-epochs", type=int, help="Epochs.  [default: 4]")
@run_options
@place_options
@as_json
def train_command(config: Path | None, from_nights: bool, dry_run: bool, as_json: bool, **flags: Json | Path) -> None:
    """Train a skill document on a dataset; the models themselves do not change.

    CONFIG is a TOML or YAML file: the fields of a run, and tables [env], [target], [optimizer] and [prompts]; `_base_`
    names a file it inherits from. Files in the form of SkillOpt are read too. The results are in out_root:
    best_skill.md, summary.md, history.json and every step. Run it again to continue; a reply that was paid for is never
    paid for again.

    \b
    Exit codes: 0 trained · 2 usage · 4 the backend cannot be used · 5 a cap is
    reached · 6 another process trains into the folder · 7 disk · 8 the folder
    holds another run · 130 / 143 interrupted: run again to continue
    """  # noqa: D301  \b tells click to keep the lines
    from skillopt_sleep.reports.formatting import number
    from skillopt_sleep.train.splits import get_notes
    from skillopt_sleep.usecases.training import build_trainer

    over = {name: value for name in FIELDS if (value := flags.pop(name, None)) is not None}
    roles = {name: str(value) for name in ROLES if (value := flags.pop(name, None)) is not None}
    workspace = open_workspace(flags)
    recipe = _read_recipe(config, from_nights=from_nights, over=over, roles=roles)
    if recipe.ignored:
        click.echo(f"{config}: not known here, so it has no effect: {', '.join(recipe.ignored)}", err=True)
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="skillopt-sleep-") as scratch:
            recipe = _use_own_tasks(workspace, recipe, Path(scratch)) if from_nights else recipe
            trainer = build_trainer(workspace, recipe, progress=None)
            _print_price(trainer.price(), recipe, _name_models(trainer), get_notes(trainer.env), as_json=as_json)
        return
    recipe = _use_own_tasks(workspace, recipe, Path(recipe.config.out_root)) if from_nights else recipe
    trainer = build_trainer(workspace, recipe, progress=None)
    if from_nights:
        from skillopt_sleep.usecases.permissions import require_agreement

        require_agreement(workspace, trainer.backends.values())
    price = trainer.price()
    for role, name in _name_models(trainer).items():
        click.echo(f"{role}: {name}", err=True)
    steps, calls = number(price.steps, "step"), number(price.calls, "call")
    click.echo(f"{steps}, at most {calls}; cap: {describe_caps(recipe.config, price.calls)}", err=True)
    for note in get_notes(trainer.env):
        click.echo(f"data: {note}", err=True)
    recipe.config.max_calls = recipe.config.max_calls or choose_call_cap(recipe.config, price.calls)
    from skillopt_sleep.cli.progress import show_progress

    with show_progress(RESUME_HINT) as progress:
        trainer = build_trainer(workspace, recipe, progress=_TrainingBar(progress))
        try:
            summary = trainer.train()
        finally:
            trainer.close()
    _print_summary(summary, as_json=as_json)


def _read_recipe(config: Path | None, *, from_nights: bool, over: dict[str, Any], roles: dict[str, str]) -> Recipe:
    """Return the training file overridden by the flags."""
    from skillopt_sleep.train.recipe import build_recipe, read_recipe

    if config is None and not from_nights:
        raise click.UsageError("name a CONFIG file, or train on your own tasks with --from-nights")
    for name, value in roles.items():
        role, _, what = name.partition("_")
        over.setdefault(role, {})[what] = value
    return read_recipe(config, over) if config else build_recipe({"out_root": "outputs/nights", **over})


def _use_own_tasks(workspace: Workspace, recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe with the user's own tasks, written into ``folder``, and their live skill as the initial one."""
    from msgspec.structs import replace

    from skillopt_sleep.usecases.training import NIGHT_TASKS, export_night_tasks

    live = export_night_tasks(workspace, Path(recipe.config.out_root), folder)
    env = {key: value for key, value in recipe.env.items() if key not in {"name", "file", "data"}}
    env |= {"name": "checks", "data": str(folder / NIGHT_TASKS)}
    return replace(recipe, env=env, skill=live if recipe.skill is None else recipe.skill)


class _TrainingBar:
    """``train.ports.TrainProgress``: a bar for the calls of a step, and a line for each step with the time left."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._started = time.monotonic()
        self._first: int | None = None
        self._spend = ""

    def begin(self, total: int) -> None:
        """Start the bar anew."""
        if self._bar is not None:
            self._bar.begin(total)

    def step(self) -> None:
        """Advance the bar."""
        if self._bar is not None:
            self._bar.step()

    def spent(self, phase: str, spend: Spend) -> None:
        """Show what was spent."""
        usd = f", {spend.usd:.2f} USD" if spend.usd else ""
        self._spend = f"; {spend.calls} calls{usd}"
        if self._bar is not None:
            self._bar.spent(phase, spend)

    def at(self, done: int, total: int, words: str) -> None:
        """Print the line of a step."""
        self._first = done if self._first is None else self._first
        made = done - self._first
        left = ""
        if made and done < total:
            seconds = (time.monotonic() - self._started) / made * (total - done)
            left = f", about {_format_time(seconds)} left"
        sys.stderr.write(f"{words}{self._spend}{left}\n")  # click.echo would not redraw the bar


def _format_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _name_models(trainer: SkillOptTrainer) -> dict[str, str]:
    """Backend and model of each role."""
    return {
        str(role): f"{backend.name}:{backend.model}" if backend.model else backend.name
        for role, backend in trainer.backends.items()
    }


def _print_price(
    price: Price, recipe: Recipe, asked: Mapping[str, str], notes: Sequence[str], *, as_json: bool
) -> None:
    import msgspec

    from skillopt_sleep.reports.formatting import number

    if as_json:
        table = msgspec.to_builtins(price) | {
            "calls": price.calls,
            "out_root": recipe.config.out_root,
            "asked": dict(asked),
            "data_notes": list(notes),
        }
        print_json(table, indent=2)
        return
    config = recipe.config
    size = f"{number(config.num_epochs, 'epoch')}, {number(price.steps, 'step')}"
    click.echo(f"{size} into {config.out_root}; no model was called and nothing was written.")
    for role, name in asked.items():
        click.echo(f"  {role:<12} {name}")
    click.echo("Most calls, not counting retries:")
    for stage, calls in price.stages.items():
        click.echo(f"  {stage:<12} {calls:>7,}")
    click.echo(f"  {'in total':<12} {price.calls:>7,}, about {price.tokens:,} tokens")
    for note in notes:
        click.echo(f"Data: {note}.")
    click.echo(
        f"Cap: {describe_caps(config, price.calls)}. The price of a call is known after the"
        " first one; --max-usd counts from there."
    )


def _print_summary(summary: dict[str, Any], *, as_json: bool) -> None:
    import msgspec

    if as_json:
        print_json(summary, indent=2)
        return
    from skillopt_sleep.train.report import render_terminal

    history = (Path(summary["best_skill_path"]).parent / "history.json").read_bytes()
    click.echo(render_terminal(summary, msgspec.json.decode(history, type=list[dict[str, Any]])))
