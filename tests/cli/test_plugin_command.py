"""``plugin`` and the two plugins: thin, alike, and out again without a trace."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.fakes.program import ROOT

CLAUDE, CODEX = ROOT / "plugins" / "claude-code", ROOT / "plugins" / "codex"
ENGINE = CLAUDE / "skills" / "skillopt-sleep" / "scripts" / "engine.sh"
HOOK = CLAUDE / "hooks" / "waiting.sh"

AGENT = """#!/bin/sh
echo "$@" >> "$AGENT_LOG"
case "$*" in
    "plugin marketplace list"|"plugin list --json") cat "$AGENT_LOG.state" 2>/dev/null ;;
    "plugin install "*|"plugin add "*) echo skillopt-sleep > "$AGENT_LOG.state" ;;
    "plugin uninstall "*|"plugin remove "*) rm -f "$AGENT_LOG.state" ;;
esac
[ "$AGENT_FAILS" != "$2" ] || { echo "Error: it would not" >&2; exit 1; }
exit 0
"""
"""An agent CLI that keeps a log of what it was asked, and knows whether the plugin is in."""


@pytest.fixture
def agents(tmp_path, monkeypatch):
    """Both agent CLIs on the PATH; what each was asked."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    log = tmp_path / "asked"
    for name in ("claude", "codex"):
        (bin_ / name).write_text(AGENT.replace("$AGENT_LOG", f"{log}.{name}"))
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}{os.environ['PATH']}")
    return lambda name: Path(f"{log}.{name}").read_text().splitlines()


def everything(folder):
    """Every file below a folder, with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_plugin_in_and_out(cli, agents, agent, tmp_path):
    """The agent's own commands do it; afterwards home and data are as they were, and a second time says so."""
    home, data = Path(os.environ["HOME"]), tmp_path / "data"
    data.mkdir()
    before = everything(home), everything(data)
    done = cli("plugin", "install", agent, "--data-dir", data)
    assert (done.code, done.err) == (0, "")
    install = "install" if agent == "claude" else "add"
    assert agents(agent)[-2:] == [
        f"plugin marketplace add {data}/market",
        f"plugin {install} skillopt-sleep@skillopt-sleep",
    ]
    market = everything(data / "market")
    assert ".claude-plugin/marketplace.json" in market
    assert ".agents/plugins/marketplace.json" in market
    laid = everything(home).keys() - before[0].keys()
    skill = ".agents/skills/skillopt-sleep"
    assert laid == ({f"{skill}/SKILL.md", f"{skill}/scripts/engine.sh"} if agent == "codex" else set())
    done = cli("plugin", "uninstall", agent, "--data-dir", data)
    assert (done.code, done.err) == (0, "")
    assert (everything(home), everything(data)) == before
    assert not (home / ".agents").exists()
    assert "nothing to take out" in cli("plugin", "uninstall", agent, "--data-dir", data).out


def test_plugin_installed_again(cli, agents, tmp_path):
    """It is brought up to this version."""
    for _ in range(2):
        assert cli("plugin", "install", "codex", "--data-dir", tmp_path / "data").code == 0
    assert [line for line in agents("codex") if "remove" in line] == [
        "plugin remove skillopt-sleep@skillopt-sleep",
        "plugin marketplace remove skillopt-sleep",
    ]


def test_skill_of_that_name_that_is_not_ours(cli, agents, tmp_path):
    """Is neither overwritten nor removed."""
    skill = Path(os.environ["HOME"]) / ".agents" / "skills" / "skillopt-sleep" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_bytes(b"mine")
    done = cli("plugin", "install", "codex", "--data-dir", tmp_path / "data")
    assert (done.code, skill.read_bytes()) == (8, b"mine")
    skill.unlink()
    assert cli("plugin", "install", "codex", "--data-dir", tmp_path / "data").code == 0
    skill.write_bytes(b"mine now")
    done = cli("plugin", "uninstall", "codex", "--data-dir", tmp_path / "data")
    assert (done.code, skill.read_bytes()) == (0, b"mine now")
    assert "was changed since it was installed, and stays" in done.out


def test_agent_that_is_not_installed(cli, tmp_path, monkeypatch):
    """Exit 4 and one line."""
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli("plugin", "install", "claude", "--data-dir", tmp_path / "data")
    assert (done.code, "there is no `claude` on PATH" in done.refusal) == (4, True)


