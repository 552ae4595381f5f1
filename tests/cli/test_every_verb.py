"""Every verb, its help, its JSON and its exit code, in one table."""

from __future__ import annotations

import json

import click
import pytest

from skillopt_sleep.cli import COMMANDS, program
from tests.fakes.home import make_person
from tests.fakes.program import run
from tests.fakes.terminal import show

SILENT = {"daemon"}
"""Verbs that write a log and no answer."""

TABLE = {
    "insights": ("insights", 0),
    "doctor": ("doctor --backend=simulated", 0),
    "doctor --repair": ("doctor --repair", 0),
    "dry-run": ("dry-run --backend=simulated", 0),
    "run": ("run RUN", 0),
    "schedule": ("schedule --using=daemon --hour=3 --minute=10 --backend=simulated", 0),
    "schedule --print": ("schedule --print --using=cron --backend=simulated", 0),
    "unschedule": ("unschedule", 0),
    "daemon": ("daemon --once", 2),
    "status": ("status", 0),
    "show": ("show", 0),
    "adopt": ("adopt", 0),
    "why": ("why e", 0),
    "watch": ("watch", 0),
    "revert --list": ("revert --list", 0),
    "revert": ("revert", 0),
    "audit": ("audit RUN", 0),
    "try": ("try RULES --dry-run RUN", 0),
    "harvest": ("harvest", 0),
    "forget": ("forget 00000000 --yes", 2),
    "plugin install": ("plugin install claude", 4),
    "plugin uninstall": ("plugin uninstall claude", 0),
    "checks": ("checks", 0),
    "checks approve": ("checks approve true", 0),
    "checks remove": ("checks remove true", 0),
    "settings": ("settings", 0),
    "train": ("train --from-nights --dry-run --target-backend=simulated --optimizer-backend=simulated", 0),
    "eval": ("eval", 2),
    "demo": ("demo --folder=DEMO", 0),
    "setup": ("setup --yes --at=never --no-plugin", 0),
    "uninstall": ("uninstall --yes", 0),
}
"""Each verb with what is typed and its exit code, in an order in which each finds what it needs."""


def list_commands():
    """Every verb and its subverbs, with the command."""
    for name in COMMANDS:
        command = program.get_command(click.Context(program), name)
        yield name, command
        for below in getattr(command, "commands", {}).values():
            yield f"{name} {below.name}", below


@pytest.mark.parametrize(
    ("name", "command"), [*list_commands()], ids=lambda value: value if isinstance(value, str) else ""
)
def test_help_fits_80_columns_and_offers_json(name, command):
    """No line of the help runs past the edge, and whatever prints an answer prints it as JSON too."""
    text = command.get_help(click.Context(command, info_name=f"skillopt-sleep {name}", terminal_width=80))
    assert not [line for line in text.splitlines() if len(line) > 80]
    assert name in SILENT or name == "plugin" or any(parameter.name == "as_json" for parameter in command.params)


def test_list_of_verbs_has_a_line_for_each():
    """None is wrapped at 80 columns."""
    text = program.get_help(click.Context(program, info_name="skillopt-sleep", terminal_width=80))
    assert not [line for line in text.splitlines() if len(line) > 80]
    assert len(text.partition("Commands:")[2].split("\n")) == len(COMMANDS) + 1


@pytest.fixture(scope="module")
def mira(tmp_path_factory):
    """A person with enough corrected requests to prove a rule in one night."""
    return make_person(tmp_path_factory.mktemp("mira"), rules=1, tasks_per_rule=16)


@pytest.mark.slow
def test_every_verb_answers_in_json_and_in_text(mira, tmp_path):
    """JSON validates; text has no escape codes in a pipe; both end with the code of the table."""
    rules = tmp_path / "rules.md"
    rules.write_text("- Write dates as YYYY-MM-DD.\n")
    assert {name.split()[0] for name in TABLE} >= set(COMMANDS)
    for name, (typed, code) in TABLE.items():
        words = typed.replace("DEMO", str(tmp_path / "demo")).replace("RULES", str(rules)).split()
        places = mira.arguments(words[0])[1:] if "RUN" in words else mira.places
        places = [] if words[0] == "demo" else places
        if words[0] in {"schedule", "unschedule", "daemon", "forget", "uninstall"}:
            places = [f"--data-dir={mira.data}"]
        words = [word for word in words if word != "RUN"]
        done = run(*words, *places, *([] if words[0] in SILENT else ["--json"]), PATH="/usr/bin:/bin")
        assert done.returncode == code, (name, done.stderr)
        assert "Traceback" not in done.stderr
        if code == 0 and words[0] not in SILENT:
            json.loads(done.stdout)
        if code:
            assert done.stderr.count("\n") == 1, name
        assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.slow
def test_pager_that_ends_early_is_no_error(mira):
    """A reader who has seen enough."""
    code, page = show("insights", "--all", *mira.places, lines=5, PAGER="head -n 1")
    assert code == 0
    assert "Traceback" not in page
