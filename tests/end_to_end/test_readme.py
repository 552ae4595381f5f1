"""Every command of the README, as it is printed and in its order, on a home with nothing in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.fakes.cli import make_cli
from tests.fakes.home import make_person
from tests.fakes.program import ROOT
from tests.fakes.system import make_system

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text()
COMMANDS = ("bash", "uv", "pipx", "python3", "uvx", "skillopt-sleep", "eval")
FOREGROUND = "skillopt-sleep daemon"
"""It runs until it is stopped."""
MINUTE = ("skillopt-sleep insights", "skillopt-sleep doctor", "skillopt-sleep dry-run")


def read_blocks():
    """The blocks of commands; a block begins with one, or is what a program prints."""
    blocks = re.findall(r"^```\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return [block.splitlines() for block in blocks if block.split(maxsplit=1)[0] in COMMANDS]


def read_installs():
    """Each line that installs the program."""
    return [line for lines in read_blocks() for line in lines if re.match(r"(uv tool|pipx|python3 -m venv)\b", line)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The repository as somebody else gets it, and the installers they have."""
    folder = tmp_path_factory.mktemp("clone")
    subprocess.run(["git", "clone", "--quiet", ROOT, folder / "clone"], check=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "tools"], check=True)
    done = subprocess.run([folder / "tools/bin/pip", "install", "--quiet", "uv", "pipx"], check=False)
    if done.returncode:
        pytest.skip("no index to install uv and pipx from")
    for name in ("uv", "uvx", "pipx"):
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / name).symlink_to(folder / "tools" / "bin" / name)
    return folder


class Newcomer:
    """Somebody with Python, sessions of Claude Code, and nothing of ours."""

    def __init__(self, folder, clone):
        self.clone, self.home, self.person = clone / "clone", folder / "home", make_person(folder / "mira")
        (self.home / ".claude").mkdir(parents=True)
        shutil.copytree(self.person.claude / "projects", self.home / ".claude" / "projects")
        claude = make_cli(folder / "agent", "claude")
        claude.behave(on="--version", stdout="2.1.197 (Claude Code)")
        claude.behave(on="auth status", stdout='{"loggedIn": true}')
        claude.behave(on="plugin marketplace", stdout="[]")
        claude.behave(on="plugin list", stdout="[]")
        claude.behave(on="-p", world=str(self.person.folder / "world.json"))
        system = make_system(folder / "system", self.home, "crontab")
        parts = [self.home / ".local/bin", clone / "bin", claude.folder, system.path.split(os.pathsep)[0]]
        path = os.pathsep.join([*map(str, parts), "/usr/local/bin", "/usr/bin", "/bin"])
        python = shutil.which("python3", path=path) or ""
        if subprocess.run(
            [python, "-c", "import sys, venv, ensurepip; assert sys.version_info >= (3, 11)"],
            capture_output=True,
            check=False,
        ).returncode:
            (folder / "python").mkdir()
            (folder / "python" / "python3").symlink_to(sys._base_executable)
            path = f"{folder / 'python'}{os.pathsep}{path}"
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_", "HTTP"))}
        self.env = {**kept, "HOME": str(self.home), "PATH": path, "COLUMNS": "100", "TERM": "dumb", "LANG": "C.UTF-8"}

    def type(self, line, *, project=True, seconds=600):
        """Type a line into a shell, standing in her project or in the clone."""
        return subprocess.run(
            ["bash", "-c", line], env=self.env, cwd=self.person.project if project else self.clone,
            capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def newcomer(tmp_path, clone):
    return Newcomer(tmp_path, clone)


def test_every_block_is_known():
    """A block that is not run here is what a program prints; each of the commands is in one."""
    typed = "\n".join(line for lines in read_blocks() for line in lines)
    for name in ("setup", "insights", "doctor", "run", "status", "show", "adopt", "revert", "schedule", "uninstall"):
        assert f"skillopt-sleep {name}" in typed
    assert len(read_installs()) == 3


@pytest.mark.parametrize("line", [*read_installs(), "uv tool install git+file://CLONE"])
def test_first_minute_however_it_is_installed(newcomer, line):
    """The command is on the PATH, and the three commands of the first minute work as printed."""
    done = newcomer.type(line.replace("CLONE", str(newcomer.clone)), project=False)
    assert done.returncode == 0, done.stderr
    assert (newcomer.home / ".local" / "bin" / "skillopt-sleep").exists()
    for command in MINUTE:
        (printed,) = [other for lines in read_blocks() for other in lines if other.startswith(command)]
        done = newcomer.type(printed)
        assert done.returncode == 0, (printed, done.stdout, done.stderr)
        assert "insights" not in command or "No, " in done.stdout


def test_every_command_in_order(newcomer):
    """All that is printed, from the demo to uninstalling; each ends well (`try` may find too few tasks to tell)."""
    rule, ran = newcomer.person.world.rules[0].text.split()[0], []
    lines = [line for lines in read_blocks() for line in lines if line not in read_installs()]
    assert newcomer.type(read_installs()[0], project=False).returncode == 0
    for line in lines:
        in_clone = line.startswith(("bash", "uvx"))
        typed = line.replace('"RULE"', f'"{rule}"').replace("skillopt-sleep setup ", "skillopt-sleep setup --yes ")
        if line.split("#")[0].strip() == FOREGROUND:
            typed = "timeout --signal=TERM 5 " + typed
        if line.startswith("skillopt-sleep try"):  # a file that she has already
            (newcomer.person.project / "CLAUDE.md").write_text("# Rules\n\n- Answer in English.\n")
        done = newcomer.type(typed, project=not in_clone)
        expected = {0, 124} if line.startswith(FOREGROUND) else {0, 5} if " try" in line else {0}
        assert done.returncode in expected, (line, done.returncode, done.stdout[-1500:], done.stderr)
        ran.append(line)
    assert len(ran) > 18
