"""The command line: one module per command, imported when it is called; the only place that prints and exits."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence

import click

from skillopt_sleep import __version__
from skillopt_sleep.errors import SleepError

NAME = "skillopt-sleep"

COMMANDS: Mapping[str, str] = {
    "insights": "What your sessions already tell: no model call, nothing written.",
    "doctor": "What a night would do and cost, and whether it could; spends nothing.",
    "run": "Run one night now, or go on with the one that was cut short.",
    "schedule": "Hold a night every night, for one project or many.",
    "unschedule": "Take the nightly run away; the crontab is as it was.",
    "daemon": "Hold the scheduled nights in the foreground, as in a container.",
    "status": "The last nights, and what waits for you.",
    "show": "The whole report of a night (the last one).",
    "why": "Where a rule came from: your own words, the tasks, the test.",
    "adopt": "Put a night's proposal live.",
    "revert": "Undo an adopted night, or one edit of it, byte for byte.",
    "watch": "Whether adopted rules help: your corrections before and since.",
    "audit": "A trial of a change that changes nothing: it must not be accepted.",
    "harvest": "Read new sessions into the inbox; print or export what was found.",
    "plugin": "Install the plugin of Claude Code or Codex, or take it out.",
    "checks": "Commands of yours that may score replays: list, approve, remove.",
    "uninstall": "Take the schedule and the plugins away; on request rules and data too.",
    "settings": "Every setting, its value, and where the value came from.",
    "train": "Train a skill on a dataset, or on the tasks of your own nights.",
    "eval": "Score skills on a dataset, under one model or several.",
    "demo": "A whole night on bundled sample sessions, with a simulated agent.",
}
"""Every command with its one line of help, so that the list is printed without importing any."""


class Program(click.Group):
    """A group whose commands are modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In the order a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's module."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"skillopt_sleep.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Invoke the command; a reader that goes away, as `head` does, ends it quietly."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # what is still unsaid goes nowhere, or Python would complain of it at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command when there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from skillopt_sleep.model.text import did_you_mean

            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.group(
    NAME,
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name=NAME)
@click.pass_context
def program(context: click.Context) -> None:
    """Your coding agent gets better while you sleep, and you can believe it.

    A night reads your own Claude Code and Codex sessions, finds what you correct again and again, tries a few small
    edits of the agent's skill and memory files on held-out tasks, and leaves a proposal with its proof. Nothing live
    changes before you `adopt` it, and `revert` undoes it byte for byte.

    \b
    Start with:  skillopt-sleep insights      what your sessions already tell
                 skillopt-sleep doctor        what a night would do and cost
                 skillopt-sleep run           one night, now
    """  # noqa: D301  \b is click's mark of lines that are to stay as they are
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit with its code: one line on stderr for everything that is the user's to mend."""
    try:
        code = program.main(None if arguments is None else list(arguments), prog_name=NAME, standalone_mode=False)
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = f" (see {context.command_path} --help)" if context else ""
        _complain(f"{error.format_message()}{hint}")
        code = error.exit_code
    except SleepError as error:
        _complain(str(error))
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{NAME}: interrupted", err=True)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> None:
    """One line; what it quotes was written by anybody, so nothing in it may drive the terminal."""
    from skillopt_sleep.reports.formatting import plain

    click.echo(f"{NAME}: {plain(message)}", err=True)
