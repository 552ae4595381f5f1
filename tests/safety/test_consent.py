"""Who is a stranger to a person's sessions is decided by where these have gone."""

from __future__ import annotations

import pytest

from skillopt_sleep.safety.receivers import Stranger, provider_at, strangers


@pytest.mark.parametrize(
    ("sources", "providers", "agreed", "expected"),
    [
        (["claude"], ["anthropic"], [], []),
        (["codex"], ["openai"], [], []),
        (["claude"], ["openai"], [], [("claude", "openai")]),
        (["codex", "claude"], ["anthropic", "openai"], [], [("claude", "openai"), ("codex", "anthropic")]),
        (["claude"], ["openai"], [("claude", "openai")], []),
        (["claude"], ["openai"], [("codex", "openai")], [("claude", "openai")]),
        (["claude", "goose"], [""], [], []),
        (["goose"], ["anthropic"], [], [("goose", "anthropic")]),
        ([], ["api.example.com"], [], []),
    ],
    ids=["same", "same too", "other", "crossed", "agreed", "agreed for others", "nobody", "unknown", "no sessions"],
)
def test_strangers(sources, providers, agreed, expected):
    """Those whom the sessions have not gone to and the user has not agreed to; this machine is none."""
    assert [(each.source, each.provider) for each in strangers(sources, providers, agreed)] == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://API.Anthropic.com", "anthropic"),
        ("https://api.openai.com.evil.example/v1", "evil-is-no-prefix"),
        ("https://api.openai.com@evil.example/v1", "evil.example"),
        ("http://me:secret@10.1.2.3:9/v1", "10.1.2.3"),
        ("http://127.0.0.1:1234", ""),
        ("http://[::1]:1234", ""),
        ("http://localhost./v1", ""),
        ("http://[::1", "http://[::1"),
        ("evil.example/v1", "evil.example/v1"),
    ],
)
def test_provider_at_an_address(url, expected):
    """A provider is itself at its own host only; an address nobody can read is a stranger."""
    expected = "api.openai.com.evil.example" if expected == "evil-is-no-prefix" else expected
    assert provider_at(url) == expected


def test_question():
    """It says whose sessions, whom they went to, and whom they would go to."""
    assert Stranger(source="codex", provider="anthropic").question == (
        "your codex sessions went to OpenAI; this backend would send words of them, secrets taken out, to Anthropic"
    )
    assert "do not know where to" in Stranger(source="goose", provider="host.example").question
