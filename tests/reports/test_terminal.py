"""The night on one screen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skillopt_sleep.model.session import Skip
from skillopt_sleep.reports.blocks import render_plain, render_styled
from skillopt_sleep.reports.headline import Ending
from skillopt_sleep.reports.terminal import describe_summary
from skillopt_sleep.sources.files import list_session_files
from tests.reports.samples import ACCEPTED, SAMPLES

SCREEN = 60


@pytest.mark.parametrize(
    "name", ["accepted", "rejected", "undecided", "unmeasured", "logged-out", "budget", "paired", "pending"]
)
def test_screen_reads_as_the_snapshot(name, snapshot):
    """The screens are read by people; a change of one is looked at."""
    snapshot(f"{name}.txt", f"{render_plain(describe_summary(SAMPLES[name]))}\n".encode())


@pytest.mark.parametrize("report", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_screen_keeps_to_its_window(report, width):
    """Only a command is wider than the window; at 80 columns it all fits a screen, and begins with how it ended."""
    lines = render_styled(describe_summary(report), width=width, colour=False).splitlines()
    assert all(line.strip().startswith("skillopt-sleep ") for line in lines if len(line) > width)
    assert width < 80 or len(lines) <= SCREEN
    assert lines[0] in set(Ending)


def test_words_of_others_cannot_drive_the_terminal():
    """No escape sequence of a session or model reaches the screen."""
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[31m wiped \x9b0m\u202e"
    edit = replace(ACCEPTED.applied_edits[0], edit=replace(ACCEPTED.applied_edits[0].edit, text=evil))
    report = replace(ACCEPTED, night=evil, applied_edits=(edit,), notes=(evil,), why=evil)
    text = render_plain(describe_summary(report))
    assert "wiped" in text
    assert all(c.isprintable() or c == "\n" for c in text)


def test_what_was_left_out_is_called_what_it_is(tmp_path):
    """A folder that does not exist is neither a line nor a file that cannot be read."""
    missing = []
    list(list_session_files(str(tmp_path / "gone"), missing.append))
    skipped = (*missing, Skip(path="a.jsonl", reason="not JSON", line=3), Skip(path="b", reason="not a regular file"))
    said = "1 unreadable file; 1 unreadable line; 1 folder that does not exist"
    assert said in render_plain(describe_summary(replace(ACCEPTED, skipped=skipped)))
