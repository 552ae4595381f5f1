"""evidence.jsonl: one row a rollout."""

from __future__ import annotations

import msgspec

from skillopt_sleep.domain.evidence import EvidenceRow
from skillopt_sleep.domain.task import Split
from skillopt_sleep.reports import evidence

MEASURED = EvidenceRow(
    night="2026-07-03-a1c4",
    phase="val",
    task_id="v-01",
    split=Split.VAL,
    candidate="0123456789abcdef",
    sample=0,
    hard=0.0,
    soft=0.4,
    rationale="names no ticket",
    response_head="Add the form\nand more",
    call_error="",
    latency=1.5,
    words=("open a pull request for the returns form",),
)
LOST = msgspec.structs.replace(MEASURED, hard=None, soft=None, rationale="", call_error="TimedOut: 120 s", sample=1)


def test_rows_are_lines_that_read_back():
    """Each row is one line with every key, in order; nothing is lost."""
    lines = evidence.render([MEASURED, LOST]).splitlines()
    assert [msgspec.json.decode(line, type=EvidenceRow) for line in lines] == [MEASURED, LOST]
    assert all(list(msgspec.json.decode(line)) == list(EvidenceRow.__struct_fields__) for line in lines)


def test_lost_rollout_is_null_and_never_zero():
    """What transport lost has no score at all."""
    row = msgspec.json.decode(evidence.render([LOST]))
    assert (row["hard"], row["soft"]) == (None, None)
    assert row["call_error"] == "TimedOut: 120 s"


def test_night_without_rollouts_leaves_an_empty_file():
    """No rows, no lines."""
    assert evidence.render([]) == b""
