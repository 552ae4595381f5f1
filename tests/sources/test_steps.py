"""Bounds of steps: a text keeps its head and its tail, and never half of a secret."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.session import StepKind
from skillopt_sleep.sources import turns as steps
from skillopt_sleep.sources.turns import Draft


@given(st.text(max_size=3000), st.integers(100, 1000))
def test_short_texts_stay_and_long_ones_keep_to_the_limit(text, limit):
    """What is cut is never longer than the limit and the note in its middle; what is not cut is the text itself."""
    short = steps.shorten(text, limit)
    assert short == text.strip("\n") if len(text.strip("\n")) <= limit else len(short) <= limit + 60


@given(
    st.lists(st.text("abcdefghij0123456789", min_size=1, max_size=80), min_size=5, max_size=200), st.integers(60, 900)
)
def test_words_are_whole_or_absent(words, limit):
    """No word is cut in two: half a secret would not be recognised."""
    short = steps.shorten(" ".join(words), limit)
    note = {"[...", "characters", "left", "out", "...]"}
    assert {word for word in short.split() if word not in note and "," not in word and not word.isdigit()} <= set(words)


def test_a_blob_is_left_out():
    """A text without any break has no place to be cut: nothing of it is kept."""
    assert "x" not in steps.shorten("x" * 5000, 1000).replace("characters", "")


def test_rest_of_a_key_is_left_out():
    """A tail that begins within an armoured key drops the key's last lines too."""
    key = "-----BEGIN PRIVATE KEY-----\n" + "QUJDREVGR0g\n" * 60 + "-----END PRIVATE KEY-----\n"
    short = steps.shorten("a line of log\n" * 100 + key + "and on\n" * 20, 900)
    assert "QUJD" not in short.partition("left out")[2]
    assert "and on" in short


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=400),
        lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner, max_size=8),
        max_leaves=40,
    ),
    st.integers(200, 1500),
)
def test_arguments_are_a_json_object_within_the_limit(arguments, limit):
    """Whatever a tool was given, its arguments stay readable as JSON and short."""
    text = steps.shorten_arguments(arguments, limit)
    assert isinstance(json.loads(text), dict)
    assert len(text) <= 2 * limit + 100


def test_one_long_value_leaves_the_others_whole():
    """The name of the file stays when its content is cut."""
    text = steps.shorten_arguments({"file_path": "/srv/app/a.py", "content": "line of code\n" * 900}, 2000)
    given = json.loads(text)
    assert given["file_path"] == "/srv/app/a.py"
    assert given["content"].startswith("line of code")
    assert len(text) < 2600


@pytest.mark.parametrize(("command", "reads"), [("cat a.py", True), ("sed -n '1,9p' a", True), ("make all", False)])
def test_commands_that_print_a_file(command, reads):
    """More is kept of what a file held."""
    assert steps.reads_file(command) is reads


def test_long_turn_keeps_its_beginning_and_its_end():
    """A turn of thousands of steps keeps the first and the last ones."""
    many = [steps.StepDraft(id=str(number), kind=StepKind.TEXT) for number in range(1000)]
    (turn,) = steps.group_steps([Draft(id="t", prompt="go"), *many])
    ids = [int(step.id) for step in turn.steps]
    assert len(ids) == steps.STEPS_PER_TURN
    assert ids == [*range(steps.FIRST_STEPS), *range(1000 - steps.STEPS_PER_TURN + steps.FIRST_STEPS, 1000)]


def test_long_session_keeps_its_prompts_and_its_latest_steps():
    """Past the bound of a session the oldest turns keep their prompt alone."""
    entries = []
    for number in range(30):
        entries.append(Draft(id=str(number), prompt=f"prompt {number}"))
        entries += [steps.StepDraft(id=f"{number}-{step}", kind=StepKind.TEXT) for step in range(300)]
    turns = steps.group_steps(entries)
    assert [turn.turn for turn in turns] == [str(number) for number in range(30)]
    assert sum(len(turn.steps) for turn in turns) == steps.STEPS_PER_SESSION
    assert not turns[0].steps
    assert len(turns[-1].steps) == 300
