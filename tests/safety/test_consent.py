"""Which provider answers at an address."""

from __future__ import annotations

import pytest

from skillopt_sleep.safety.receivers import identify_provider


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
    """A provider is recognised only by its own host; an unreadable address is a stranger."""
    expected = "api.openai.com.evil.example" if expected == "evil-is-no-prefix" else expected
    assert identify_provider(url) == expected
