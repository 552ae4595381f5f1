"""However it ends, a night leaves no process, no copy of the project and no folder."""

from __future__ import annotations

import contextlib
import random
import shutil
import time

import msgspec
import psutil
import pytest

from tests.agents.clis import CACHE
from tests.agents.night import WORKERS, Became, Told, begin, living
from tests.agents.working import shell_of
from tests.fakes.program import run
from tests.fakes.repository import git, make_project, tree
from tests.loopback import Said

ROLLOUTS = 200
SECONDS = 20.0
"""For one of them; the six that run at once share two cores on a small machine."""


def untidy(asked):
    """A model whose agent leaves a program running where it is told to, and has a shell."""
    shell = shell_of(asked)
    if "[[leave one]]" in asked.text and shell and not asked.calls:
        return Said(text="I begin.", calls=(shell("setsid tail -f /dev/null > /dev/null 2>&1 & echo begun"),))
    return Said(text="done")


def test_rollouts_of_every_kind_and_a_kill(agents, loopback, row, own_tmp, *, tmp_path):
    """As text, native and in copies, some hang, break, are killed or leave something; at last the night itself is.

    What was left is nothing, and after the kill `status` sees to it.
    """
    if not (shutil.which("bwrap") and shutil.which("socat")):
        pytest.fail("this needs a sandbox: apt-get install bubblewrap socat")
    project, data = make_project(tmp_path / "project", code="x\n"), tmp_path / "data"
    before = tree(project)
    check = ("test -e code",)
    told = Told(
        env=agents.env(),
        record=str(data / "children"),
        project=str(project),
        commit=git(project, "rev-parse", "HEAD"),
        rollouts=ROLLOUTS,
        timeout=SECONDS,
        config=agents.codex_config(),
        commands={"claude": check, "codex": check},
    )
    loopback.mind = untidy
    started = time.monotonic()
    night = begin(told)

    def kill_one(asked):
        """One of the CLIs that the night has started, as the kernel would."""
        if "[[kill me]]" in asked.user:
            with contextlib.suppress(psutil.Error):
                clis = [each for each in psutil.Process(night.pid).children() if str(CACHE) in str(each.cmdline())]
                random.choice(clis).kill()

    loopback.on_request = kill_one
    try:
        became = msgspec.json.decode(night.stdout.readline(), type=Became)
        assert sum(became.ended.values()) == ROLLOUTS
        assert became.ended["done"] > ROLLOUTS / 2
        assert became.ended["TimedOut"] > 1  # of the six that hang, one or another is killed instead
        assert became.ended["Overloaded"] > ROLLOUTS / 20
        assert (became.processes, became.folders) == ((), ())
        lasting = time.monotonic() + 60
        while sum("for good" in asked.user for asked in loopback.requests) < WORKERS:
            assert time.monotonic() < lasting
            time.sleep(0.05)
        words = (str(own_tmp), str(agents.home))
        assert len(living(*words)) >= WORKERS
    finally:
        night.kill()
        night.communicate()
    folders = list(own_tmp.glob("skillopt-sleep*"))
    assert sum((folder / "workspace" / "code").exists() for folder in folders) == len(told.commands)
    said = run("status", f"--project={project}", f"--data-dir={data}")
    assert "cleaned up after a killed night" in said.stderr
    assert living(*words) == []
    assert list(own_tmp.glob("skillopt-sleep*")) == []
    assert list((data / "children").iterdir()) == []
    assert tree(project) == before
    seconds = time.monotonic() - started
    row("both", f"{ROLLOUTS} rollouts, kill -9", "nothing left", seconds, requests=len(loopback.requests))
