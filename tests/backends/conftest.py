"""The agent CLI that a backend is tested on."""

from __future__ import annotations

import pytest

from tests.fakes.cli import FakeCli, make_cli


@pytest.fixture
def fake_cli(tmp_path, request) -> FakeCli:
    """A fake of the CLI that the test module is named after."""
    return make_cli(tmp_path / "bin", request.module.__name__.rpartition("test_")[2])
