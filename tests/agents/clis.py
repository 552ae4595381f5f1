"""The real agent CLIs that are tested: pinned, from npm, in a cache folder by version.

``python -m tests.agents.clis`` installs what is missing. The folder is ``$AGENT_CLIS``, else ``skillopt-sleep/agents``
in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PINNED = {
    "claude": ("@anthropic-ai/claude-code", ("2.1.197", "2.1.329")),
    "codex": ("@openai/codex", ("0.169.0",)),
}
"""The first version of each is the one everything is tested with; the others take part in the table of faults."""

CACHE = (
    Path(os.environ["AGENT_CLIS"])
    if os.environ.get("AGENT_CLIS")
    else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skillopt-sleep" / "agents"
)
"""The folder of all of them; looked up now, for every test has a home of its own."""


@dataclass(frozen=True)
class Cli:
    """One installed version of one agent CLI."""

    name: str
    version: str

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        return CACHE / f"{self.name}-{self.version}"

    @property
    def command(self) -> Path:
        """What a user would call."""
        return self.folder / "node_modules" / ".bin" / self.name

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


CLIS = tuple(Cli(name, version) for name, (_, versions) in PINNED.items() for version in versions)
FIRST = {name: Cli(name, versions[0]) for name, (_, versions) in PINNED.items()}


def install(cli: Cli) -> None:
    """Install one, whole or not at all; raises ``SystemExit`` with what went wrong."""
    if cli.command.exists():
        return
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("the agent CLIs come from npm, which is not installed: get Node.js 20 or newer")
    package = f"{PINNED[cli.name][0]}@{cli.version}"
    print(f"installing {package} into {cli.folder} ...", file=sys.stderr, flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=".installing-") as folder:
        done = subprocess.run(
            [npm, "install", "--prefix", folder, "--no-audit", "--no-fund", "--loglevel=error", package],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"npm could not install {package}: {done.stderr.strip()[-500:]}")
        if not cli.folder.exists():
            Path(folder).rename(cli.folder)
            Path(folder).mkdir()  # for its removal
    said = subprocess.run([cli.command, "--version"], capture_output=True, text=True, check=False)
    if cli.version not in said.stdout:
        shutil.rmtree(cli.folder)
        sys.exit(f"{package} was installed and does not run: {(said.stderr or said.stdout).strip()[-500:]}")


if __name__ == "__main__":
    for each in CLIS:
        install(each)
