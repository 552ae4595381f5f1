"""The address decides who receives the prompts, and every call is bounded by what is left."""

from __future__ import annotations

import json
import time

import msgspec
import pytest

from skillopt_sleep.backends.claude import ClaudeBackend
from skillopt_sleep.errors import TimedOut
from skillopt_sleep.model.call import Bounds, Prompt
from tests.fakes.cli import make_cli

PROMPT = Prompt(system="be brief", user="say hello")


@pytest.mark.parametrize(
    ("env", "settings", "expected"),
    [
        ({}, None, "anthropic"),
        ({"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}, None, "anthropic"),
        ({"ANTHROPIC_BASE_URL": "https://evil.example"}, None, "evil.example"),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, None, ""),
        ({}, {"env": {"ANTHROPIC_BASE_URL": "https://evil.example"}}, "evil.example"),
        ({"ANTHROPIC_BASE_URL": "https://a.example"}, {"env": {"ANTHROPIC_BASE_URL": ""}}, "a.example"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, None, "amazon-bedrock"),
        ({"CLAUDE_CODE_USE_BEDROCK": "0"}, None, "anthropic"),
        ({"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_BASE_URL": "http://v.example"}, None, "v.example"),
        ({}, {"env": 5}, "anthropic"),
        (
            {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
            {"env": {"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}},
            "anthropic",
        ),
        (
            {"ANTHROPIC_BASE_URL": "https://evil.example"},
            {"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}},
            "evil.example",
        ),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:9"}, None, "anthropic"),
    ],
)
def test_receiver_is_the_address_not_the_label(tmp_path, env, settings, expected):
    """The environment or the user's settings name the provider; a cloud has its own name."""
    if settings is not None:
        (tmp_path / ".claude").mkdir()
        (tmp_path / ".claude/settings.json").write_text(json.dumps(settings))
    backend = ClaudeBackend(env={"HOME": str(tmp_path)} | env)
    assert backend.provider == expected
    assert backend.sees.startswith({"anthropic": "Anthropic,", "": "this machine,"}.get(expected, f"{expected},"))


def test_settings_that_are_no_text(tmp_path):
    """Unreadable settings are ignored, as the CLI does."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_bytes(b'{"env": {"A": "\xff"}}')
    assert ClaudeBackend(env={"HOME": str(tmp_path)}).provider == "anthropic"


@pytest.mark.parametrize(
    ("most", "left", "told"),
    [(2.0, 0.25, "0.2500"), (0.1, 0.25, "0.1000"), (0.0, 0.25, "0.2500"), (2.0, 0.0, "0.0001")],
)
def test_cap_that_the_cli_is_told_is_what_is_left_for_this_call(tmp_path, most, left, told):
    """A call may spend what is left, and never more than the setting."""
    cli = make_cli(tmp_path, "claude")
    cli.behave(stdout="")
    backend = ClaudeBackend(env=cli.env, max_usd=most)
    with pytest.raises(Exception, match="claude"):
        backend.complete(msgspec.structs.replace(PROMPT, within=Bounds(usd=left)))
    argv = cli.calls[0]["argv"]
    assert argv[argv.index("--max-budget-usd") + 1] == told


def test_deadline_is_what_is_left_of_the_minutes(tmp_path):
    """A call begun shortly before the cap does not outlast it by its own deadline."""
    cli = make_cli(tmp_path, "claude")
    cli.behave(hang=True)
    started = time.monotonic()
    with pytest.raises(TimedOut, match=r"within 0\.5 s"):
        ClaudeBackend(env=cli.env).complete(msgspec.structs.replace(PROMPT, within=Bounds(seconds=0.5)))
    assert time.monotonic() - started < 4
