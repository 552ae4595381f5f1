"""The database file: brought forward from an older schema, never opened by an older program."""

from __future__ import annotations

import sqlite3

import pytest

from skillopt_sleep.errors import DiskError
from skillopt_sleep.stores.database import VERSION, Database


def _older(path):
    """A file as an older program left it: one table missing, a row in another."""
    Database(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("INSERT INTO files VALUES ('claude', '/a.jsonl', 3, 4)")
        raw.execute("DROP TABLE pending_edits")
        raw.execute(f"PRAGMA user_version = {VERSION - 1}")
    raw.close()


@pytest.mark.parametrize("rehearsal", [False, True], ids=["for real", "as a copy in memory"])
def test_older_file_gains_what_it_lacks_and_keeps_what_it_has(tmp_path, rehearsal):
    """Opening an older file adds the tables it lacks; its rows stay as they were."""
    path = tmp_path / "sleep.db"
    _older(path)
    database = Database(path, rehearsal=rehearsal)
    assert [tuple(row) for row in database.rows("SELECT * FROM files")] == [("claude", "/a.jsonl", 3, 4)]
    assert database.rows("SELECT * FROM pending_edits") == []
    assert database.rows("PRAGMA user_version")[0][0] == VERSION


def test_file_of_a_newer_program_is_left_alone(tmp_path):
    """A schema this program does not know is refused by name, and nothing is written."""
    path = tmp_path / "sleep.db"
    Database(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute(f"PRAGMA user_version = {VERSION + 1}")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(DiskError, match="newer version"):
        Database(path)
    assert path.read_bytes() == before
