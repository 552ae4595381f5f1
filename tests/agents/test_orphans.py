"""However it ends, a night leaves no process and no folder."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.agents.night import WORKERS
from tests.fakes.program import run

ROLLOUTS = 200
ROOT = Path(__file__).parents[2]


def left(home) -> list[int]:
    """Living processes that have this home, or one of ours, in their environment, other than our own."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            env = process.environ()
            ours = env.get("HOME") == str(home) or "skillopt-sleep" in env.get("HOME", "")
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def test_two_hundred_rollouts_and_a_kill(agents, loopback, row, tmp_path):
    """Hangs, resets, killed children, and at last the night itself killed in the middle: `status` leaves nothing."""
    data = tmp_path / "data"
    told = {
        "env": agents.env(),
        "config": agents.codex_config(),
        "record": str(data / "children"),
        "timeout": 15.0,
        "rollouts": ROLLOUTS,
    }
    started = time.monotonic()
    night = subprocess.Popen(
        [sys.executable, "-m", "tests.agents.night"],
        cwd=ROOT,
        env=os.environ | {"NIGHT": json.dumps(told)},
        stdout=subprocess.PIPE,
        text=True,
    )

    def kill_one(asked):
        """The children of the night are the CLIs; one of them is killed, as the kernel would."""
        if "[[kill me]]" in asked.user:
            with contextlib.suppress(psutil.Error):
                random.choice(psutil.Process(night.pid).children()).kill()

    loopback.on_request = kill_one
    became = json.loads(night.stdout.readline())
    assert sum(became.values()) == ROLLOUTS
    assert became["answered"] > ROLLOUTS / 2
    assert became["TimedOut"] > 2  # of the six that hang, some are killed instead
    assert became["Overloaded"] > ROLLOUTS / 20
    under_way = WORKERS // 2 + 1  # the first call of a Codex home runs alone
    while sum("for good" in asked.user for asked in loopback.requests) < under_way:
        assert time.monotonic() - started < 240
        time.sleep(0.05)
    assert len(left(agents.home)) >= under_way
    night.kill()
    night.communicate()
    assert len(list(Path(tempfile.gettempdir()).glob("skillopt-sleep*"))) >= under_way
    said = run("status", f"--project={tmp_path}", f"--data-dir={data}")
    assert "a night that was killed had left" in said.stderr
    assert left(agents.home) == []
    assert list(Path(tempfile.gettempdir()).glob("skillopt-sleep*")) == []
    assert list((data / "children").iterdir()) == []
    row("both", f"{ROLLOUTS} rollouts, kill -9", "nothing left", time.monotonic() - started, len(loopback.requests))
