"""The program as a user starts it: a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def started(*arguments, path=(), cwd=None, **environment):
    """The program, started; when the test is through with it, it is killed if it still runs.

    Folders in ``path`` stand on its ``sys.path``; ``environment`` is added to this one's.
    """
    given = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT))), "COLUMNS": "100"} | environment
    with subprocess.Popen(
        [sys.executable, "-m", "skillopt_sleep", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=given,
        cwd=cwd or os.environ["HOME"],
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(*arguments, path=(), cwd=None, **environment):
    """Run the program to its end."""
    with started(*arguments, path=path, cwd=cwd, **environment) as process:
        stdout, stderr = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
