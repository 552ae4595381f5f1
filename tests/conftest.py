"""Shared by every test: no test reads this user's real settings, data or agents."""

from __future__ import annotations

import collections
import os
from pathlib import Path

import hypothesis
import pytest

# A busy machine is slow now and then, which says nothing about the code.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=25)
hypothesis.settings.register_profile("slow", deadline=None, max_examples=200)
hypothesis.settings.load_profile("quick")

# What a test writes need not survive a power cut, and a busy disk takes milliseconds to make sure that it would.
os.fsync = lambda _descriptor: None

AGENTS = Path(__file__).parent / "agents"


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run what takes minutes")
    parser.addoption("--agents", action="store_true", help="run the contract with the real agent CLIs, and only that")


def pytest_configure(config):
    """Try more examples of every property where time does not matter."""
    if config.getoption("--slow"):
        hypothesis.settings.load_profile("slow")


def pytest_ignore_collect(collection_path, config):
    """The real CLIs are installed by `scripts/test-agents`, which then asks for their tests."""
    return True if collection_path == AGENTS and not config.getoption("--agents") else None


def pytest_terminal_summary(terminalreporter, config):
    if not config.getoption("--agents"):
        terminalreporter.write_line("not run: tests/agents, which needs the real CLIs (bash scripts/test-agents)")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="needs --slow")
    cases = collections.defaultdict(list)
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)
        elif sample := item.get_closest_marker("sample"):
            cases[item.path, item.originalname, *sample.args].append(item)
    for (_, _, wanted), found in cases.items():
        chosen = {number * len(found) // wanted for number in range(wanted)}
        for number, item in enumerate(found):
            if number not in chosen:
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    """A home of its own for every test."""
    home = tmp_path_factory.mktemp("home")
    for name in os.environ:
        if name in {"CLAUDE_CONFIG_DIR", "CODEX_HOME"} or name.startswith(("XDG_", "SKILLOPT_SLEEP_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
