"""What ``run --dry-run`` prints: tonight's tasks and what they would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from skillopt_sleep.app import App
    from skillopt_sleep.domain.task import TaskRecord

__all__ = ["print_rehearsal", "say_price"]


def print_rehearsal(app: App, tasks: tuple[TaskRecord, ...] | None, *, as_json: bool) -> None:
    """Rehearse a night in memory and print it."""
    rehearsal = app.rehearse(tasks)
    if as_json:
        click.echo(msgspec.json.encode(rehearsal).decode())
        return
    from skillopt_sleep.reports import rehearsal as page

    click.echo(page.render(rehearsal))


def say_price(app: App, tasks: tuple[TaskRecord, ...] | None) -> None:
    """Say on stderr, before a night, what it is expected to take and may take at most; rehearsed in memory."""
    rehearsal = app.rehearse(tasks)
    caps = app.caps()
    click.echo(
        f"skillopt-sleep: about {rehearsal.usual_calls:,} calls expected; never more than {caps.calls:,} calls,"
        f" {caps.tokens:,} tokens, {caps.usd:g} USD or {caps.minutes:g} minutes",
        err=True,
    )
