"""Steps of Codex rollouts: which calls were made, what they returned, and who stopped them."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.session import StepKind, StepOutcome
from skillopt_sleep.sources.codex import CodexSource
from tests.benchmarks.corpus import write_codex_corpus
from tests.sources.test_claude_steps import calls, tell
from tests.sources.writing import CodexFile, stored

EXITED = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code {}\nOutput:\n{}"


@pytest.fixture
def read(tmp_path):
    """Read the steps of a made-up rollout; its skips must be none."""

    def conversation_of(file):
        skips = []
        found = CodexSource().read_steps(stored(tmp_path / "rollout.jsonl", file.lines), skips.append)
        assert skips == []
        return found

    return conversation_of


def test_rollout_is_read_in_turns(read):
    """Texts and calls follow the prompt; a step is found by the number of its line."""
    file = CodexFile().prompt("fix it").shell("c1", EXITED.format(0, "ok"), cmd="make").assistant("done")
    found = read(file)
    make, done = found.turns[0].steps
    assert (make.id, make.tool, json.loads(make.text)) == ("4", "exec_command", {"cmd": "make"})
    assert (make.outcome, make.result) == (StepOutcome.DONE, EXITED.format(0, "ok"))
    assert (done.id, done.text, found.turns[0].prompt) == ("7", "done", "fix it")


def test_turns_have_the_ids_of_the_session(read, tmp_path):
    """Every turn is found by the id that ``read`` gives it."""
    file = CodexFile().prompt("first").assistant("a").prompt("second").assistant("b").prompt("second")
    session = CodexSource().read(stored(tmp_path / "t.jsonl", file.lines), [].append)
    assert [turn.turn for turn in read(file).turns] == [turn.id for turn in session.turns]


def test_patch_is_a_call(read):
    """A custom tool's text is kept as its input."""
    patch = "*** Begin Patch\n*** Add File: a.py\n+x = 1\n*** End Patch"
    file = CodexFile().prompt("add it").item("custom_tool_call", name="apply_patch", call_id="c", input=patch)
    file.item("custom_tool_call_output", call_id="c", output='{"output":"Done","metadata":{"exit_code":0}}')
    step = calls(read(file))[0]
    assert (step.tool, json.loads(step.text), step.result) == ("apply_patch", {"input": patch}, "Done")


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        (EXITED.format(0, "rejected by user"), StepOutcome.DONE),
        (EXITED.format(2, "no rule"), StepOutcome.FAILED),
        ('{"output":"no","metadata":{"exit_code":1}}', StepOutcome.FAILED),
        ("Plan updated", StepOutcome.DONE),
        ("exec command rejected by user", StepOutcome.REFUSED),
        ("patch rejected: writing outside of the project; rejected by user approval settings", StepOutcome.DENIED),
        ("exec_command failed: Rejected(rejected: blocked by policy)", StepOutcome.DENIED),
        ("sandbox denied exec error, exit code: 2, stdout: , stderr: no", StepOutcome.DENIED),
        ("aborted by user after 5.2s", StepOutcome.INTERRUPTED),
        ("Wall time: 5.2 seconds\naborted by user", StepOutcome.INTERRUPTED),
    ],
)
def test_outcome(read, output, outcome):
    """Each way in which a call can end is told apart; what a command printed decides nothing."""
    file = CodexFile().prompt("do it").shell("c", output, cmd="make")
    assert [step.outcome for step in calls(read(file))] == [outcome]


def test_interrupt_marks_the_turn_and_its_open_calls(read):
    """A turn that the person stopped says so, and so does the call that was running."""
    file = CodexFile().prompt("do it").item("function_call", name="exec_command", call_id="c", arguments="{}")
    file.event("turn_aborted", reason="interrupted").prompt("no, wait").assistant("ok")
    found = read(file)
    assert [turn.interrupted for turn in found.turns] == [True, False]
    assert [step.outcome for step in calls(found)] == [StepOutcome.INTERRUPTED]


