"""Run the user's own commands over what an agent left behind, shut off from the network and from the rest of the disk.

The code they run was written by an agent under a rule nobody has read yet. They may read this machine, as they do when
the user runs them, and write in the workspace alone. They can make no socket but those of the internet's families,
which lead nowhere: a socket in the file system, such as Docker's or that of an agent for keys, would be a way out.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from skillopt_sleep.backends.process import Children, Ended
from skillopt_sleep.backends.workspace import Workspace
from skillopt_sleep.model.rollout import CheckCommand, CommandRun

Confine = Callable[[Sequence[str], Path, Path, Path], Sequence[str]]
"""From a command, the folders it may write in (workspace, scratch) and where it is to stand: the command, confined."""

TAIL = 600
"""Characters of the output of a command that are kept."""
PROOF_SECONDS = 20.0
PROOF = """
import pathlib, socket, sys
pathlib.Path("inside").touch()
try:
    pathlib.Path("../outside").touch()
except OSError:
    pass
for family, address in ((socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))), (getattr(socket, "AF_UNIX", 0), "../door")):
    try:
        socket.socket(family).connect(address)
    except OSError:
        pass
"""
"""What a sandbox must let through, and what it must not: a file outside, a server, and a socket in the file system."""

FAMILIES = (2, 10, 16)
"""The families of sockets that a command may make: both of the internet's, and that for asking the system about it."""
SYSTEMS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""Of each processor what it is called in a filter, and the number of the call that makes a socket."""
IO_URING = 425
"""The number of the call that sets up a queue, through which sockets could be made past any filter."""
OLD_CALLS = 0x40000000
"""Where the calls of a second kind begin, which do the same under other numbers."""
FILTER = "sockets.bpf"

KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "SYSTEMROOT"),
        *("JAVA_HOME", "GOROOT", "GOPATH", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "NODE_PATH", "VIRTUAL_ENV"),
        *("CONDA_PREFIX", "PYENV_ROOT", "RBENV_ROOT", "GEM_HOME", "DOTNET_ROOT", "ANDROID_HOME"),
    }
)
"""Of the environment, what says where tools are; nothing that could be a secret."""

ABOUT_THE_MACHINE = frozenset(
    {
        *("TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"),
        *("XDG_STATE_HOME", "DBUS_SESSION_BUS_ADDRESS"),  # a login may lie in a keyring
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
        *("USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "HOMEDRIVE", "HOMEPATH"),
        *("SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT"),
    }
)
"""What an agent's CLI needs besides, to find its login and its way out; in capitals here."""


def agent_environment(env: Mapping[str, str], *, own: tuple[str, ...], said: str = "") -> dict[str, str]:
    """What the CLI of an agent at work sees: where things are, what is its ``own`` by how the name begins, and what is
    named in ``said``, the settings its login rests on. No secret of the user's for anything else.
    """  # noqa: D205
    named = frozenset(re.findall(r"\w+", said))
    return {
        name: value
        for name, value in env.items()
        if name in KEPT or name in named or name.upper() in ABOUT_THE_MACHINE or name.startswith(("LC_", *own))
    }


def command_environment(env: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """What a command of the user's sees of the environment."""
    kept = {name: value for name, value in env.items() if name in KEPT or name.startswith("LC_")}
    return kept | {"TMPDIR": str(scratch), "XDG_CACHE_HOME": str(scratch / "cache"), "CI": "1"}


def bubblewrap(command: str) -> Confine:
    """Confine by bubblewrap, the program at the path ``command``. Raises ``OSError``."""

    def confine(argv: Sequence[str], workspace: Path, scratch: Path, cwd: Path) -> Sequence[str]:
        rules = scratch.parent / FILTER  # beyond the reach of what is confined
        rules.write_bytes(socket_filter(platform.machine()))
        return (
            *("sh", "-c", 'exec 9<"$0" "$@"', str(rules)),
            *(command, "--die-with-parent", "--new-session", "--unshare-net", "--unshare-pid", "--unshare-ipc"),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *("--bind", str(workspace), str(workspace), "--bind", str(scratch), str(scratch)),
            *("--seccomp", "9", "--chdir", str(cwd), "--", *argv),
        )

    return confine


def socket_filter(machine: str) -> bytes:
    """A filter of system calls, as Linux takes it, that refuses every socket but those of ``FAMILIES``.

    Pairs of sockets remain. Refuses all there is on a processor that is not known.
    """
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    allowed, refused = 0x7FFF0000, 0x00050001
    known, make_socket = SYSTEMS.get(machine, (0, 0))
    ahead = len(FAMILIES)
    steps = [
        (load, 0, 0, 4),
        (equal, 0, ahead + 7, known),
        (load, 0, 0, 0),
        (at_least, ahead + 5, 0, OLD_CALLS),
        (equal, ahead + 4, 0, IO_URING),
        (equal, 0, ahead + 2, make_socket),
        (load, 0, 0, 16),
        *((equal, ahead - number, 0, family) for number, family in enumerate(FAMILIES)),
        (end, 0, 0, refused),
        (end, 0, 0, allowed),
        (end, 0, 0, refused),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


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
        if not os.access(place.cwd, os.R_OK | os.X_OK):
            break  # the agent, or the command before, took away what they would stand in
        argv = confine([*shell, each.line], place.root, place.scratch, place.cwd)
        ended = children.run(argv, env=env, cwd=place.cwd, seconds=each.seconds)
        runs.append(_told(each, ended))
    return tuple(runs)


def proven(children: Children, confine: Confine, env: Mapping[str, str]) -> str:
    """Whether a sandbox really confines, tried out: "" when it does, else what went wrong, in a line."""
    with children.folder() as folder, _listening() as server, _door(folder) as door:
        workspace, scratch = folder / "workspace", folder / "tmp"
        workspace.mkdir()
        scratch.mkdir()
        port = str(server.getsockname()[1])
        argv = confine([sys.executable, "-I", "-S", "-c", PROOF, port], workspace, scratch, workspace)
        ended = children.run(argv, env=dict(env) | {"TMPDIR": str(scratch)}, cwd=workspace, seconds=PROOF_SECONDS)
        if (folder / "outside").exists():
            return "it lets a command write outside of its folder"
        if _called(server):
            return "it lets a command reach the network"
        if door is not None and _called(door):
            return "it lets a command reach programs outside, through a socket in the file system"
        if ended.status == 0 and (workspace / "inside").exists():
            return ""
        said = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        return said[-1][:200] if said else f"a command in it ended with status {ended.status}"


def _listening() -> socket.socket:
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0)
    return server


@contextlib.contextmanager
def _door(folder: Path) -> Iterator[socket.socket | None]:
    """A socket in a folder, None where this system has none, or none of so long a name."""
    if not hasattr(socket, "AF_UNIX"):
        yield None
        return
    handle = os.open(folder, os.O_RDONLY)
    place = Path(f"/proc/self/fd/{handle}") if sys.platform == "linux" else folder
    try:
        with socket.socket(socket.AF_UNIX) as door:
            try:
                door.bind(str(place / "door"))
                door.listen()
            except OSError:
                yield None
                return
            door.settimeout(0)
            yield door
    finally:
        os.close(handle)


def _called(server: socket.socket) -> bool:
    """Whether anybody has connected."""
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _told(command: CheckCommand, ended: Ended) -> CommandRun:
    tail = f"{ended.stdout}\n{ended.stderr}".strip()[-TAIL:]
    status = None if ended.timed_out or ended.flooded else ended.status
    return CommandRun(
        line=command.line, status=status, seconds=round(ended.seconds, 2), tail=tail, flooded=ended.flooded
    )
