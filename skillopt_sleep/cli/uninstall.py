"""``uninstall``: take everything out again that this program put anywhere, but the program itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillopt_sleep.cli.options import make_app
from skillopt_sleep.errors import DiskError, Refused, SleepError

if TYPE_CHECKING:
    from skillopt_sleep.app import App
    from skillopt_sleep.domain.adoption import Adoption

__all__ = ["command"]


@click.command("uninstall")
@click.option("--rules", is_flag=True, help="Also revert everything adopted, in every project, byte for byte.")
@click.option("--data", is_flag=True, help="Also delete what nights have learnt: data folder, reports in projects.")
@click.option("--yes", is_flag=True, help="Do not ask before deleting data.")
@click.option("--data-dir", help="Where this program keeps its own data.")
def command(rules: bool, data: bool, yes: bool, data_dir: str | None) -> None:
    """Take away the schedule and the plugins; rules and data stay unless you ask for more.

    What stays is listed at the end, each with the way to remove it. A file that was edited by hand meanwhile stays,
    and is named. The program itself goes by the tool that installed it.
    """
    app = make_app({"data_dir": data_dir} if data_dir else {})
    if data and not yes:
        click.confirm(f"Delete {app.data_dir} and the nights' reports in your projects for good?", abort=True)
    done = [*_schedule(app), *_plugins(app)]
    stays: list[str] = []
    if rules:
        done += _rules(app, stays)
    projects = _projects(app)
    if data:
        live = [] if rules and not stays else _live(app)
        if live:
            raise Refused(
                f"{len(live)} adopted rules are live, and only the data knows how to undo them; add --rules, or keep"
                " the data"
            )
        done += _data(app, projects)
    for line in done or ["there was nothing to take away"]:
        click.echo(line)
    kept = [*stays, *_kept(app, projects)]
    if kept:
        click.echo("\nKept on purpose:")
        for line in kept:
            click.echo(f"  {line}")


def _schedule(app: App) -> Iterator[str]:
    from skillopt_sleep.daemon.installing import remove

    found, unseen = remove(app)
    if found:
        yield "took the schedule away"
    yield from unseen


def _plugins(app: App) -> Iterator[str]:
    from skillopt_sleep.app.plugins import AGENTS, uninstall_plugin

    for agent in AGENTS:
        try:
            yield from uninstall_plugin(app, agent)
        except SleepError as error:
            yield f"the plugin of {agent} could not be taken out: {error}"


def _rules(app: App, stays: list[str]) -> Iterator[str]:
    """Revert night after night, the latest first; what cannot be reverted is added to ``stays``."""
    from skillopt_sleep.stores.adoption import revert

    for night in dict.fromkeys(each.night for each in reversed(_live(app))):
        try:
            changes = revert(app.staging, night=night)
        except SleepError as error:
            stays.append(f"the rules of night {night}: {error}")
            continue
        yield from (f"reverted night {night}: {change.path}" for change in changes)


def _live(app: App) -> list[Adoption]:
    from skillopt_sleep.stores.adoption import adoptions

    return list(adoptions(app.database)) if (app.data_dir / "sleep.db").exists() else []


def _projects(app: App) -> tuple[Path, ...]:
    """Every project in which nights have left a folder."""
    if not (app.data_dir / "sleep.db").exists():
        return ()
    rows = app.database.rows("SELECT DISTINCT project FROM nights ORDER BY project")
    return tuple(folder for row in rows if (folder := Path(row["project"]) / ".skillopt-sleep").is_dir())


def _data(app: App, projects: tuple[Path, ...]) -> Iterator[str]:
    from skillopt_sleep.stores.lock import one_night

    with one_night(app.data_dir):
        app.database.close()
        for folder in (*projects, app.data_dir):
            if folder.is_symlink():
                raise Refused(f"{folder} is a link, and links are not followed; delete what it leads to yourself")
            try:
                shutil.rmtree(folder)
            except OSError as error:
                raise DiskError(f"cannot delete {folder}: {error.strerror}") from error
            yield f"deleted {folder}"


def _kept(app: App, projects: tuple[Path, ...]) -> Iterator[str]:
    from skillopt_sleep.settings import settings_path

    if _live(app):
        yield "the adopted rules: skillopt-sleep uninstall --rules"
    if app.data_dir.exists():
        yield f"what nights have learnt, {app.data_dir}: skillopt-sleep uninstall --data"
    yield from (f"reports, {folder}: skillopt-sleep uninstall --data" for folder in projects if folder.exists())
    settings = settings_path(app.env)
    if settings.exists():
        yield f"your settings, {settings}: delete the file"
    yield "the program itself: uv tool, pipx or pip, whichever installed it, with: uninstall skillopt-sleep"
