"""The checks judge: every kind, both ways, and nothing that can hang it."""

from __future__ import annotations

import time

import pytest

from skillopt_sleep.errors import UsageError
from skillopt_sleep.judges.checks import PLUGIN
from skillopt_sleep.model.rollout import ReplayResult, Score
from skillopt_sleep.model.task import ChecksReference, TaskRecord, parse_check
from tests.fakes.ask import nobody

REPORT = """\
# Report

Intro with Rollout plan in it.

## Risks & Costs

No risk.

### Detail

Deep water.

```
# Rollout plan
```

Rollout plan
------------

> ## Quoted

On Friday.\r
"""


def score(response: str, *checks: dict[str, object], tools: tuple[str, ...] = ()) -> Score:
    """The score of a response under these checks."""
    reference = ChecksReference(checks=tuple(map(parse_check, checks)))
    task = TaskRecord(id="t", intent="report", reference=reference)
    rollout = ReplayResult(task_id="t", candidate="c", response=response, tools_called=tools)
    return PLUGIN().score(task, rollout, nobody)


CASES = {
    "contains": ({"kind": "contains", "value": "No risk"}, REPORT, "no risk"),
    "not_contains": ({"kind": "not_contains", "value": "sorry"}, "fine", "sorry"),
    "regex": ({"kind": "regex", "value": r"(?m)^fix(\(\w+\))?: "}, "x\nfix(ci): y", "fixed: y"),
    "section_present": ({"kind": "section_present", "section": "risks costs"}, REPORT, "Risks & Costs"),
    "section in a setext heading": ({"kind": "section_present", "section": "Rollout plan"}, REPORT, "`# Rollout plan`"),
    "section in a fence": ({"kind": "section_present", "section": "A"}, "# A", "```\n# A\n```"),
    "section in a quote": ({"kind": "section_present", "section": "A"}, "# A", "> # A"),
    "section_contains": (
        {"kind": "section_contains", "section": "Rollout plan", "value": "Friday"},
        REPORT,
        "# Rollout plan\nnone\n# Other\nFriday",
    ),
    "section with its sub-sections": (
        {"kind": "section_contains", "section": "Risks & Costs", "value": "Deep"},
        REPORT,
        "# Risks & costs\n",
    ),
    "min_chars": ({"kind": "min_chars", "value": 5}, "12345", " 1234 \n"),
    "max_chars": ({"kind": "max_chars", "value": 5}, " 12345\n", "123456"),
    "no_refusal": (
        {"kind": "no_refusal"},
        "Here it is. " * 40 + "I can't help that.",
        "I can\N{RIGHT SINGLE QUOTATION MARK}t help with that.",
    ),
    "no_refusal that is work": ({"kind": "no_refusal"}, "I can't reproduce it: here is why.", "As an AI, I …"),
    "json_schema": (
        {"kind": "json_schema", "value": {"type": "object", "required": ["a"]}},
        'Here:\n```json\n{"a": 1}\n```',
        '{"b": 1}',
    ),
    "json_schema of no json": ({"kind": "json_schema", "value": {"type": "array"}}, "[1]", "one"),
}


@pytest.mark.parametrize(("check", "good", "bad"), CASES.values(), ids=CASES)
def test_a_check(check: dict[str, object], good: str, bad: str) -> None:
    """It holds of the one answer and not of the other, and says why not."""
    assert score(good, check).hard == 1
    failed = score(bad, check)
    assert (failed.hard, failed.soft) == (0, 0)
    assert failed.rationale.startswith("it")


def test_a_tool_that_had_to_be_called() -> None:
    """The rollout's own record of its calls decides, not what the answer says."""
    check = {"kind": "tool_called", "value": "Bash"}
    assert score("done", check, tools=("Read", "Bash")).hard == 1
    assert score("I called Bash", check, tools=("Read",)).hard == 0


def test_several_checks() -> None:
    """Hard takes all of them, soft is the share that holds."""
    checks = [{"kind": "contains", "value": word} for word in ("one", "two", "three", "four")]
    scored = score("one two three", *checks)
    assert (scored.hard, scored.soft, scored.rationale) == (0, 0.75, "it does not contain 'four'")
    assert score("one two three four", *checks) == Score(hard=1, soft=1, rationale="all 4 checks hold")


@pytest.mark.slow
def test_a_pattern_made_to_hang() -> None:
    """It is stopped and does not hold."""
    started = time.monotonic()
    assert score("x" * 3000, {"kind": "regex", "value": "(x+x+)+y"}).hard == 0
    assert time.monotonic() - started < 10  # for ever, but for the limit


def test_a_task_without_checks() -> None:
    """It is refused by name: no check at all would hold of everything."""
    with pytest.raises(UsageError, match="but it has no check"):
        score("anything")
