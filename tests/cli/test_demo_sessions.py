"""The sample sessions of the demo: generated, reproducible, and made of Mira's words alone."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from skillopt_sleep.backends.simulated import load_world
from skillopt_sleep.model.near_duplicates import group_near_duplicates
from skillopt_sleep.sources.claude import ClaudeSource
from skillopt_sleep.sources.codex import CodexSource

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "skillopt_sleep" / "cli" / "samples"
WORLD = load_world()
RULES = {rule.id: rule for rule in WORLD.rules}


def files_below(folder):
    """Every file with its bytes, by its place below the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def sessions():
    """The demo sessions, in order, as the sources read them; None for those without a person."""
    found = {}
    for source in (ClaudeSource(homes=(str(DEMO / "claude"),)), CodexSource(home=str(DEMO / "codex"))):
        for file in source.files(pytest.fail):
            found[file.path] = source.read(file, pytest.fail)
    return found


def test_bundled_files_are_what_the_script_writes(tmp_path):
    """The files in the program are byte for byte what the generator makes of the demo world, no more and no fewer."""
    script = ROOT / "scripts" / "make_demo_sessions.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, cwd=ROOT)
    assert files_below(DEMO) == files_below(tmp_path)


def test_every_prompt_is_one_that_mira_typed(sessions):
    """Headless runs and sub-agents give no turn; nothing is skipped on the way."""
    prompts = {turn.prompt for session in sessions.values() if session for turn in session.turns if not turn.kind.weak}
    asks = {ask for task in WORLD.tasks for ask in task.asks}
    complaints = {complaint for rule in WORLD.rules for complaint in rule.complaints}
    small_talk = prompts - asks - complaints
    assert "Find where carrier rates are cached." not in prompts
    assert len(small_talk) <= 10
    assert len(prompts & asks) >= 25


def test_every_task_of_the_demo_world_is_corrected_by_its_rule(sessions):
    """A night on these sessions can learn every house rule, several times over."""
    by_ask = {ask: task for task in WORLD.tasks for ask in task.asks}
    corrected = {
        by_ask[ask.prompt].id
        for session in sessions.values()
        if session
        for ask, reply in itertools.pairwise(session.turns)
        if ask.prompt in by_ask and reply.prompt in RULES[by_ask[ask.prompt].rules[0]].complaints
    }
    assert corrected == {task.id for task in WORLD.tasks}


def test_asks_fall_into_one_group_for_each_task():
    """Recurrences are found to be one task, different tasks are not: enough groups for train and val."""
    asks = [(task.id, ask) for task in WORLD.tasks for ask in task.asks]
    groups = group_near_duplicates([ask for _, ask in asks])
    assert len(set(zip((task for task, _ in asks), groups, strict=True))) == len(set(groups)) == len(WORLD.tasks) >= 15
