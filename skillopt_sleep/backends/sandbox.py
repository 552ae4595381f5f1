"""Run the user's own commands over what an agent left behind, shut off from the network and from the rest of the disk.

The code they run was written by an agent under a rule nobody has read yet. They may read this machine, as they do when
the user runs them, and write in the workspace alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from skillopt_sleep.backends.process import Children, Ended
from skillopt_sleep.backends.workspace import Workspace
from skillopt_sleep.domain.assignment import CheckCommand, CommandRun

__all__ = ["Confine", "bubblewrap", "command_environment", "proven", "run_commands"]

Confine = Callable[[Sequence[str], Path, Path, Path], Sequence[str]]
"""From a command, the folders it may write in (workspace, scratch) and where it is to stand: the command, confined."""

TAIL = 600
"""Characters of the output of a command that are kept."""
PROOF_SECONDS = 20.0
PROOF = "touch inside && ! touch ../outside 2>/dev/null"
"""What a sandbox must let through, and what it must not."""

KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "SYSTEMROOT"),
        *("JAVA_HOME", "GOROOT", "GOPATH", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "NODE_PATH", "VIRTUAL_ENV"),
        *("CONDA_PREFIX", "PYENV_ROOT", "RBENV_ROOT", "GEM_HOME", "DOTNET_ROOT", "ANDROID_HOME"),
    }
)
"""Of the environment, what says where tools are; nothing that could be a secret."""


def command_environment(env: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """What a command of the user's sees of the environment."""
    kept = {name: value for name, value in env.items() if name in KEPT or name.startswith("LC_")}
    return kept | {"TMPDIR": str(scratch), "XDG_CACHE_HOME": str(scratch / "cache"), "CI": "1"}


def bubblewrap(command: str) -> Confine:
    """Confine by bubblewrap, the program at the path ``command``."""

    def confine(argv: Sequence[str], workspace: Path, scratch: Path, cwd: Path) -> Sequence[str]:
        return (
            *(command, "--die-with-parent", "--new-session", "--unshare-net", "--unshare-pid", "--unshare-ipc"),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *("--bind", str(workspace), str(workspace), "--bind", str(scratch), str(scratch)),
            *("--chdir", str(cwd), "--", *argv),
        )

    return confine


def run_commands(
    commands: Sequence[CheckCommand],
    place: Workspace,
    confine: Confine,
    children: Children,
    env: Mapping[str, str],
) -> tuple[CommandRun, ...]:
    """Run each command in the workspace, one after the other. Raises ``TimedOut`` when the children are closed."""
    shell = ("bash", "-c") if sys.platform != "win32" else ("cmd", "/c")
    runs = []
    for each in commands:
        argv = confine([*shell, each.line], place.root, place.scratch, place.cwd)
        ended = children.run(argv, env=env, cwd=place.cwd, seconds=each.seconds)
        runs.append(_told(each, ended))
    return tuple(runs)


def proven(children: Children, confine: Confine, env: Mapping[str, str]) -> str:
    """Whether a sandbox really confines, tried out: "" when it does, else what went wrong, in a line."""
    with children.folder() as folder:
        workspace, scratch = folder / "workspace", folder / "tmp"
        workspace.mkdir()
        scratch.mkdir()
        argv = confine(["sh", "-c", PROOF], workspace, scratch, workspace)
        ended = children.run(argv, env=dict(env) | {"TMPDIR": str(scratch)}, cwd=workspace, seconds=PROOF_SECONDS)
        if (folder / "outside").exists():
            return "it lets a command write outside of its folder"
        if ended.status == 0 and (workspace / "inside").exists():
            return ""
        said = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        return said[-1][:200] if said else f"a command in it ended with status {ended.status}"


def _told(command: CheckCommand, ended: Ended) -> CommandRun:
    tail = f"{ended.stdout}\n{ended.stderr}".strip()[-TAIL:]
    status = None if ended.timed_out else ended.status or (1 if ended.flooded else 0)
    return CommandRun(line=command.line, status=status, seconds=round(ended.seconds, 2), tail=tail)
