"""Caps on calls and minutes hold with the real CLIs, and the night that they cut short goes on."""

from __future__ import annotations

import time

import pytest

from skillopt_sleep.domain.verdict import Verdict
from skillopt_sleep.stores.journal import night_folder
from tests.agents.nights import MODELS, sleeper
from tests.loopback import Said

MOST, MINUTES, TIMEOUT = 20, 0.1, 6.0


@pytest.mark.parametrize("cli", MODELS)
def test_cap_on_calls_in_the_middle_of_a_trial(cli, agents, loopback, row, tmp_path):
    """The server sees no more requests than the cap has calls; the tally waits for the next night."""
    mira = sleeper(cli, agents, tmp_path / "mira")
    started = time.monotonic()
    report = mira.night(max_calls=MOST, workers=4)
    row(cli, f"--max-calls {MOST}", report.verdict, time.monotonic() - started, len(loopback.requests))
    assert (report.verdict, report.exit_code) == (Verdict.UNDECIDED, 0), report.why
    assert len(loopback.requests) == report.spend.calls == MOST
    assert (night_folder(report.project, report.night) / "diagnostics.json").exists()
    assert len(report.pending) == 1


def test_cap_on_calls_before_any_trial(agents, loopback, row, tmp_path):
    """The night is cut short, and the next run goes on with it, paying only for the rest."""
    mira = sleeper("codex", agents, tmp_path / "mira")
    started = time.monotonic()
    report = mira.night(max_calls=3, workers=4)
    row("codex", "--max-calls 3", report.stopped_by, time.monotonic() - started, len(loopback.requests))
    assert (report.stopped_by, report.exit_code) == ("budget", 5), (report.verdict, report.why)
    assert len(loopback.requests) == 3
    after = mira.night(workers=4)
    assert (after.night, after.verdict) == (report.night, Verdict.ACCEPT), after.why
    assert len({(asked.system, asked.user, asked.text) for asked in loopback.requests[:6]}) == 6


def test_cap_on_minutes(agents, loopback, row, tmp_path):
    """A service that never answers keeps a night no longer than the cap and the deadline of one call."""
    mira = sleeper("claude", agents, tmp_path / "mira")

    def silent(_asked):
        loopback.closing.wait(60)
        return Said(text="too late")

    loopback.mind = silent
    started = time.monotonic()
    report = mira.night(max_minutes=MINUTES, backends={"claude": {"timeout": TIMEOUT}})
    seconds = time.monotonic() - started
    row("claude", f"--max-minutes {MINUTES}", report.stopped_by, seconds, len(loopback.requests))
    assert report.stopped_by == "budget"
    assert seconds < MINUTES * 60 + TIMEOUT + 2
    assert (night_folder(report.project, report.night) / "diagnostics.json").exists()
