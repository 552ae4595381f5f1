"""The real CLIs answer as the backends say they do."""

from __future__ import annotations

import pytest

from skillopt_sleep.backends.claude import ClaudeBackend
from skillopt_sleep.backends.codex import CodexBackend
from skillopt_sleep.domain.call import Prompt


@pytest.fixture(params=["claude", "codex"])
def backend(request, agents):
    """Either backend, reaching the loopback model."""
    if request.param == "claude":
        built = ClaudeBackend(env=agents.env(), model="claude-sonnet-4-5", timeout=30.0)
    else:
        built = CodexBackend(env=agents.env(), config=agents.codex_config(), model="gpt-5.5", timeout=30.0)
    yield built
    built.close()


def test_answer(backend, loopback):
    """System and user words arrive, the answer comes back; one request."""
    reply = backend.complete(Prompt(system="You are terse. RULE: say bananas", user="hello there"))
    assert reply.text == "FOLLOWED: say bananas"
    assert [asked.user for asked in loopback.requests] == ["hello there"]
