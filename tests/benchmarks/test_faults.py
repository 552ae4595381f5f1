"""Lives with faults drawn by lot, as ``bash scripts/bench faults`` lets ten thousand happen: some of each kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.failing import KINDS

ROOT = Path(__file__).parents[2]
FAULTS = 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "documents"])
def test_nights_end_well_and_lose_nothing(kind):
    """Known exit codes, no traceback, no reply paid for twice, every session kept, live documents as they were."""
    command = ["-m", "tests.benchmarks.faults", f"--faults={FAULTS}", f"--kind={kind}"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1].split()[0]) >= FAULTS, done.stdout