def test_web_search_ends_without_a_result(read):
    """It is recorded when it is over, so a later interrupt does not concern it."""
    file = CodexFile().prompt("look").item("web_search_call", action={"type": "search", "query": "q"})
    step = calls(read(file.event("turn_aborted", reason="interrupted")))[0]
    assert (step.outcome, json.loads(step.text)["query"]) == (StepOutcome.DONE, "q")


def test_turns_that_were_left_are_no_part(read):
    """Going back to an earlier prompt drops the turns after it."""
    file = CodexFile().prompt("hello").assistant("hi").prompt("in Go").assistant("package main")
    file.event("thread_rolled_back", num_turns=1).prompt("in Rust").assistant("fn main")
    assert tell(read(file)) == [("hello", ["hi"]), ("in Rust", ["fn main"])]


@pytest.mark.parametrize("skill_first", [True, False])
def test_body_of_a_skill_is_an_instruction(read, skill_first):
    """A skill's text belongs to the prompt that asked for it, on whichever side of it the text is recorded."""
    body = "<skill>\n<name>release</name>\n<path>/x/SKILL.md</path>\nTag it.\n</skill>"
    file = CodexFile().prompt("hello").assistant("hi")
    file = file.message(body).prompt("ship") if skill_first else file.prompt("ship").message(body)
    step = read(file.assistant("ok")).turns[1].steps[0]
    assert (step.kind, step.tool, step.text.strip()) == (StepKind.INSTRUCTION, "release", "Tag it.")


def test_compacted_history_is_no_step(read):
    """A compaction repeats the history it replaces."""
    file = CodexFile().prompt("first").assistant("a")
    file.record("compacted", message="", replacement_history=[{"type": "message", "role": "user", "content": "first"}])
    assert tell(read(file.prompt("second").assistant("b"))) == [("first", ["a"]), ("second", ["b"])]


@given(seed=st.integers(0, 10**6), data=st.data())
def test_later_records_change_no_earlier_turn(tmp_path_factory, seed, data):
    """A rollout cut before a prompt has the same turns up to there, step by step."""
    draw = random.Random(seed)
    file, prompts = CodexFile(), []
    for number in range(draw.randint(2, 5)):
        prompts.append(len(file.lines))
        file.prompt(f"prompt {number}")
        for step in range(draw.randint(1, 5)):
            if draw.random() < 0.4:
                file.assistant(f"text {step} " + "word " * draw.choice([1, 3000]))
            else:
                output = EXITED.format(draw.choice([0, 1]), "line\n" * draw.choice([1, 2000]))
                file.shell(f"{number}-{step}", output, cmd="x " * draw.choice([1, 4000]))
    cut = data.draw(st.integers(1, len(prompts) - 1))
    folder = tmp_path_factory.mktemp("prefix")
    whole = CodexSource().read_steps(stored(folder / "a.jsonl", file.lines), [].append)
    before = CodexSource().read_steps(stored(folder / "a.jsonl", file.lines[: prompts[cut]]), [].append)
    assert before.turns == whole.turns[:cut]


def test_sub_agent_has_no_steps(read):
    """A thread that Codex started by itself is no session of a person's."""
    assert read(CodexFile(source={"subagent": {}}).prompt("look").assistant("done")) is None


def test_generated_rollouts_have_every_prompt(tmp_path):
    """Of made-up rollouts every prompt begins a turn, and every call has a result."""
    truth = write_codex_corpus(tmp_path, megabytes=1, seed=5)
    source = CodexSource(home=str(tmp_path))
    for file in source.files([].append):
        found = source.read_steps(file, [].append)
        assert [turn.prompt for turn in found.turns if turn.turn] == list(truth.sessions[file.path].prompts)
        assert all(step.outcome is not StepOutcome.UNKNOWN for step in calls(found))
