"""``schedule``: hold the nights of one or many projects every night, by the scheduler of this system."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from skillopt_sleep.cli import run
from skillopt_sleep.cli.options import HOMES, as_json, open_workspace
from skillopt_sleep.errors import UsageError
from skillopt_sleep.model import Json
from skillopt_sleep.scheduling.due import DayCaps, Waker

if TYPE_CHECKING:
    from skillopt_sleep.scheduling.due import Schedule
    from skillopt_sleep.usecases.workspace import Workspace

NOT_NIGHTLY = frozenset({"task_file", "dry_run", "wait", "as_json", "project", "data_dir"})
"""Options of ``run`` that are not of every night, and those that have a meaning of their own here."""
OF_THE_DAY = ("max_calls_day", "max_tokens_day", "max_usd_day")
LAST_MINUTE = "23:59"


@click.command("schedule")
@click.option(
    "--project",
    "projects",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Project folder; may be repeated. Those scheduled before stay.  [default: here]",
)
@click.option("--at", metavar="HH:MM", help="Local time of the nights, of all projects.  [default: 03:00]")
@click.option("--jitter", type=click.IntRange(0, 720), help="Minutes by which one may begin later.  [default: 10]")
@click.option(
    "--on-battery/--not-on-battery", default=None, help="Whether a laptop may run on battery.  [default: not]"
)
@click.option(
    "--using", type=click.Choice([str(each.value) for each in Waker]), help="Who wakes it.  [default: what works here]"
)
@click.option("--print", "only_print", is_flag=True, help="Show what would be written; write nothing.")
@click.option("--data-dir", help="Where this program keeps its own data.")
@as_json
@click.pass_context
def command(
    context: click.Context, /, projects: tuple[Path, ...], only_print: bool, as_json: bool, **flags: Json | Path
) -> None:
    """Run a night of a project every night, with these settings, the PATH of this shell, and absolute paths.

    A systemd user timer, a launchd agent, or lines in your crontab between two marks; nothing else is touched, and
    `skillopt-sleep unschedule` takes it away. Several projects run one after the other and share the caps of one
    night. A night that the machine slept through is caught up once. It takes every option of `run`.
    """
    import msgspec

    from skillopt_sleep.scheduling.store import load_schedule
    from skillopt_sleep.usecases.installing import choose, hints, install, python_path
    from skillopt_sleep.usecases.schedule import environment_of, merged, scheduled

    at, jitter, on_battery, using = (flags.pop(name) for name in ("at", "jitter", "on_battery", "using"))
    _require_writable(context, flags)
    workspaces = [open_workspace({**flags, "project": each}) for each in projects or (None,)]
    workspace = workspaces[0]
    for each in workspaces:
        _require_usable(each)
    before = load_schedule(workspace.data_dir)
    given, secret = environment_of(workspace.env)
    entries = [scheduled(each, tuple(_baked(context, flags))) for each in workspaces]
    schedule = merged(
        before,
        entries,
        at=_time(str(at)) if at is not None else None,
        day=msgspec.convert({name.split("_")[1]: flags[name] for name in OF_THE_DAY}, DayCaps),
        changed={
            "jitter": jitter,
            "on_battery": on_battery,
            "using": Waker(str(using)) if using else before.using if before else choose(workspace),
            "environment": {**given, **python_path(workspace.env)},
        },
    )
    if only_print:
        _show(workspace, schedule)
        return
    _ask_first(workspaces)
    schedule = install(workspace, schedule)
    notes = (*_missing(workspaces, schedule), *hints(workspace, schedule, secret))
    if as_json:
        click.echo(msgspec.json.encode({"schedule": schedule, "notes": notes}).decode())
        return
    from skillopt_sleep.reports.status import render_schedule

    click.echo(render_schedule(schedule, workspace.data_dir))
    for note in notes:
        click.echo(f"skillopt-sleep: {note}", err=True)


def _require_writable(context: click.Context, flags: Mapping[str, Json | Path]) -> None:
    """Refuse what must not be written down, and what no adapter knows, used or not. Raises ``UsageError``."""
    from skillopt_sleep.registry import ADAPTERS, Kind, require_options
    from skillopt_sleep.settings import environment, secrets
    from skillopt_sleep.usecases.schedule import Unwritten, leaves

    secret = Unwritten(secrets(environment()))
    for option, name, text in _typed(context, flags):
        found = [*leaves(text)] if name == "assignments" else [((name,), text)]
        for path, value in found:
            called = f"{option} {'.'.join(path)}" if name == "assignments" else option
            if secret.hides(path[-1], value):
                raise UsageError(
                    f"{called} holds a secret, it seems, and no secret is written into a schedule; give it to the"
                    " nights as a variable (OPENAI_API_KEY, or the one that `api_key_env` of [backends.openai] names)"
                    " where their scheduler keeps those: docs/unattended.md"
                )
            if len(path) >= len(("backends", "x", "option")) and path[0] in ADAPTERS:
                require_options(Kind(path[0]), path[1], path[2:3])


def _require_usable(workspace: Workspace) -> None:
    """Find out now what would fail every night. Raises ``UsageError``."""
    from skillopt_sleep.model.call import Role
    from skillopt_sleep.usecases.adapters import build_backend, build_judges, build_sources

    for role in Role:
        build_backend(workspace, role).close()
    build_judges(workspace)
    build_sources(workspace)


def _ask_first(workspaces: Sequence[Workspace]) -> None:
    """Ask now what nobody could answer at night: who may be sent the sessions. Raises ``NotAllowed`` after a no."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        from skillopt_sleep.usecases.permissions import ask_first

        for workspace in workspaces:
            ask_first(workspace, lambda question: click.confirm(f"{question}. Agreed, from now on?", err=True))


