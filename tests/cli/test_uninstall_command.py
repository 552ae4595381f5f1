"""``uninstall``: nothing of it stays but what is listed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.fakes.program import ROOT


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with an agent on PATH that takes any plugin, a crontab, and no systemd."""
    home = Path(os.environ["HOME"])
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    table = tmp_path / "crontab"
    table.write_text("# mine\n0 1 * * * true\n")
    scripts = {
        "crontab": f'#!/bin/sh\n[ "$1" = -l ] && exec cat {table}\ncat "$@" > {table}\n',
        "claude": '#!/bin/sh\nf="$HOME/../claude-state"\ncase "$*" in *"plugin install"*) echo skillopt-sleep > "$f" ;;'
        ' *"plugin uninstall"*) rm -f "$f" ;; *list*) cat "$f" 2>/dev/null ;; esac\nexit 0\n',
    }
    for name, text in scripts.items():
        (bin_ / name).write_text(text)
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return home, table


def everything(*folders):
    """Every file and folder below, with its bytes."""
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for folder in folders
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
    }


def test_all_of_it(cli, mira, home):
    """After plugins, a schedule, a night and an adoption: home, project, crontab are as they were before."""
    folder, table = home
    before, cron = everything(folder, mira.project), table.read_bytes()
    assert cli("plugin", "install", "claude", "--data-dir", mira.data).code == 0
    scheduled = cli("schedule", "--using=cron", "--at=03:10", *mira.arguments())
    assert scheduled.code == 0, scheduled.err
    assert table.read_bytes() != cron
    assert cli(*mira.arguments("run")).code == 0
    assert cli("adopt", *mira.places).code == 0
    done = cli("uninstall", "--rules", "--data", "--yes", "--data-dir", mira.data)
    assert (done.code, done.err) == (0, "")
    assert everything(folder, mira.project) == before
    assert table.read_bytes() == cron
    assert not mira.data.exists()
    assert done.out.splitlines()[-2:] == [
        "Kept on purpose:",
        "  the program itself: uv tool, pipx or pip, whichever installed it, with: uninstall skillopt-sleep",
    ]


def test_without_being_asked_for_more(cli, mira, home):
    """Rules and data stay, each listed with the way to remove it."""
    cli(*mira.arguments("run"))
    cli("adopt", *mira.places)
    before = everything(mira.project)
    done = cli("uninstall", "--data-dir", mira.data)
    assert done.code == 0
    assert everything(mira.project) == before
    assert "the adopted rules: skillopt-sleep uninstall --rules" in done.out
    assert f"what nights have learnt, {mira.data}: skillopt-sleep uninstall --data" in done.out


def test_data_that_adopted_rules_need(cli, mira, home):
    """Is not deleted while they are live: without it nothing could undo them."""
    cli(*mira.arguments("run"))
    cli("adopt", *mira.places)
    done = cli("uninstall", "--data", "--yes", "--data-dir", mira.data)
    assert done.code == 8
    assert "adopted rules are live" in done.err
    assert (mira.data / "sleep.db").exists()


def test_rule_changed_by_hand(cli, mira, home):
    """Stays, and is named; the others go."""
    report = cli(*mira.arguments("run", "--json")).json
    cli("adopt", *mira.places)
    path = Path(report["documents"][0]["path"])
    text = report["applied_edits"][0]["edit"]["text"].encode()
    path.write_bytes(path.read_bytes().replace(text, text + b" (or not)"))
    done = cli("uninstall", "--rules", "--data-dir", mira.data)
    assert done.code == 0
    assert f"the rules of night {report['night']}" in done.out
    assert path.exists()


def test_nothing_there(cli, mira, home):
    """Said, and nothing is made."""
    done = cli("uninstall", "--data-dir", mira.data)
    assert done.code == 0
    assert "there was nothing to take away" in done.out


def test_manifests_are_json():
    """Both marketplaces name a plugin folder that is there."""
    claude = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text())
    codex = json.loads((ROOT / ".agents" / "plugins" / "marketplace.json").read_text())
    assert (ROOT / claude["plugins"][0]["source"]).is_dir()
    assert (ROOT / codex["plugins"][0]["source"]["path"]).is_dir()
