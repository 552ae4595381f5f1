"""Options that several commands share, and the Workspace they make.

The caps of a training or an evaluation, in the words of the command line.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from skillopt_sleep.agents import home_options, label_of_source
from skillopt_sleep.errors import UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.registry import Kind, names

if TYPE_CHECKING:
    from skillopt_sleep.usecases.workspace import Workspace

F = TypeVar("F", bound=Callable[..., object])

HOMES = {f"{name.replace('-', '_')}_home": name for name in names(Kind.SOURCE)}
"""The option that names the folder of each source's sessions, as click calls it, by source."""
NOT_SETTINGS = frozenset({"project", "assignments", *HOMES})


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, listed in `--help` in the order given."""
    return lambda command: functools.reduce(lambda done, option: option(done), reversed(options), command)


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def _label(source: str) -> str:
    """What people call the agent of a source; its own name when its package cannot be loaded, which `run` reports."""
    try:
        return label_of_source(source)
    except UsageError:
        return source


place_options = _all(
    click.option(
        "--project", type=click.Path(file_okay=False, path_type=Path), help="Project folder  [default: here]."
    ),
    click.option("--scope", type=click.Choice(["invoked", "all"]), help="Sessions of this project, or all of yours."),
    click.option("--source", help=f"Which agent's sessions: {', '.join(HOMES.values())}, auto.  [default: auto]"),
    *(
        click.option(
            f"--{source}-home", option, help=f"Folder with the sessions of {_label(source)}, if not the usual one."
        )
        for option, source in HOMES.items()
    ),
    click.option("--data-dir", help="Where this program keeps its own data."),
    click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any setting; a.b.c=v for tables."),
)
night_options = _all(
    click.option("--backend", help="Who answers: claude, codex, openai, simulated.  [default: claude]"),
    click.option("--target-backend", help="Backend of the model whose skill improves."),
    click.option("--target-model", help="Its model.  [default: the one your sessions used]"),
    click.option("--optimizer-backend", help="Backend of the model that mines, judges and reflects."),
    click.option("--optimizer-model", help="Its model."),
    click.option("--share-with", help="Providers that may be sent sessions which went to another one; by comma."),
    click.option(
        "--agent", help=f"Whose files are written: {', '.join(names(Kind.AGENT))}.  [default: whose sessions are read]"
    ),
    click.option("--target-skill", help="A SKILL.md, or the name of a skill, to improve instead of the learnt one."),
    click.option("--miner", help="How tasks are found: heuristic, model, auto."),
    click.option("--gate-mode", help="paired, strict or off.  [default: paired]"),
    click.option("--gate-metric", help="hard, soft or mixed."),
    click.option("--edit-budget", type=int, help="At most this many edits of a document a night."),
    click.option("--rollouts-k", type=int, help="Attempts at each training task."),
    click.option("--replay", help="text, native (by the agent itself) or worktree (in a copy of the project)."),
    click.option("--workers", type=int, help="Calls in flight at most."),
    click.option("--max-calls", type=int, help="Cap on model calls a night."),
    click.option("--max-tokens", type=int, help="Cap on tokens a night."),
    click.option("--max-usd", type=float, help="Cap on dollars a night."),
    click.option("--max-minutes", type=float, help="Cap on minutes a night."),
    click.option(
        "--auto-adopt/--no-auto-adopt",
        default=None,
        help="Adopt by itself what scores 8, on 12 different tasks or more, and lost no task for certain.",
    ),
    click.option("--max-calls-day", type=int, help="Cap on calls of all projects together, noon to noon; 0: none."),
    click.option("--max-tokens-day", type=int, help="The same of tokens."),
    click.option("--max-usd-day", type=float, help="The same of dollars."),
)


def program_name() -> str:
    """How this program is called where it runs: by name, by the script of its checkout, or by its interpreter."""
    import shlex
    import shutil
    import sys

    if shutil.which("skillopt-sleep"):
        return "skillopt-sleep"
    script = Path(__file__).parents[2] / "scripts" / "run"
    words = ["bash", str(script)] if script.is_file() else [sys.executable, "-m", "skillopt_sleep"]
    return shlex.join(words)


def place_of(flags: Mapping[str, Json | Path]) -> str:
    """The options that lead another command to the same project and data, " --project …", "" where none were given."""
    import shlex

    given = (("--project", flags.get("project")), ("--data-dir", flags.get("data_dir")))
    return "".join(f" {option} {shlex.quote(str(value))}" for option, value in given if value)


def typed() -> tuple[str, ...]:
    """The options that the present command was given, each as one quoted word or two; those of its output left out."""
    import shlex

    from click.core import ParameterSource

    context = click.get_current_context()
    found = []
    for option in context.command.params:
        name = option.name or ""
        if name == "as_json" or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if isinstance(option, click.Option) and option.is_flag:
            found.append(option.opts[0] if value else option.secondary_opts[0])
        else:
            values = value if option.multiple else (value,)
            found += [f"{option.opts[0]} {shlex.quote(str(each))}" for each in values]
    return tuple(found)


def open_workspace(
    flags: Mapping[str, Json | Path], env: Mapping[str, str] | None = None, *, dry_run: bool = False
) -> Workspace:
    """Make the workspace from the shared options of a command; ``env`` replaces the user's own environment."""
    from skillopt_sleep.settings import environment, load
    from skillopt_sleep.usecases.adapters import end_leftovers
    from skillopt_sleep.usecases.workspace import Workspace

    env = environment() if env is None else env
    sources: dict[str, Json] = {}
    given: dict[str, Json] = {"sources": sources}
    for option, source in HOMES.items():
        home = flags.get(option)
        if home is not None:
            if not Path(str(home)).is_dir():
                raise UsageError(f"--{source}-home {home}: there is no such folder")
            sources[source] = cast("Json", home_options(source, str(home)))
    for assignment in cast("tuple[str, ...]", flags.get("assignments") or ()):
        _assign(given, assignment)
    given |= {key: cast("Json", value) for key, value in flags.items() if key not in NOT_SETTINGS and value is not None}
    settings, origins = load(env, {key: value for key, value in given.items() if value != {}})
    project = flags.get("project")
    folder = Path(str(project)) if project else _project_of(Path.cwd())
    if not folder.is_dir():
        raise UsageError(f"--project {folder}: there is no such folder")
    if str(folder.resolve()).encode("utf-8", "replace").decode() != str(folder.resolve()):
        raise UsageError(f"--project {str(folder)!a}: its name is not UTF-8 and cannot be stored; rename the folder")
    notices: list[str] = []
    workspace = Workspace(settings, origins, env, folder.resolve(), dry_run=dry_run, notify=notices.append)
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(lambda: _print_notices(notices))
    end_leftovers(workspace)
    return workspace


