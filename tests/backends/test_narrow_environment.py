"""An agent CLI gets the same narrow environment in every mode: what says where things are, and what its login needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillopt_sleep.backends.claude import ClaudeBackend
from skillopt_sleep.backends.codex import CodexBackend
from skillopt_sleep.errors import BackendError
from skillopt_sleep.model.call import Prompt
from tests.fakes.cli import make_cli

PROMPT = Prompt(system="s", user="u")
SECRETS = {
    "GITHUB_TOKEN": "ghp",
    "DATABASE_URL": "postgres://u:p@h/d",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "SSH_AUTH_SOCK": "/s",
    "MY_KEY": "mine",
}
NEEDED = {"https_proxy": "http://proxy:1", "SSL_CERT_FILE": "/c", "LC_ALL": "C", "DBUS_SESSION_BUS_ADDRESS": "/d"}


def environments(tmp_path: Path, kind, env: dict[str, str], **options: object) -> list[dict[str, str]]:
    """What the CLI got in every call of a probe and of a text."""
    cli = make_cli(tmp_path / "bin", "claude" if kind is ClaudeBackend else "codex")
    cli.behave(stdout="")
    backend = kind(env=cli.env | SECRETS | NEEDED | env, **options)
    backend.probe()
    with pytest.raises(BackendError):
        backend.complete(PROMPT)
    backend.close()
    calls = [call["env"] for call in cli.calls]
    assert len(calls) >= 3
    assert all(NEEDED.items() <= call.items() for call in calls)
    return calls


def kept(calls: list[dict[str, str]]) -> set[str]:
    return {name for call in calls for name in call if name in SECRETS}


@pytest.mark.parametrize("kind", [ClaudeBackend, CodexBackend])
def test_secrets_of_other_programs(tmp_path, kind):
    """None of them reaches the CLI; its own key does."""
    key = "ANTHROPIC_API_KEY" if kind is ClaudeBackend else "CODEX_API_KEY"
    calls = environments(tmp_path, kind, {key: "k"})
    assert kept(calls) == set()
    assert all(call[key] == "k" for call in calls)


def test_login_of_a_cloud(tmp_path):
    """A cloud's variables reach the CLI that is switched to it."""
    assert kept(environments(tmp_path, ClaudeBackend, {"CLAUDE_CODE_USE_BEDROCK": "1"})) == {"AWS_SECRET_ACCESS_KEY"}
    bedrock = ("model_provider=amazon-bedrock",)
    assert kept(environments(tmp_path / "b", CodexBackend, {}, config=bedrock)) == {"AWS_SECRET_ACCESS_KEY"}


def test_key_that_settings_name(tmp_path):
    """A variable that the settings name reaches the CLI."""
    named = ('model_providers.a={env_key="MY_KEY"}', "model_provider=a")
    assert kept(environments(tmp_path, CodexBackend, {}, config=named)) == {"MY_KEY"}
    home = tmp_path / "home"
    (home / ".codex").mkdir(parents=True)
    (home / ".codex" / "config.toml").write_text('[model_providers.a]\nenv_key = "MY_KEY"\n')
    users = {"CODEX_HOME": str(home / ".codex")}
    assert kept(environments(tmp_path / "b", CodexBackend, users, use_user_config=True)) == {"MY_KEY"}
    (home / "settings.json").write_text(json.dumps({"apiKeyHelper": "echo $MY_KEY"}))
    assert kept(environments(tmp_path / "c", ClaudeBackend, {"CLAUDE_CONFIG_DIR": str(home)})) == {"MY_KEY"}
