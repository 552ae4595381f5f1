"""A bad address or key is named in an error, and no secret in it is ever shown."""

from __future__ import annotations

import pytest

from skillopt_sleep.backends.openai import OpenAIBackend
from skillopt_sleep.backends.openai_api import read_reply
from skillopt_sleep.errors import NotLoggedIn, RateLimited, SettingsError, TimedOut
from skillopt_sleep.model.call import Bounds, Prompt
from skillopt_sleep.safety.receivers import hide_secrets
from tests.backends.test_openai import FakeApi, api, refused

__all__ = ["api"]
PROMPT = Prompt(system="s", user="u")


@pytest.mark.parametrize(
    "url",
    ["http://localhost:99999/v1", "http://localhost:x/v1", "http://[::1/v1", "https://", "  ", "ftp://me:secret@x/v1"],
)
def test_address_that_is_none(url):
    """A bad address is refused in one line when the backend is built, without its password."""
    with pytest.raises(SettingsError, match=r"\[backends.openai\] base_url is") as caught:
        OpenAIBackend(model="m", base_url=url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["schlüssel-geheim", "geheim\nzwei", "geheim zwei", "geheim\x00"])
def test_key_that_none_can_be(api: FakeApi, key):
    """A bad key is refused by the name of its variable, and nothing is sent."""
    backend = OpenAIBackend(model="m", base_url=api.url, env={"OPENAI_API_KEY": key})
    with pytest.raises(NotLoggedIn, match="the key in OPENAI_API_KEY contains") as caught:
        backend.complete(PROMPT)
    health = backend.probe()
    assert (health.ready, health.logged_in) == (False, False)
    assert "geheim" not in str(caught.value) + health.detail
    assert (api.seen, api.listed) == ([], [])
    backend.close()


def test_secrets_in_an_address_are_shown_to_nobody(api: FakeApi):
    """No message contains a secret of the address."""
    assert hide_secrets("https://me:hunter2@host:1/v1?sig=abc#x") == "https://host:1/v1"
    assert hide_secrets("https://host/a@b?c") == "https://host/a@b"
    url = api.url.replace("http://", "http://me:hunter2@")
    backend = OpenAIBackend(model="m", base_url=f"{url}?sig=hunter2", env={"OPENAI_API_KEY": "k"})
    health = backend.probe()
    gone = OpenAIBackend(model="m", base_url="http://me:hunter2@127.0.0.1:9/v1", env={"OPENAI_API_KEY": "k"}).probe()
    assert (health.ready, gone.ready) == (True, False)
    assert "hunter2" not in backend.sees + backend.provider + health.version + health.detail + gone.detail
    backend.close()


def test_version_behind_the_question_mark(api: FakeApi):
    """The query of the address goes with every request, and the key where Azure reads it."""
    url = api.url.replace("/v1", "/openai/deployments/d?api-version=2024-06-01")
    backend = OpenAIBackend(model="m", base_url=url, env={"OPENAI_API_KEY": "k"})
    backend.complete(PROMPT)
    (path, headers, _), *_ = api.seen
    assert path == "/openai/deployments/d/chat/completions?api-version=2024-06-01"
    assert headers["api-key"] == "k"
    backend.close()


def test_organization_of_this_programs_own_environment(api: FakeApi, monkeypatch):
    """The environment of this program is not read: nothing of it is sent."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-x")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-x")
    backend = OpenAIBackend(model="m", base_url=api.url, env={"OPENAI_API_KEY": "k"})
    backend.complete(PROMPT)
    (_, headers, _), *_ = api.seen
    assert not {name for name, value in headers.items() if value in {"org-x", "proj-x"}}
    backend.close()


@pytest.mark.parametrize(
    ("again", "date", "seconds"),
    [
        ("Wed, 21 Oct 2026 07:28:30 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2026 07:28:30 GMT", "", None),
        ("soon", "Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_retry_after_that_is_a_date(again, date, seconds):
    """A date in retry-after is relative to the answer's own date, whatever our clock says."""
    answer = refused(429, "slow down", retry_after=again)
    answer = type(answer)(status=429, content=answer.content, retry_after=again, date=date)
    with pytest.raises(RateLimited) as caught:
        read_reply(answer, PROMPT, model="m", latency=1.0)
    assert caught.value.retry_after == seconds


def test_deadline_is_what_is_left_of_the_minutes(api: FakeApi):
    """A call begun shortly before the cap does not outlast it by its own deadline."""
    api.answers = []
    backend = OpenAIBackend(model="m", base_url=api.url, env={"OPENAI_API_KEY": "k"})
    with pytest.raises(TimedOut, match=r"within 0\.3 s"):
        backend.complete(Prompt(system="", user="u", within=Bounds(seconds=0.3)))
    backend.close()
