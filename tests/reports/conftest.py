"""Snapshots: what a person reads is kept in a file and compared; ``UPDATE_SNAPSHOTS=1`` writes the files anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "snapshots"


@pytest.fixture
def snapshot() -> Callable[..., None]:
    """Compare bytes with the file of that name, by default beside the tests."""

    def compare(name: str, rendered: bytes, *, folder: Path = FOLDER) -> None:
        path = folder / name
        if os.environ.get("UPDATE_SNAPSHOTS"):
            path.write_bytes(rendered)
        assert path.exists(), f"no snapshot {path}: run with UPDATE_SNAPSHOTS=1, then read it"
        assert rendered.decode() == path.read_bytes().decode()

    return compare
