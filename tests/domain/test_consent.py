"""Who is a stranger to a person's sessions is decided by where these have gone."""

from __future__ import annotations

import pytest

from skillopt_sleep.domain.consent import Stranger, strangers


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


def test_question():
    """It says whose sessions, whom they went to, and whom they would go to."""
    assert Stranger(source="codex", provider="anthropic").question == (
        "your codex sessions went to OpenAI; this backend would send words of them, secrets taken out, to Anthropic"
    )
    assert "do not know where to" in Stranger(source="goose", provider="host.example").question
