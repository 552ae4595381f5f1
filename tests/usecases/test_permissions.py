"""Sessions are sent to no provider that has not had them before, unless the user agreed."""

from __future__ import annotations

import pytest

from skillopt_sleep.usecases.permissions import NewReceiver, new_receivers


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
def test_receiver_is_new_unless_it_has_the_sessions_or_the_user_agreed(sources, providers, agreed, expected):
    """This machine, the provider "", is never new."""
    assert [(each.source, each.provider) for each in new_receivers(sources, providers, agreed)] == expected


def test_question_names_both_providers():
    """It says whose sessions they are, who has them, and who would get them."""
    assert NewReceiver(source="codex", provider="anthropic").question == (
        "your Codex sessions went to OpenAI; this backend would send words of them, secrets taken out, to Anthropic"
    )
    unknown = NewReceiver(source="goose", provider="host.example").question
    assert "we cannot tell which provider has your goose sessions" in unknown
