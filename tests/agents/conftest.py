"""What every test with the real CLIs stands on: a loopback model, a home of its own, and the table at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from skillopt_sleep.backends.child_registry import MARK
from tests.agents.clis import FIRST, Cli
from tests.loopback import Loopback, chatgpt_login

ROW = "row of the table"
HEAD = ("cli", "fault", "error", "seconds", "deadline", "requests")
BEYOND = 2.0
"""Seconds by which anything may exceed the deadline that was set for it."""


@pytest.fixture
def loopback():
    """The model service; a test in which anything tried to reach another host fails."""
    with Loopback() as server:
        yield server
        assert server.outside == []


@pytest.fixture
def home(tmp_path) -> Path:
    """A home with nothing in it."""
    folder = tmp_path / "home"
    (folder / ".codex").mkdir(parents=True)
    return folder


@pytest.fixture(autouse=True)
def own_tmp(monkeypatch):
    """A folder of its own for what is temporary, which must be empty afterwards, and nobody's who still runs."""
    folder = tempfile.mkdtemp(prefix="agents-")
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield Path(folder)
    running = children_in(folder)
    left = [path.name for path in Path(folder).glob("skillopt-sleep*")]
    for process in running:
        with contextlib.suppress(psutil.Error):
            process.kill()
    shutil.rmtree(folder, ignore_errors=True)
    assert (left, running) == ([], [])


def children_in(folder: str) -> list[psutil.Process]:
    """What the product has started below a folder for what is temporary, and still runs."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            env = process.environ()
            if MARK in env and env.get("TMPDIR", "").startswith(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@dataclass(frozen=True)
class Agents:
    """The real CLIs and how the product is to reach them through ``loopback``."""

    loopback: Loopback
    home: Path
    more: Mapping[str, str] = field(default_factory=dict)

    def env(self, fault: str = "", *, clis: tuple[Cli, ...] = tuple(FIRST.values()), **more: str) -> dict[str, str]:
        """The environment of the program: these CLIs on PATH, a key, this home, this server."""
        path = os.pathsep.join(str(cli.command.parent) for cli in clis)
        env = self.loopback.environment(self.home, fault, **more)
        return env | {"PATH": f"{path}{os.pathsep}{env['PATH']}", "TMPDIR": tempfile.gettempdir()}

    def codex_config(self, fault: str = "") -> tuple[str, ...]:
        """What ``config`` of [backends.codex] must be for its calls to come to the server, also with ChatGPT's login.

        The server does not know the compression that such an account is sent with.
        """
        address = f"{self.loopback.url(fault)}/v1"
        addresses = (f'openai_base_url="{address}"', f'chatgpt_base_url="{address}"')
        return (*addresses, "features.enable_request_compression=false")

    def chatgpt(self, lifetime: float = 86_400, *, renewal: str = "", **more: str) -> dict[str, str]:
        """The environment of somebody whose Codex is logged in to ChatGPT; ``renewal``: the fault of renewing that."""
        chatgpt_login(self.home, lifetime)
        renew = {"CODEX_REFRESH_TOKEN_URL_OVERRIDE": f"{self.loopback.url(renewal)}/oauth/token"}
        env = self.env(**renew, **more)
        return {name: value for name, value in env.items() if not name.endswith("_API_KEY")}


@pytest.fixture
def agents(loopback, home) -> Agents:
    """Both CLIs, this server, this home."""
    return Agents(loopback, home)


@pytest.fixture
def row(record_property):
    """Put one row into the table that is printed at the end; what had a ``deadline`` must have kept it."""

    def put(
        cli: object, fault: str, error: object, seconds: float, *, requests: int, deadline: float | None = None
    ) -> None:
        most = "" if deadline is None else f"{deadline:g}"
        record_property(ROW, (str(cli), fault, str(error), f"{seconds:.1f}", most, str(requests)))
        assert deadline is None or seconds <= deadline + BEYOND

    return put


def pytest_terminal_summary(terminalreporter):
    """Each CLI and each fault: the error, seconds, the deadline that was set for it, requests the server saw."""
    rows = sorted(
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == ROW and report.when == "call"
    )
    if not rows:
        return
    table = [HEAD, *map(tuple, rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEAD))]
    terminalreporter.write_line("")
    for line in table:
        terminalreporter.write_line("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