def _baked(context: click.Context, flags: Mapping[str, Json | Path]) -> Iterator[str]:
    """The flags of ``run`` that were given, each with its value, folders by their absolute path."""
    for parameter in _given(context, flags):
        name = str(parameter.name)
        value = flags[name]
        if isinstance(value, bool):
            yield parameter.opts[0] if value else parameter.secondary_opts[0]
            continue
        for each in value if isinstance(value, tuple) else (value,):
            yield f"{parameter.opts[0]}={_absolute(name, each)}"


def _given(context: click.Context, flags: Mapping[str, Json | Path]) -> Iterator[click.Parameter]:
    """The options of every night that were typed."""
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name in flags and name not in NOT_NIGHTLY and name not in OF_THE_DAY:
            yield parameter


def _typed(context: click.Context, flags: Mapping[str, Json | Path]) -> Iterator[tuple[str, str, str]]:
    """Each text that was typed, with its option and that one's name; no paths, numbers and switches."""
    for parameter in _given(context, flags):
        name = str(parameter.name)
        value = flags[name]
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str) and name not in HOMES:
                yield parameter.opts[0], name, each


def _absolute(name: str, value: object) -> str:
    """A value as it means the same in any folder; a skill may be named or be a file."""
    text = str(value)
    is_path = isinstance(value, Path) or name in HOMES or (name == "target_skill" and Path(text).name == "SKILL.md")
    return str(Path(text).absolute()) if is_path else text


def _time(text: str) -> str:
    """``7:05`` as ``07:05``. Raises ``UsageError``."""
    hours, colon, minutes = text.partition(":")
    if colon and hours.isdecimal() and minutes.isdecimal() and len(minutes) == len("05"):
        found = f"{int(hours):02}:{minutes}"
        if found <= LAST_MINUTE and minutes <= LAST_MINUTE[3:]:
            return found
    raise UsageError(f"--at {text}: expected the time of day as HH:MM, as in --at 03:00")


def _show(workspace: Workspace, schedule: Schedule) -> None:
    """Print what would be written, each file under its name."""
    from skillopt_sleep.scheduling.store import encode_schedule, schedule_path
    from skillopt_sleep.usecases.installing import installer

    found = installer(workspace, schedule)
    files = {
        **(found.render() if found else {}),
        str(schedule_path(workspace.data_dir)): encode_schedule(schedule).decode(),
    }
    click.echo("\n".join(f"==> {name} <==\n{text}" for name, text in files.items()), nl=False)


def _missing(workspaces: Sequence[Workspace], schedule: Schedule) -> Iterator[str]:
    """The agent CLIs that the nights would not find."""
    import shutil

    from skillopt_sleep.agents import agent_of_backend
    from skillopt_sleep.model.call import Role
    from skillopt_sleep.usecases.adapters import role_of

    names = dict.fromkeys(role_of(workspace, role)[0] for workspace in workspaces for role in Role)
    for name in names:
        command = str(workspaces[0].settings.backends.get(name, {}).get("command", name))
        if agent_of_backend(name) and shutil.which(command, path=schedule.environment.get("PATH", "")) is None:
            yield f"{command} is not on this PATH, so a night could not start it; install it, then schedule again"


command.params += [each for each in run.command.params if each.name not in NOT_NIGHTLY]