def _print_notices(notices: Iterable[str]) -> None:
    """Print on stderr what was found and repaired along the way."""
    for line in notices:
        click.echo(f"skillopt-sleep: {line}", err=True)


def _assign(given: dict[str, Json], assignment: str) -> None:
    """Put one ``a.b.c=value`` into the tree; the value is read as TOML, else as a plain string."""
    import msgspec

    path, equals, text = assignment.partition("=")
    if not equals or not path:
        raise UsageError(f"--set {assignment}: expected KEY=VALUE, as in --set backends.claude.timeout=60")
    try:
        number = re.sub(r"^([+-]?)\.(?=\d)", r"\g<1>0.", text)  # .01, which TOML does not take
        value: Json = msgspec.toml.decode(f"v = {number}", type=dict[str, Json])["v"]
    except msgspec.DecodeError:
        value = text
    *tables, key = path.split(".")
    node = given
    for table in tables:
        below = node.setdefault(table, {})
        if not isinstance(below, dict):
            raise UsageError(f"--set {assignment}: {table} has a value already, so it cannot be a table too")
        node = below
    node[key] = value


def _project_of(folder: Path) -> Path:
    """The folder itself or the nearest one above it that git works in."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


CAPS = {"max_calls": "calls", "max_tokens": "tokens", "max_usd": "USD", "max_minutes": "minutes"}
GO_ON = "; the same command goes on, and nothing is paid twice"
"""What to do after an interruption."""
ROOM = 1.25
"""The cap on calls where none is given, as a multiple of the price: retries cost calls too."""
RETRIES = 16
"""Calls above the price that there are at least: a service that is down is to be told of by its own error."""


def default_cap(config: Any, calls: int) -> int | None:  # noqa: ANN401  whatever has the four caps
    """The cap on calls of what takes so many at most; None where a cap of any kind is given."""
    if any(getattr(config, cap) is not None for cap in CAPS):
        return None
    return max(math.ceil(calls * ROOM), calls + RETRIES)


def caps_told(config: Any, calls: int) -> str:  # noqa: ANN401  as above
    """The caps that hold, the default one too."""
    given = [f"{value:,g} {unit}" for cap, unit in CAPS.items() if (value := getattr(config, cap)) is not None]
    return ", ".join(given) or f"{default_cap(config, calls):,} calls"