def test_agent_that_refuses(cli, agents, tmp_path, monkeypatch):
    """Its own words, one line."""
    monkeypatch.setenv("AGENT_FAILS", "marketplace")
    done = cli("plugin", "install", "claude", "--data-dir", tmp_path / "data")
    assert (done.code, done.refusal.endswith("refused: Error: it would not")) == (2, True)


def test_plugins_are_alike():
    """What both carry is one text; only the call and where the skill lies differ."""
    for name in ("hooks/waiting.sh", "hooks/hooks.json", "skills/skillopt-sleep/scripts/engine.sh"):
        assert (CLAUDE / name).read_bytes() == (CODEX / name).read_bytes()
    one, other = ((each / "skills/skillopt-sleep/SKILL.md").read_text().splitlines() for each in (CLAUDE, CODEX))
    assert len(one) == len(other)
    assert sum(a != b for a, b in zip(one, other, strict=True)) == 2
    manifests = [json.loads(next(each.glob(".*-plugin/plugin.json")).read_text()) for each in (CLAUDE, CODEX)]
    assert {each["version"] for each in manifests} == {__import__("skillopt_sleep").__version__}


def test_skill_names_only_commands_there_are():
    """Every action in the skill's table is a command of this program."""
    from skillopt_sleep.cli import COMMANDS

    table = [
        line.split("|")[2]
        for line in (CLAUDE / "skills/skillopt-sleep/SKILL.md").read_text().splitlines()
        if "| `" in line
    ]
    named = {part.strip().strip("`").split()[0] for cell in table for part in cell.split(",")}
    assert {"status", "insights", "run", "show", "adopt", "revert", "schedule", "doctor"} <= named
    assert named <= COMMANDS.keys()


def sh(script, *arguments, cwd=None, **environment):
    """Run one of the plugins' scripts in an environment of its own."""
    return subprocess.run(
        ["/bin/sh", script, *arguments], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "where",
    [
        "path/skillopt-sleep",
        "home/.local/bin/skillopt-sleep",
        "home/.local/share/uv/tools/skillopt-sleep/bin/skillopt-sleep",
        "home/.local/share/pipx/venvs/skillopt-sleep/bin/skillopt-sleep",
        "home/.local/pipx/venvs/skillopt-sleep/bin/skillopt-sleep",
    ],
    ids=["path", "local", "uv", "pipx", "old-pipx"],
)
def test_engine_is_found(tmp_path, where):
    """Wherever an installer puts it; arguments and exit code pass through."""
    engine = tmp_path / where
    engine.parent.mkdir(parents=True)
    engine.write_text('#!/bin/sh\nprintf "%s|" "$@"\nexit 5\n')
    engine.chmod(0o755)
    done = sh(ENGINE, "show", "a b", HOME=str(tmp_path / "home"), PATH=f"{tmp_path / 'path'}:/usr/bin:/bin")
    assert (done.returncode, done.stdout) == (5, "show|a b|")


def test_engine_is_not_installed(tmp_path):
    """One line that says how to install it."""
    done = sh(ENGINE, "status", HOME=str(tmp_path), PATH=str(tmp_path))
    assert done.returncode == 127
    assert done.stderr == (
        "skillopt-sleep is not installed: uv tool install skillopt-sleep (or: pipx install skillopt-sleep)\n"
    )


def test_waiting_proposal_is_announced(cli, mira, tmp_path):
    """A line while a proposal waits, in its own project only, and none once it is adopted or the setting is off."""
    home = tmp_path / "home"
    data = home / ".local/share/skillopt-sleep"
    data.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    places = [each for each in mira.places if "data-dir" not in each] + [f"--data-dir={data}"]

    def hook(project):
        done = sh(HOOK, cwd=project, HOME=str(home), PATH="/usr/bin:/bin")
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert hook(mira.project) == ""
    assert cli(*mira.arguments("run"), f"--data-dir={data}").code == 0
    assert "waits for the user's word" in hook(mira.project)
    assert hook(tmp_path / "elsewhere") == ""
    assert cli("adopt", *places).code == 0
    assert hook(mira.project) == ""
    assert cli("revert", *places).code == 0
    again = cli(*mira.arguments("run"), f"--data-dir={data}", "--set=announce=false")
    assert (again.code, hook(mira.project)) == (0, "")
