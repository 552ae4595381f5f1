"""How long commands take to start, beside a bare interpreter, in turn so that a noisy machine is noisy for all."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

__all__ = ["main", "measure"]


class Start(Struct, frozen=True, kw_only=True):
    """Wall milliseconds of one command over the runs; ``over_bare`` is the median above the bare interpreter's."""

    command: str
    fastest: float
    median: float
    over_bare: float


def measure(commands: dict[str, Sequence[str]], runs: int) -> tuple[Start, ...]:
    """Run each command ``runs`` times, A B C A B C …, in an empty folder with an empty home."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        home = {"HOME": folder, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])}
        for _ in range(runs + 1):  # the first round fills caches and is not counted
            for name, command in commands.items():
                started = time.perf_counter()
                subprocess.run(command, cwd=folder, env=home, capture_output=True, check=True)
                taken[name].append(1000 * (time.perf_counter() - started))
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    bare = medians["bare interpreter"]
    return tuple(
        Start(command=name, fastest=min(times[1:]), median=medians[name], over_bare=medians[name] - bare)
        for name, times in taken.items()
    )


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m skillopt_sleep.bench startup")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    program = [sys.executable, "-m", "skillopt_sleep"]
    rows = measure(
        {
            "bare interpreter": [sys.executable, "-c", "pass"],
            "--version": [*program, "--version"],
            "--help": [*program, "--help"],
            "status": [*program, "status"],
        },
        arguments.runs,
    )
    if arguments.json:
        print(msgspec.json.encode(rows).decode())
        return 0
    print(f"{'':<18}{'fastest':>10}{'median':>10}{'over bare':>11}   ms, {arguments.runs} runs")
    for row in rows:
        print(f"{row.command:<18}{row.fastest:>10.1f}{row.median:>10.1f}{row.over_bare:>11.1f}")
    return 0
