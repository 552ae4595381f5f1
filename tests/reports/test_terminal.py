"""The night on one screen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from skillopt_sleep.reports import status, terminal
from skillopt_sleep.reports.ending import Word
from tests.reports.samples import ACCEPTED, BUDGET, LOGGED_OUT, NO_SESSIONS, REJECTED, RUNNING, SAMPLES, UNDECIDED

SCREEN = 50


@pytest.mark.parametrize("name", ["accepted", "rejected", "undecided", "unmeasured", "logged-out", "budget"])
def test_screen_reads_as_the_snapshot(name, snapshot):
    """The screens are read by people; a change of one is looked at."""
    snapshot(f"{name}.txt", terminal.render(SAMPLES[name], width=88).encode())


@pytest.mark.parametrize("report", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize("width", [20, 80, 200])
def test_screen_keeps_to_its_window(report, width):
    """Lines are as wide as the window, or one long word or command; there are no more than a screen of them at 80."""
    lines = terminal.render(report, width=width).splitlines()
    assert all(
        len(line) <= max(width, 40) or " " not in line[12:].strip().replace("skillopt-sleep ", "")
        for line in lines
        if "skillopt-sleep" not in line and "/" not in line
    )
    assert width < 80 or len(lines) <= SCREEN


@pytest.mark.parametrize("report", SAMPLES.values(), ids=SAMPLES)
def test_screen_begins_with_the_word_that_is_coloured(report):
    """The first columns hold one of the known words, so that the command line can colour it."""
    assert terminal.render(report, width=80)[:12].rstrip() in set(Word)


def test_words_of_others_cannot_drive_the_terminal():
    """No escape sequence of a session or model reaches the screen."""
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[31m wiped \x9b0m\u202e"
    edit = replace(ACCEPTED.applied_edits[0], edit=replace(ACCEPTED.applied_edits[0].edit, text=evil))
    report = replace(ACCEPTED, applied_edits=(edit,), notes=(evil,), why=evil)
    text = terminal.render(report, width=80) + status.render([replace(report, night=evil)])
    assert "wiped" in text
    assert all(c.isprintable() or c == "\n" for c in text)


def test_status_reads_as_the_snapshot(snapshot):
    """The last nights, the newest first, with what became of their proposals."""
    adopted = replace(ACCEPTED, night="2026-07-02-51be")
    undone = replace(ACCEPTED, night="2026-07-01-c9a0")
    nights = [RUNNING, BUDGET, LOGGED_OUT, NO_SESSIONS, UNDECIDED, REJECTED, ACCEPTED, adopted, undone]
    rendered = status.render(nights, adopted={adopted.night, undone.night}, reverted={undone.night}, waiting=4)
    snapshot("status.txt", rendered.encode())


def test_status_before_the_first_night_says_how_to_begin(snapshot):
    """Somebody who has just installed the program is told three commands."""
    snapshot("status-first.txt", status.render([]).encode())


def test_status_offers_the_newest_proposal_that_waits():
    """An adopted proposal is not offered again; an older one that waits is."""
    older = replace(ACCEPTED, night="2026-06-30-aaaa")
    assert "adopt 2026-06-30-aaaa" in status.render([ACCEPTED, older], adopted={ACCEPTED.night})
    assert "skillopt-sleep adopt" not in status.render([ACCEPTED], adopted={ACCEPTED.night})
