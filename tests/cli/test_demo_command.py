"""``demo``: a whole night for somebody who has nothing yet, in a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.diagnostics import check_schema


def test_demo_ends_with_a_verdict(cli, tmp_path):
    """Without key, account or settings: a rule that is proven, a report, its diagnosis, and how to continue."""
    done = cli("demo", "--folder", tmp_path / "demo")
    assert done.code == 0
    assert done.out.startswith("In this demo: 1 rule is proven")
    (path,) = (tmp_path / "demo").rglob("diagnostics.json")
    assert str(path) in done.out
    assert done.err.startswith(f"A night on the bundled sample sessions, in {tmp_path / 'demo'}.")


@pytest.mark.slow
def test_demo_as_json(cli, tmp_path):
    """The diagnosis, and nothing else on stdout; no rule is written from what was said about a test's request."""
    report = cli("demo", "--folder", tmp_path / "demo", "--json").json
    check_schema(report)
    plain = [label for label in report["tasks"] if not label["moment"]]
    for moment in (label for label in report["tasks"] if label["moment"]):
        about = [label for label in plain if moment["origins"][0] in label["origins"]]
        assert not any(moment["intent"] in label["words"] for label in about), "a test would teach its own correction"
    assert {each["backend"] for each in report["backends"]} == {"simulated"}


@pytest.mark.slow
def test_demo_can_be_played_with(cli, tmp_path):
    """What it proposes can be adopted, and reverted like any other change."""
    home = tmp_path / "demo"
    cli("demo", "--folder", home)
    here = [f"--project={home / 'project'}", f"--data-dir={home / 'data'}"]
    assert cli("adopt", *here).code == 0
    for name in ("CLAUDE.md", "AGENTS.md"):  # her sessions are of both agents, so what is proven lands for both
        assert "YYYY-MM-DD" in (home / "project" / name).read_text()
    assert cli("revert", *here).code == 0
    assert not list((home / "project").glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("setting", ['target_backend = "claude"\nmax_calls = 1', 'backend = "clade"', "no TOML"])
def test_demo_is_not_what_the_user_set(cli, tmp_path, monkeypatch, setting):
    """A real agent in the settings, or a mistake in them, is nothing to a demo."""
    path = tmp_path / "settings.toml"
    path.write_text(setting)
    monkeypatch.setenv("SKILLOPT_SLEEP_SETTINGS", str(path))
    monkeypatch.setenv("SKILLOPT_SLEEP_OPTIMIZER_BACKEND", "codex")
    report = cli("demo", "--folder", tmp_path / "demo", "--json").json
    assert {each["backend"] for each in report["backends"]} == {"simulated"}
    assert report["verdict"] == "accept"


@pytest.mark.slow
def test_demo_touches_its_folder_alone(cli, tmp_path):
    """By default a cache folder; the second one takes the place of the first."""
    home = Path(os.environ["HOME"])
    assert cli("demo").code == 0
    (first,) = home.rglob("diagnostics.json")
    assert cli("demo").code == 0
    (second,) = home.rglob("diagnostics.json")
    assert first != second
    made = {path for path in home.rglob("*") if path.is_file()}
    assert {path.relative_to(home).parts[:2] for path in made} == {(".cache", "skillopt-sleep")}
    assert list(tmp_path.iterdir()) == []


def test_demo_empties_no_folder_that_it_did_not_make(cli, tmp_path):
    """Exit 8, and what was there is there."""
    (tmp_path / "mine").write_text("precious")
    done = cli("demo", "--folder", tmp_path)
    assert done.code == 8
    assert str(tmp_path) in done.refusal
    assert (tmp_path / "mine").read_text() == "precious"


def test_demo_where_nothing_can_be_written(cli, tmp_path):
    """Exit 7, one line."""
    (tmp_path / "file").touch()
    done = cli("demo", "--folder", tmp_path / "file" / "demo")
    assert done.code == 7
    assert "--folder" in done.refusal
