"""How long commands take to start, beside a bare interpreter, in turn so that a noisy machine is noisy for all.

`harvest` runs where a person's sessions lie and all of them have been read before, as it does on most nights; nobody
corrected anything in them, or their steps would be read a few at a time.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.model.session import Feedback
from tests.benchmarks.session_files import claude_lines, claude_path
from tests.benchmarks.worlds import make_sessions, make_world

BARE = "bare interpreter"
PROGRAM = (sys.executable, "-m", "skillopt_sleep")
COMMANDS: Mapping[str, Sequence[str]] = {
    BARE: (sys.executable, "-c", "pass"),
    "--version": (*PROGRAM, "--version"),
    "--help": (*PROGRAM, "--help"),
    "status": (*PROGRAM, "status"),
    "harvest": (*PROGRAM, "harvest", "--scope", "all"),
}


class Start(Struct, frozen=True, kw_only=True):
    """Wall milliseconds of one command over the runs; the last two are medians above those of another command's."""

    command: str
    fastest: float
    median: float
    over_bare: float
    over_version: float


def write_sessions(home: Path, files: int, *, corrected: bool = True) -> None:
    """That many small Claude Code sessions below a home folder, with corrections in them or without."""
    for session in make_sessions(make_world(1, rules=1, tasks_per_rule=files), 1, tasks_per_session=1):
        path = home / ".claude" / claude_path(session)
        path.parent.mkdir(parents=True, exist_ok=True)
        turns = tuple(turn for turn in session.turns if corrected or turn.feedback is not Feedback.CORRECTION)
        path.write_bytes(b"".join(claude_lines(replace(session, turns=turns))))


def start(command: Sequence[str], home: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of this checkout to its end, in a home folder that is also the working folder."""
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, cwd=home, env=env, capture_output=True, check=True, text=True)


def measure(home: Path, runs: int) -> tuple[Start, ...]:
    """Run each command ``runs`` times, A B C A B C …; the first round fills caches and is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs + 1):
        for name, command in COMMANDS.items():
            started = time.perf_counter()
            start(command, home)
            taken[name].append(1000 * (time.perf_counter() - started))
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    return tuple(
        Start(
            command=name,
            fastest=min(times[1:]),
            median=medians[name],
            over_bare=medians[name] - medians[BARE],
            over_version=medians[name] - medians["--version"],
        )
        for name, times in taken.items()
    )


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks startup")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--files", type=int, default=2000, help="session files that harvest finds unchanged")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        write_sessions(Path(folder), arguments.files, corrected=False)
        rows = measure(Path(folder), arguments.runs)
    if arguments.json:
        print(msgspec.json.encode(rows).decode())
        return 0
    print(f"{'':<18}{'fastest':>10}{'median':>10}{'over bare':>12}{'over --version':>17}")
    for row in rows:
        print(
            f"{row.command:<18}{row.fastest:>10.1f}{row.median:>10.1f}{row.over_bare:>12.1f}{row.over_version:>17.1f}"
        )
    print(f"milliseconds over {arguments.runs} runs; harvest: {arguments.files:,} session files, none of them new")
    return 0
