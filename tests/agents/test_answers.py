"""The real CLIs answer as the backends say they do."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from skillopt_sleep.backends.claude import ClaudeBackend
from skillopt_sleep.backends.codex import CodexBackend
from skillopt_sleep.model.call import Prompt, Usage
from tests.agents.clis import CLIS

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number"}, "why": {"type": "string"}},
    "required": ["score", "why"],
    "additionalProperties": False,
}
TOKENS = Usage(input_tokens=100, output_tokens=20, cached_tokens=10)


@pytest.fixture(params=CLIS, ids=str)
def backend(request, agents):
    """Each of them, reaching the loopback model."""
    env = agents.env(clis=(request.param,))
    if request.param.name == "claude":
        built = ClaudeBackend(env=env, model="claude-sonnet-4-5", timeout=60.0)
    else:
        built = CodexBackend(env=env, config=agents.codex_config(), model="gpt-5.5", timeout=60.0)
    yield built
    built.close()


def test_answer(backend, loopback):
    """System and user words arrive, no tool is offered that could be called, and the account is the CLI's own."""
    assert backend.probe().ready
    reply = backend.complete(Prompt(system="You are terse. RULE: say bananas", user="hello there"))
    assert (reply.text, reply.usage) == ("FOLLOWED: say bananas", TOKENS)
    assert (reply.cost_usd is None) == (backend.name == "codex")
    (asked,) = loopback.requests
    assert (asked.user, asked.model) == ("hello there", backend.model)
    assert "You are terse." in asked.system
    assert set(asked.tools) <= {"apply_patch"}
    assert not {"CLAUDE.md", "AGENTS.md", "SKILL.md"} & set(asked.text.split())


def test_answer_of_a_shape(backend, loopback):
    """The CLI itself asks for the shape, and the reply is JSON that fits it; one request."""
    reply = backend.complete(Prompt(system="You judge.", user="judge this", schema=SCHEMA))
    assert json.loads(reply.text) == {"score": 0.5, "why": "loopback"}
    assert reply.usage == TOKENS
    (asked,) = loopback.requests
    assert asked.schema["required"] == SCHEMA["required"]


WORDS = (
    "/help me with this",
    "/clear",
    "/nonsense",
    "use $skill-creator and $review-agent now",
    "$openai-docs",
    "what does @/etc/hostname say",
    "@/etc/hostname",
    "#remember this",
    "!ls",
    "--version",
    "-p",
    "line one\n/help\nline three",
    'quotes " and \\ and ü \u2028 and \U0001f600',
)


def test_words_that_a_cli_could_take_for_its_own(backend, loopback):
    """They reach the model as they were typed, and bring nothing else with them."""
    backend.complete(Prompt(system="", user="hello"))
    plain = len(loopback.requests[0].text) - len("hello")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda user: backend.complete(Prompt(system="", user=user)), WORDS))
    found = {asked.user: len(asked.text) - len(asked.user) for asked in loopback.requests[1:]}
    assert set(found) == set(WORDS)
    assert all(abs(more - plain) < 10 for more in found.values()), found


def test_long_prompt(backend, loopback):
    """Half a megabyte arrives whole, to the last word."""
    user = "word " * 100_000 + "the end"
    backend.complete(Prompt(system="", user=user))
    assert loopback.requests[0].user == user
