"""The world file of the simulated agent: round trip, errors that name the field, and worlds that give nothing away."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skillopt_sleep.backends.simulated_world import (
    HarmfulRule,
    Rule,
    World,
    WorldTask,
    find_flaws,
    read_world,
    write_world,
)
from skillopt_sleep.errors import UsageError
from tests.benchmarks.worlds import make_world

RULE = Rule(
    id="dates",
    text="Write dates as YYYY-MM-DD.",
    states=(("dates", "yyyy-mm-dd"), ("iso 8601",)),
    complaints=("No, YYYY-MM-DD.",),
)
TASK = WorldTask(id="note", asks=("Write the note.",), rules=("dates",), good="On 2026-03-14.", bad="On March 14.")
WORLD = World(rules=(RULE,), tasks=(TASK,))


@given(seed=st.integers(0, 1000), rules=st.integers(1, 4), tasks=st.integers(1, 4))
def test_world_file_round_trips(seed, rules, tasks):
    """What is written is read back equal."""
    world = make_world(seed, rules=rules, tasks_per_rule=tasks)
    assert read_world(write_world(world), origin="w.json") == world


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        pytest.param(("rules", 0, "text"), 7, r"\$\.rules\[0\]\.text", id="wrong type"),
        pytest.param(("tasks", 0, "base_pass"), 1.5, r"\$\.tasks\[0\]\.base_pass", id="share over 1"),
        pytest.param(("tasks", 0, "colour"), "red", "colour", id="unknown field"),
        pytest.param(("schema_version",), 99, "schema_version 99", id="newer version"),
    ],
)
def test_broken_world_file_names_the_field(path, value, named):
    """A file that cannot be decoded says which file and where."""
    data = msgspec.json.decode(write_world(WORLD))
    *way, last = path
    place = data
    for step in way:
        place = place[step]
    place[last] = value
    with pytest.raises(UsageError, match=named) as raised:
        read_world(msgspec.json.encode(data), origin="w.json")
    assert "w.json" in str(raised.value)


def test_world_file_that_is_no_json_is_named():
    """Anything at all may be handed over as a world file."""
    with pytest.raises(UsageError, match=r"w\.json is not a world file"):
        read_world(b"\xff{", origin="w.json")


@pytest.mark.parametrize(
    ("world", "flaw"),
    [
        pytest.param(
            replace(WORLD, tasks=(replace(TASK, asks=("Write the note, dates as YYYY-MM-DD.",)),)),
            "an ask of task 'note' states rule 'dates'",
            id="an ask gives the rule away",
        ),
        pytest.param(replace(WORLD, useless=("Prefer ISO 8601.",)), "a useless rule states", id="useless rule helps"),
        pytest.param(
            replace(WORLD, harmful=(HarmfulRule(text="Never ISO 8601.", breaks=("dates",)),)),
            "a harmful rule states",
            id="harmful rule states a rule",
        ),
        pytest.param(
            replace(WORLD, harmful=(HarmfulRule(text="Shout.", breaks=("loud",)),)),
            "breaks 'loud'",
            id="breaks nothing",
        ),
        pytest.param(replace(WORLD, tasks=(replace(TASK, rules=("times",)),)), "needs rule 'times'", id="unknown rule"),
        pytest.param(replace(WORLD, tasks=(replace(TASK, rules=()),)), "at least one rule", id="no rule"),
        pytest.param(replace(WORLD, tasks=(TASK, TASK)), "'note' is used twice", id="id twice"),
        pytest.param(
            replace(WORLD, tasks=(replace(TASK, bad="on  2026-03-14."),)), "same good and bad reply", id="same replies"
        ),
        pytest.param(replace(WORLD, rules=(replace(RULE, states=((),)),)), "empty way of stating it", id="empty state"),
        pytest.param(
            replace(WORLD, rules=(replace(RULE, text="Be exact."),)), "not stated by its own text", id="text says less"
        ),
    ],
)
def test_unsound_world_is_refused_with_its_flaw(world, flaw):
    """A world that leaks a rule, or that cannot be played, is refused and says why."""
    assert any(flaw in each for each in find_flaws(world))
    with pytest.raises(UsageError, match=flaw):
        read_world(write_world(world), origin="w.json")


@pytest.mark.parametrize(
    ("statement", "stated"),
    [
        pytest.param("- write dates as yyyy-mm-dd.", True, id="canonical"),
        pytest.param("all dates: iso 8601!", True, id="another way"),
        pytest.param("write dates as you like", False, id="half of a way"),
        pytest.param("updates go out as yyyy-mm-dd-hh", False, id="phrases inside longer words"),
    ],
)
def test_rule_is_stated_only_by_all_phrases_of_a_way(statement, stated):
    """A way counts when each of its phrases stands in the statement as whole words."""
    assert RULE.is_stated_in([statement]) is stated
