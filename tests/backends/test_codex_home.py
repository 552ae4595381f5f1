"""Codex gets a home that contains a link to the user's login, and nothing else of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillopt_sleep.backends.codex_home import CodexHome, find_codex_home
from skillopt_sleep.errors import TimedOut


@pytest.fixture
def users(tmp_path) -> Path:
    """A user's Codex home."""
    home = tmp_path / ".codex"
    home.mkdir()
    (home / "auth.json").write_text("token 1")
    (home / "AGENTS.md").write_text("rules")
    return home


@pytest.fixture
def own():
    """Our home."""
    home = CodexHome()
    yield home
    home.close()


def test_home_of_the_user():
    """``CODEX_HOME`` first, else the place below ``HOME``."""
    assert find_codex_home({"CODEX_HOME": "/c", "HOME": "/h"}) == Path("/c")
    assert find_codex_home({"HOME": "/h"}) == Path("/h/.codex")


def test_login_is_linked_and_nothing_else(users, own, tmp_path):
    """A login that Codex renews is written to the user's file."""
    env = own.build_environment({"HOME": str(tmp_path), "A": "1"})
    home = Path(env["CODEX_HOME"])
    assert [path.name for path in home.iterdir()] == ["auth.json"]
    assert (home / "auth.json").is_symlink()
    (home / "auth.json").write_text("token 2")
    assert (users / "auth.json").read_text() == "token 2"
    assert (env["A"], env["HOME"]) == ("1", str(home.parent))


def test_home_is_shared_and_removed(users, own, tmp_path):
    """All calls share one home; removing it keeps the user's login."""
    env = {"HOME": str(tmp_path)}
    first = own.build_environment(env)
    assert own.build_environment(env) == first
    own.close()
    own.close()
    assert not Path(first["HOME"]).exists()
    assert (users / "auth.json").read_text() == "token 1"
    with pytest.raises(TimedOut):
        own.build_environment(env)


def test_user_who_is_logged_out(own, tmp_path):
    """Without a login there is no link until the user logs in."""
    env = {"HOME": str(tmp_path)}
    home = Path(own.build_environment(env)["CODEX_HOME"])
    assert not list(home.iterdir())
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "auth.json").write_text("token 1")
    own.build_environment(env)
    assert (home / "auth.json").read_text() == "token 1"


@pytest.mark.parametrize("then", ["next call", "close"])
def test_login_that_replaces_the_link(users, own, tmp_path, then):
    """A login written in place of the link is moved back to the user, as private as before."""
    env = {"HOME": str(tmp_path)}
    link = Path(own.build_environment(env)["CODEX_HOME"]) / "auth.json"
    renewed = link.with_name("new")
    renewed.write_text("token 2")
    renewed.replace(link)
    if then == "close":
        own.close()
    else:
        own.build_environment(env)
        assert link.is_symlink()
    assert (users / "auth.json").read_text() == "token 2"
    assert (users / "auth.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in users.iterdir()) == ["AGENTS.md", "auth.json"]
