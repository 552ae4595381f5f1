"""What ``run --dry-run`` prints: tonight's tasks and what they would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from skillopt_sleep.app import App
    from skillopt_sleep.domain.task import TaskRecord

__all__ = ["print_rehearsal"]


def print_rehearsal(app: App, tasks: tuple[TaskRecord, ...] | None, *, as_json: bool) -> None:
    """Rehearse a night in memory and print it."""
    rehearsal = app.rehearse(tasks)
    if as_json:
        click.echo(msgspec.json.encode(rehearsal).decode())
        return
    from skillopt_sleep.reports import rehearsal as page

    click.echo(page.render(rehearsal))
