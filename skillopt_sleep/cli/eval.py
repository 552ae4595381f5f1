"""``eval`` scores skills on a dataset, under one model or several."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from skillopt_sleep.cli.options import (
    CAPS,
    RESUME_HINT,
    as_json,
    choose_call_cap,
    describe_caps,
    open_workspace,
    parse_value,
    place_options,
    print_json,
    run_options,
)
from skillopt_sleep.errors import UsageError
from skillopt_sleep.model import Json

if TYPE_CHECKING:
    from skillopt_sleep.train.evaluate import Cell, Evaluation, Matrix
    from skillopt_sleep.train.ports import Item
    from skillopt_sleep.train.recipe import Recipe

FIELDS = ("workers", "seed", "rollouts_k", *CAPS)
UNMEASURED = 5
"""The exit code when too little could be measured, as in `run`."""


@click.command("eval")
@click.argument("skill", type=click.Path(path_type=Path), nargs=-1)
@click.option(
    "--env", "env", required=True, help="A training file, simple_qa, checks, an installed name, or my_env.py."
)
@click.option("--data", help="The environment's data: a folder with train/, val/ and test/, or a file.")
@click.option("--ratio", help="How a file is split into train, val and test, such as 2:1:7.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="Any other option of the environment.")
@click.option("--split", help="Split to score on.  [default: test]")
@click.option("--limit", type=click.IntRange(min=1), help="Score only this many items.")
@click.option("--no-skill", is_flag=True, help="Score the agent without a skill first.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="BACKEND[:MODEL]",
    help="Model that attempts the items; may be repeated.",
)
@click.option("--optimizer", metavar="BACKEND[:MODEL]", help="Model that judges rubrics.")
@click.option("--rollouts-k", type=int, help="Attempts at each item.  [default: 1]")
@run_options
@click.option("--dry-run", is_flag=True, help="Check everything and count the calls; call no model, write nothing.")
@place_options
@as_json
def eval_command(
    *,
    skill: tuple[Path, ...],
    env: str,
    options: tuple[str, ...],
    targets: tuple[str, ...],
    no_skill: bool,
    dry_run: bool,
    as_json: bool,
    limit: int | None,
    split: str | None,
    **flags: Json | Path,
) -> None:
    """Score each SKILL on the items of an environment; several skills or targets make a matrix.

    SKILL is a skill document, or a folder with a SKILL.md. A score is the share of items passed, with its standard
    error; beside it, the items won and lost against the first skill under the same target.

    \b
    Exit codes: 0 scored · 2 usage · 4 the backend cannot be used · 5 a cap is
    reached, or under four fifths of the attempts could be measured · 7 disk
    130 / 143 interrupted: run again to continue
    """  # noqa: D301  \b tells click to keep the lines
    from skillopt_sleep.cli.progress import show_progress
    from skillopt_sleep.train.splits import get_notes
    from skillopt_sleep.usecases.training import (
        EvaluationRequest,
        name_evaluation_folder,
        open_evaluation,
        run_evaluation,
    )

    given = {name: cast("Json", flags.pop(name)) for name in ("data", "ratio", "optimizer", *FIELDS)}
    recipe = _read_recipe(env, options, given)
    workspace = open_workspace(flags)
    part = EvaluationRequest(
        skills=skill, targets=targets, bare=no_skill, split=split or recipe.config.test_split, limit=limit or 0
    )
    with show_progress(RESUME_HINT) as progress, open_evaluation(workspace, recipe, part, progress) as evaluation:
        sizes, items = _count_calls(evaluation)
        for note in get_notes(evaluation.env):
            click.echo(f"data: {note}", err=True)
        if dry_run:
            _print_price(sizes, part.split, recipe, as_json=as_json)
            return
        folder = name_evaluation_folder(workspace, evaluation, items)
        matrix = run_evaluation(evaluation, folder, choose_call_cap(recipe.config, sizes["calls"]))
    _print_matrix(matrix, folder, as_json=as_json)
    if not matrix.enough:
        click.echo("skillopt-sleep: under four fifths of the attempts of a cell could be measured", err=True)
        sys.exit(UNMEASURED)


def _read_recipe(env: str, options: tuple[str, ...], given: dict[str, Json]) -> Recipe:
    """Return a training file overridden by the flags, or the flags alone."""
    from skillopt_sleep.train.recipe import build_recipe, read_recipe
    from skillopt_sleep.usecases.training import parse_target

    over: dict[str, Json] = {name: given[name] for name in FIELDS if given[name] is not None}
    own = {name: given[name] for name in ("data", "ratio") if given[name] is not None} | _parse_options(options)
    if given["optimizer"]:
        over["optimizer"] = parse_target("--optimizer", str(given["optimizer"]))
    if env.endswith(".toml"):
        return read_recipe(Path(env), over | ({"env": own} if own else {}))
    which = "file" if env.partition(":")[0].endswith(".py") else "name"
    return build_recipe(over | {"env": {which: env, **own}})


def _parse_options(options: tuple[str, ...]) -> dict[str, Json]:
    """Return the ``KEY=VALUE`` options as a table; a value that is not TOML is plain text."""
    table: dict[str, Json] = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or not key:
            raise UsageError(f"--option {option}: expected KEY=VALUE, as in --option scoring=numeric")
        table[key] = parse_value(text)
    return table


def _count_calls(evaluation: Evaluation) -> tuple[dict[str, int], list[Item]]:
    """Return the sizes and most calls of an evaluation, and its items, prepared in a temporary folder."""
    from skillopt_sleep.train.evaluate import prepare_items

    with tempfile.TemporaryDirectory(prefix="skillopt-sleep-") as scratch:
        items = prepare_items(evaluation, scratch)
    attempts = len(evaluation.skills) * len(evaluation.targets) * evaluation.rollouts_k
    sizes = {
        "items": len(items),
        "skills": len(evaluation.skills),
        "targets": len(evaluation.targets),
        "rollouts_k": evaluation.rollouts_k,
        "calls": sum(evaluation.env.calls_of(item) for item in items) * attempts,
    }
    return sizes, items


def _print_price(sizes: dict[str, int], split: str, recipe: Recipe, *, as_json: bool) -> None:
    from skillopt_sleep.reports.formatting import number

    if as_json:
        print_json(sizes)
        return
    click.echo(
        f"{number(sizes['items'], 'item')} of {split} x {number(sizes['skills'], 'skill')} x"
        f" {number(sizes['targets'], 'target')} x {number(sizes['rollouts_k'], 'attempt')}: at most"
        f" {number(sizes['calls'], 'call')}, including judges but not retries."
    )
    click.echo(f"Cap: {describe_caps(recipe.config, sizes['calls'])}. No model was called and nothing was written.")


def _print_matrix(matrix: Matrix, folder: Path, *, as_json: bool) -> None:
    import msgspec

    from skillopt_sleep.reports.formatting import align_columns, number

    if as_json:
        print_json(msgspec.to_builtins(matrix) | {"folder": str(folder)}, indent=2)
        return
    attempts = f", {matrix.rollouts_k} attempts each" if matrix.rollouts_k > 1 else ""
    click.echo(f"{matrix.env}, {matrix.split}: {number(matrix.items, 'item')}{attempts}\n")
    first = matrix.skills[0]
    rows = [
        (skill, *(_format_cell(matrix.cell(skill, target), first=skill == first) for target in matrix.targets))
        for skill in matrix.skills
    ]
    click.echo("\n".join(align_columns([("skill", *matrix.targets), *rows])))
    spend = matrix.spend
    price = f", {spend.usd:.2f} USD" if spend.usd else ""
    click.echo(f"\nshare passed +- standard error, (soft score), items won - lost against {first}")
    click.echo(f"{number(spend.calls, 'call')}{price}; the replies are in {folder}")


def _format_cell(cell: Cell, *, first: bool) -> str:
    if cell.hard is None:
        return f"unmeasured ({cell.measured} of {cell.attempts})"
    against = "" if first else f" {cell.wins} - {cell.losses}"
    lost = f" [{cell.attempts - cell.measured} lost]" if cell.measured < cell.attempts else ""
    return f"{cell.hard:.3f} +- {cell.error:.3f} ({cell.soft:.3f}){against}{lost}"
