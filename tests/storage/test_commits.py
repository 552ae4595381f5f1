"""Which commit a project was at, asked without touching it."""

from __future__ import annotations

import os

import pytest

from skillopt_sleep.storage.projects import find_commit, is_git_project
from tests.fakes.repository import commit, git, make_project, tree

ENV = dict(os.environ)


@pytest.fixture
def project(tmp_path):
    """Three commits, one a year."""
    folder = make_project(tmp_path / "project", a="1\n")
    for year in ("2021", "2022"):
        commit(folder, a=f"{year}\n", at=f"{year}-01-01T00:00:00Z")
    return folder


def subject(project, name):
    return git(project, "log", "-1", "--format=%ad", "--date=format:%Y", name)


MOMENTS = {
    "between two": ("2021-06-01T12:00:00Z", "2021"),
    "after the last": ("2030-01-01T00:00:00.123Z", "2022"),
    "before the first": ("2000-01-01T00:00:00Z", "2022"),
    "unknown": ("", "2022"),
    "none": ("yesterday; touch /tmp/x", "2022"),
}


@pytest.mark.parametrize(("at", "year"), MOMENTS.values(), ids=MOMENTS)
def test_last_commit_before_the_session(project, at, year):
    """Else where the project is now."""
    assert subject(project, find_commit(project, ENV, at=at)) == year


def test_commit_of_the_session_itself(project):
    """Where the project has it; a name that is no commit is never handed to git."""
    first = git(project, "rev-list", "--max-parents=0", "HEAD")
    assert find_commit(project, ENV, commit=first) == first
    for odd in ("0" * 40, "HEAD~1", "--all", first[:7]):
        assert subject(project, find_commit(project, ENV, commit=odd)) == "2022"


def test_last_commit_of_the_branch_before_a_moment(project):
    """A session goes on after the commit it began at; a branch that is gone, or no name of one, changes nothing."""
    first = git(project, "rev-list", "--max-parents=0", "HEAD")
    git(project, "switch", "-q", "-c", "cache", first)
    for year in ("2023", "2025"):
        commit(project, b=year, at=f"{year}-05-01T00:00:00Z")
    git(project, "switch", "-q", "-")

    def found(**asked):
        return subject(project, find_commit(project, ENV, at="2024-01-01T00:00:00Z", **asked))

    assert found(branch="cache") == "2023"
    assert found(branch="cache", commit=first) == "2023"
    for odd in ("gone", "--all", "../heads/cache", ""):
        assert found(branch=odd) == "2022"
    git(project, "update-ref", "refs/remotes/origin/theirs", "cache")
    assert found(branch="theirs") == "2023"


def test_asking_touches_nothing(project, tmp_path):
    """No hook or monitor of the project runs, no index is refreshed."""
    git(project, "config", "core.fsmonitor", f"touch {tmp_path}/ran")
    before = tree(project)
    assert is_git_project(project, ENV)
    assert find_commit(project, ENV)
    assert tree(project) == before
    assert not (tmp_path / "ran").exists()


def test_what_is_no_project_of_git(project, tmp_path):
    """A folder in one, an empty one, a plain folder, one that is not there."""
    (project / "inside").mkdir()
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    for folder in (project / "inside", empty, tmp_path, tmp_path / "none"):
        assert not is_git_project(folder, ENV)
    assert find_commit(empty, ENV) == ""
