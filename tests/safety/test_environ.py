"""Which environment variables hold secrets."""

from __future__ import annotations

import pytest

from skillopt_sleep.safety.receivers import is_secret_name, is_worth_hiding


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "PGPASSWORD",
        "STRIPE_KEY",
        "OPENAI_API_KEY",
        "APIKEY",
        "SMTP_PASS",
        "npm_token",
        "SESSION_COOKIE",
        "SENTRY_DSN",
        "JWT_PRIVATE_KEY",
        "VAULT_CREDENTIALS",
        "SLACK_WEBHOOK_URL2",
        "GPG_PASSPHRASE",
    ],
)
def test_names_that_say_secret(name):
    """Words for secrets are recognised in any case and anywhere in the name."""
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "KEYBOARD",
        "GPG_KEY",
        "AWS_ACCESS_KEY_ID",
        "SSH_PUBLIC_KEY",
        "TOKENIZERS_PARALLELISM_TYPE",
        "EDITOR",
        "PASSAGE",
    ],
)
def test_names_that_say_nothing(name):
    """A variable about a key, such as its path, holds no secret."""
    assert not is_secret_name(name)


@pytest.mark.parametrize("value", ["kite-42-blue", "aGVsbG8gd29ybGQ=", "correct horse 9", "postgres://u:p@h/db"])
def test_values_worth_hiding(value):
    """Such values are searched for in texts."""
    assert is_worth_hiding(value)


@pytest.mark.parametrize(
    "value", ["", "short1", "swordfish", "20240101", "1.25e", "/run/secrets/x1", "~/key.pem", "C:\\keys\\a1"]
)
def test_values_found_everywhere(value):
    """Short values, words, numbers and paths are ignored."""
    assert not is_worth_hiding(value)
