"""Every way a service, an account or a CLI can fail has its own error, within our own deadline, with few requests."""

from __future__ import annotations

import contextlib
import os
import time

import psutil
import pytest

from skillopt_sleep.backends.claude import ClaudeBackend
from skillopt_sleep.backends.codex import CodexBackend
from skillopt_sleep.errors import (
    BackendError,
    BadReply,
    EmptyReply,
    ModelRefused,
    NotInstalled,
    NotLoggedIn,
    Overloaded,
    QuotaExhausted,
    RateLimited,
    TimedOut,
    TooLong,
    TooOld,
)
from skillopt_sleep.model.call import Prompt
from tests.agents.clis import CLIS, FIRST

DEADLINE, SHORT = 30.0, 4.0
"""Seconds a call may take here, and one that will hang; a fault may take two more."""
HANG = frozenset({"hang", "stall"})
PROMPT = Prompt(system="You are terse.", user="hello there")
ANSWERED = "answered"

EITHER = {
    "400": BadReply,
    "401": NotLoggedIn,
    "402": QuotaExhausted,
    "403": NotLoggedIn,
    "404-model": ModelRefused,
    "413": TooLong,
    "429": RateLimited,
    "429-after-1": RateLimited,
    "429-after-60": RateLimited,
    "credit": QuotaExhausted,
    "quota": QuotaExhausted,
    "500": Overloaded,
    "503": Overloaded,
    "529": Overloaded,
    "refused": Overloaded,
    "reset": Overloaded,
    "drop": Overloaded,
    "cut": (Overloaded, BadReply),
    "failed": Overloaded,
    "hang": TimedOut,
    "stall": TimedOut,
    "empty": EmptyReply,
    "garbage": (Overloaded, BadReply),
    "too-long": TooLong,
    "max-tokens": TooLong,
    "logged out": NotLoggedIn,
    "missing": NotInstalled,
    "too old": TooOld,
    "killed": Overloaded,
    "flaky-1": ANSWERED,
    "slow-20": ANSWERED,
}
CLAUDE = {
    "429-after-600": RateLimited,  # it gives up at once, and does not say how long it was to wait
    "refusal": ANSWERED,
}
CODEX = {
    "429-after-600": QuotaExhausted,
    "refusal": EmptyReply,  # it leaves out what is marked as a refusal, and says nothing
    "window": TooLong,
    "failed-rate": RateLimited,
    "usage-limit": QuotaExhausted,
    "upgrade": TooOld,
}
CHATGPT = {
    "token-reused": NotLoggedIn,
    "token-expired": NotLoggedIn,
    "chatgpt-model": ModelRefused,
    "usage-limit": QuotaExhausted,
    "renewed": ANSWERED,
}
MOST = {"400": 3, "failed": 5, "max-tokens": 4, "missing": 0, "too old": 0, "refused": 0, "killed": 1, "hang": 1}
"""Requests at most; 2 where nothing is said, the CLI's own second try among them."""

ROWS = [
    (cli, fault, error)
    for cli in CLIS
    for fault, error in (EITHER | {"claude": CLAUDE, "codex": CODEX}[cli.name]).items()
]


def build(cli, env, config=(), timeout=DEADLINE):
    """The backend that calls this CLI."""
    if cli.name == "claude":
        return ClaudeBackend(env=env, model="claude-sonnet-4-5", timeout=timeout)
    return CodexBackend(env=env, config=config, model="gpt-5.5", timeout=timeout)


def broken(agents, cli, fault, tmp_path):
    """The backend that meets this fault."""
    env, config = agents.env(fault, clis=(cli,)), agents.codex_config(fault)
    if fault == "refused":
        env["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
        config = ('openai_base_url="http://127.0.0.1:9/v1"',)
    elif fault == "logged out":
        env = {name: value for name, value in env.items() if not name.endswith("_API_KEY")}
    elif fault == "missing":
        env["PATH"] = str(tmp_path)
    elif fault == "too old":  # it does not know an option that it is given
        shim = tmp_path / cli.name
        shim.write_text(f'#!/bin/sh\nexec {cli.command} "$@" --of-the-future\n')
        shim.chmod(0o755)
        env["PATH"] = f"{tmp_path}:{env['PATH']}"
    elif fault == "killed":
        agents.loopback.on_request = lambda _asked: kill_children()
    return build(cli, env, config, SHORT if fault in HANG else DEADLINE)


def kill_children():
    """What the kernel does when memory runs out."""
    for child in psutil.Process(os.getpid()).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()


def outcome(backend, prompt=PROMPT):
    """What became of a call, and the seconds it took."""
    started = time.monotonic()
    try:
        reply = backend.complete(prompt)
    except BackendError as error:
        return error, time.monotonic() - started
    finally:
        backend.close()
    return reply, time.monotonic() - started


def check(got, expected):
    """It is what it should be."""
    if expected is ANSWERED:
        assert not isinstance(got, Exception), got
        assert got.text.strip()
    else:
        assert isinstance(got, expected), repr(got)
        assert "\n" not in str(got)


@pytest.mark.parametrize("case", ROWS, ids=lambda case: f"{case[0]} {case[1]}")
def test_fault(agents, loopback, row, tmp_path, case):
    """The right error within the deadline, after no more requests than the CLI's one try of its own."""
    cli, fault, expected = case
    got, seconds = outcome(broken(agents, cli, fault, tmp_path))
    said = type(got).__name__ if isinstance(got, Exception) else ANSWERED
    deadline = SHORT if fault in HANG else DEADLINE
    row(cli, fault, said, seconds, deadline=deadline, requests=len(loopback.requests))
    check(got, expected)
    assert len(loopback.requests) <= MOST.get(fault, 2)
    if fault == "429-after-60":
        assert 55 < got.retry_after < 80
    assert not psutil.Process().children(recursive=True)


@pytest.mark.parametrize(("fault", "expected"), CHATGPT.items(), ids=CHATGPT)
def test_fault_of_a_chatgpt_account(agents, loopback, row, fault, expected):
    """The login of a subscription is used through its link, renewed through it, and told apart when it is spent."""
    failing = "" if fault in {"renewed", "token-reused"} else fault
    refused = "401" if fault == "token-reused" else failing
    env = agents.chatgpt(0 if fault == "renewed" else 86_400, renewal=fault if fault.startswith("token") else "")
    before = (agents.home / ".codex" / "auth.json").read_text()
    got, seconds = outcome(build(FIRST["codex"], env, agents.codex_config(refused)))
    said = type(got).__name__ if isinstance(got, Exception) else ANSWERED
    row(FIRST["codex"], f"{fault} (ChatGPT)", said, seconds, deadline=DEADLINE, requests=len(loopback.requests))
    check(got, expected)
    after = (agents.home / ".codex" / "auth.json").read_text()
    assert ("renewed-loopback" in after) == (fault == "renewed")
    assert (before == after) == (fault != "renewed")
    assert not (agents.home / ".codex" / "auth.json").is_symlink()
