"""The nights against hostile endpoints that `bash scripts/bench endpoints` measures: a few of them, every time."""

from __future__ import annotations

import pytest

from tests.benchmarks.endpoints import ENDPOINTS, is_good, run_night

QUICK = ["usage is negative"]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in sorted(ENDPOINTS)]
)
def test_night_keeps_its_promises(name, tmp_path):
    """A known exit code, no traceback, the caps to the call, bounded memory, and nothing sent to another host."""
    row = run_night(name, tmp_path / "person")
    assert is_good(row), row
