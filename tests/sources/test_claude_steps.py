"""Steps of Claude Code sessions: what belongs to the conversation, in which order, and how every call ended."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.model.session import StepKind, StepOutcome
from skillopt_sleep.sources.claude import ClaudeSource
from tests.benchmarks.corpus import write_claude_corpus
from tests.sources.test_claude import NOTE, REFUSED, SAID
from tests.sources.writing import ClaudeFile, LinkedFile, stored


@pytest.fixture
def read(tmp_path):
    """Read the steps of a made-up file; its skips must be none."""

    def conversation_of(file):
        skips = []
        found = ClaudeSource().read_steps(stored(tmp_path / "s.jsonl", file.lines), skips.append)
        assert skips == []
        return found

    return conversation_of


def tell(conversation):
    """A conversation in a few words: the prompts, and the texts and results of each turn."""
    return [(turn.prompt, [step.result or step.text for step in turn.steps]) for turn in conversation.turns]


def calls(conversation):
    """Every call of a conversation."""
    return [step for turn in conversation.turns for step in turn.steps if step.kind is StepKind.CALL]


def test_session_is_read_in_turns(read):
    """Texts and calls follow the prompt that asked for them, each with the uuid and time of its record."""
    file = LinkedFile().user("fix it").assistant("I look").call("Bash", command="make").result("ok").assistant("done")
    found = read(file)
    assert tell(found) == [("fix it", ["I look", "ok", "done"])]
    look, make, _ = found.turns[0].steps
    assert (look.id, look.at, look.kind) == ("uuid-2", "2026-05-04T08:00:02.000Z", StepKind.TEXT)
    assert (make.id, make.tool, json.loads(make.text)) == ("uuid-3", "Bash", {"command": "make"})
    assert make.outcome is StepOutcome.DONE
    assert (found.session_id, found.cwd, found.branch) == ("session-1", "/srv/app", "main")
    assert found.model == "claude-opus-4-8"


def test_turns_have_the_ids_of_the_session(read, tmp_path):
    """Whatever way a prompt came in, its turn is found by the id that ``read`` gives it."""
    file = LinkedFile().user("first").assistant("a").queue("enqueue", "second").queue("remove")
    file.assistant("b").call("Bash").result(SAID + "third" + NOTE, is_error=True).queued("fourth").assistant("c")
    session = ClaudeSource().read(stored(tmp_path / "t.jsonl", file.lines), [].append)
    found = read(file)
    assert [turn.turn for turn in found.turns] == [turn.id for turn in session.turns]
    assert [turn.prompt for turn in found.turns] == ["first", "second", "third", "fourth"]


def test_branch_that_was_left_is_no_part(read):
    """After going back to an earlier prompt, only the branch that the session ended on counts."""
    file = LinkedFile().user("hello").assistant("hi").user("write it in Go").assistant("package main")
    file.user("write it in Rust", parentUuid="uuid-2").assistant("fn main")
    assert tell(read(file)) == [("hello", ["hi"]), ("write it in Rust", ["fn main"])]


def test_words_queued_in_a_branch_that_was_left_are_no_part(read):
    """Queue records have no links: they belong where the record before them belongs."""
    file = LinkedFile().user("hello").assistant("hi").user("in Go").assistant("package main")
    file.queue("enqueue", "faster").queue("remove").assistant("ok")
    file.user("in Rust", parentUuid="uuid-2").assistant("fn main")
    assert [turn.prompt for turn in read(file).turns] == ["hello", "in Rust"]


@given(back=st.lists(st.integers(0, 30), min_size=1, max_size=30), late=st.booleans())
def test_any_tree_is_read_along_its_last_branch(tmp_path_factory, back, late):
    """However often the person went back, and whatever was written late, the way to the last record is what counts."""
    file, parents = LinkedFile(), {}
    for number, steps_back in enumerate(back):
        parent = max(0, number - steps_back) if number else 0
        parents[number + 1] = parent
        file.user(f"prompt {number}", uuid=f"p{number + 1}", parentUuid=f"a{parent}" if parent else None)
        file.assistant(f"answer {number}", uuid=f"a{number + 1}")
    way, at = [], len(back)
    while at:
        way.insert(0, (f"prompt {at - 1}", [f"answer {at - 1}"]))
        at = parents[at]
    if late and len(file.lines) > 4:
        file.lines[1], file.lines[2] = file.lines[2], file.lines[1]
    folder = tmp_path_factory.mktemp("tree")
    found = ClaudeSource().read_steps(stored(folder / "s.jsonl", file.lines), [].append)
    assert tell(found) == way


def test_order_of_the_chain_counts_not_that_of_lines(read):
    """Lines that were written late are read where the chain has them."""
    file = LinkedFile().user("hello").assistant("one").assistant("two").assistant("three")
    file.lines[1], file.lines[2] = file.lines[2], file.lines[1]
    assert tell(read(file)) == [("hello", ["one", "two", "three"])]


def test_sidechain_is_no_part(read):
    """What a sub-agent says and does stays out; its answer is the result of the call that started it."""
    file = (
        LinkedFile()
        .user("look")
        .call("Task", prompt="search")
        .record("assistant", isSidechain=True, alone=True, message={"content": [{"type": "text", "text": "inner"}]})
    )
    assert tell(read(file.result("found it").assistant("done"))) == [("look", ["found it", "done"])]


def test_parallel_calls_have_their_own_results(read):
    """Calls in several records of one message are all kept, although the chain passes through one of each only."""
    file = LinkedFile().user("look")
    for name in ("a", "b"):
        block = {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": name}}
        file.record("assistant", message={"id": "msg-1", "content": [block]})
    file.result("text of a", "a", parentUuid="uuid-2", alone=True)
    file.result("text of b", "b", parentUuid="uuid-3", uuid="uuid-5").assistant("both read")
    assert tell(read(file)) == [("look", ["text of a", "text of b", "both read"])]


def test_parallel_call_beside_the_chain(read):
    """A call whose record no later record names is kept with its result."""
    file = LinkedFile().user("look")
    for name in ("a", "b"):
        block = {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": name}}
        file.record("assistant", message={"id": "msg-1", "content": [block]}, alone=name == "b")
    file.result("text of b", "b", parentUuid="uuid-3", alone=True)
    file.result("text of a", "a", parentUuid="uuid-2").assistant("both read")
    assert tell(read(file)) == [("look", ["text of a", "text of b", "both read"])]


def test_result_before_its_call_is_joined(read):
    """Lines are not always written in the order of the conversation: a result may stand before its call."""
    file = LinkedFile().user("look").call("Read", file_path="a").result("text of a").assistant("read")
    file.lines[1], file.lines[2] = file.lines[2], file.lines[1]
    found = read(file)
    assert tell(found) == [("look", ["text of a", "read"])]
    assert calls(found)[0].outcome is StepOutcome.DONE


def test_result_with_a_redacted_id_belongs_to_its_parent(read):
    """Published sessions have ids blanked: the result is joined by the record it follows."""
    file = LinkedFile().user("look").call("Bash", "call-1", command="make").result("ok", "REDACTED")
    assert [(step.result, step.outcome) for step in calls(read(file))] == [("ok", StepOutcome.DONE)]


@pytest.mark.parametrize(
    ("content", "fields", "outcome", "words"),
    [
        pytest.param("fine", {"is_error": False}, StepOutcome.DONE, "", id="done"),
        pytest.param("Exit code 2\nno rule", {}, StepOutcome.FAILED, "", id="failed"),
        pytest.param(REFUSED, {}, StepOutcome.REFUSED, "", id="refused"),
        pytest.param(SAID + "on a branch" + NOTE, {}, StepOutcome.REFUSED, "on a branch", id="refused with words"),
        pytest.param(REFUSED, {"toolDenialKind": "user-rejected"}, StepOutcome.REFUSED, "", id="refused, as recorded"),
        pytest.param("no", {"toolDenialKind": "permission-rule"}, StepOutcome.DENIED, "", id="denied by a rule"),
        pytest.param("no", {"toolDenialKind": "automode-blocked"}, StepOutcome.DENIED, "", id="denied by auto mode"),
        pytest.param("Permission to use Bash has been denied.", {}, StepOutcome.DENIED, "", id="denied, older"),
        pytest.param("PreToolUse:Bash hook error: no push", {}, StepOutcome.DENIED, "", id="denied by a hook"),
        pytest.param(
            "cut", {"toolUseResult": {"interrupted": True}, "is_error": False}, StepOutcome.INTERRUPTED, "", id="cut"
        ),
    ],
)
def test_outcome(read, content, fields, outcome, words):
    """Each way in which a call can end is told apart, and who ended it."""
    file = LinkedFile().user("do it").call("Bash", command="make")
    step = calls(read(file.result(content, **{"is_error": True, **fields})))[0]
    assert (step.outcome, step.words) == (outcome, words)


def test_words_of_a_refusal_begin_a_turn(read):
    """What the person typed while refusing is with the refused call, and is the prompt of what follows."""
    file = LinkedFile().user("ship").call("Bash", command="git push").result(SAID + "open a PR", is_error=True)
    assert [turn.prompt for turn in read(file.assistant("right")).turns] == ["ship", "open a PR"]


def test_interrupt_marks_the_turn_and_its_open_calls(read):
    """A turn that the person stopped says so; a call without a result was interrupted, a finished one was not."""
    file = (
        LinkedFile().user("do it").call("Bash", "a", command="one").result("ok", "a").call("Bash", "b", command="two")
    )
    file.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}]).user("no, wait")
    found = read(file.assistant("ok"))
    assert [turn.interrupted for turn in found.turns] == [True, False]
    assert [step.outcome for step in calls(found)] == [StepOutcome.DONE, StepOutcome.INTERRUPTED]


def test_conversation_goes_on_after_a_compaction(read):
    """The boundary has no parent, but names the record before it; the summary is no step."""
    file = LinkedFile().user("first").assistant("a")
    file.record("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid="uuid-2")
    file.user("This session is being continued ...", isCompactSummary=True).user("second").assistant("b")
    assert tell(read(file)) == [("first", ["a"]), ("second", ["b"])]


@pytest.mark.parametrize("logical", [None, "gone"])
def test_boundary_without_a_known_parent_follows_the_record_before_it(read, logical):
    """A compaction that names no record of this file still continues it."""
    file = LinkedFile().user("first").assistant("a")
    file.record("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=logical)
    assert tell(read(file.user("second").assistant("b"))) == [("first", ["a"]), ("second", ["b"])]


def test_lost_line_breaks_no_chain(read):
    """A record whose parent is not in the file follows the one before it."""
    file = LinkedFile().user("first").assistant("a").assistant("lost").user("second").assistant("b")
    del file.lines[2]
    assert tell(read(file)) == [("first", ["a"]), ("second", ["b"])]


def test_file_without_links_is_read_by_line(read):
    """Without uuids the order of lines is that of the conversation, and a step is found by its line."""
    file = ClaudeFile(uuid=None).user("first", uuid=None).assistant("a", uuid=None).user("second", uuid=None)
    found = read(file)
    assert tell(found) == [("first", ["a"]), ("second", [])]
    assert found.turns[0].steps[0].id == "2"


def test_copied_records_count_once(read):
    """Resuming and forking repeat records under the same uuid."""
    file = LinkedFile().user("first").assistant("a").user("second").assistant("b")
    file.lines[2:2] = file.lines[:2]
    assert tell(read(file)) == [("first", ["a"]), ("second", ["b"])]


def test_chain_that_bites_its_tail_ends(read):
    """Links of a damaged file may run in a circle."""
    file = LinkedFile().user("first", parentUuid="uuid-2").assistant("a", parentUuid="uuid-1")
    assert tell(read(file)) == [("first", ["a"])]


def test_body_of_a_slash_command_is_an_instruction(read):
    """The text behind a command is what the agent was told to do."""
    file = LinkedFile().user(
        "<command-message>ship</command-message>\n<command-name>/ship</command-name>\n<command-args>now</command-args>"
    )
    found = read(file.user("Run the tests, then push.", isMeta=True).assistant("ok"))
    body = found.turns[0].steps[0]
    assert (found.turns[0].prompt, body.kind, body.tool) == ("now", StepKind.INSTRUCTION, "ship")
    assert body.text == "Run the tests, then push."


def test_body_of_a_skill_is_an_instruction(read):
    """A skill that the agent invokes is followed by its text; the name is that of the call."""
    file = LinkedFile().user("ship").call("Skill", skill="release").result("Launching skill: release")
    file.user("Base directory for this skill: /x/release\n\nTag it.", isMeta=True, sourceToolUseID="call-1")
    body = read(file).turns[0].steps[1]
    assert (body.kind, body.tool, body.text.splitlines()[-1]) == (StepKind.INSTRUCTION, "release", "Tag it.")


def test_other_added_texts_are_no_instruction(read):
    """Caveats and reminders are nobody's words."""
    file = LinkedFile().user("ship").user("<local-command-caveat>Caveat: ...", isMeta=True).assistant("ok")
    assert tell(read(file)) == [("ship", ["ok"])]


def test_answer_to_a_question_begins_no_turn(read):
    """A choice in a dialogue is in the result of the call that asked; what follows belongs to the turn before."""
    file = (
        LinkedFile()
        .user("ship")
        .call("AskUserQuestion", questions=[])
        .result("User has answered your questions: now", toolUseResult={"answers": {"when?": "now"}})
    )
    assert tell(read(file.assistant("shipping"))) == [("ship", ["User has answered your questions: now", "shipping"])]


@pytest.mark.parametrize("depth", [200, 900, 5000])
def test_arguments_of_any_depth_end_nothing(tmp_path, depth):
    """Arguments nested without end are shortened or reported, never raised."""
    file = LinkedFile().user("go").call("Odd", deep="DEEP").assistant("done")
    file.lines[1] = file.lines[1].replace(b'"DEEP"', b"[" * depth + b"]" * depth)
    skips = []
    found = ClaudeSource().read_steps(stored(tmp_path / "s.jsonl", file.lines), skips.append)
    assert [turn.prompt for turn in found.turns] == ["go"]
    assert not skips or skips[0].reason == "nested too deep"


def test_no_steps_where_nobody_typed(read):
    """A headless session has no steps either."""
    assert read(LinkedFile(entrypoint="sdk-cli").user("do it").assistant("done")) is None


def test_generated_sessions_have_every_prompt(tmp_path):
    """Of made-up sessions of all shapes, without links, every prompt begins a turn."""
    truth = write_claude_corpus(tmp_path, megabytes=1, seed=5)
    source = ClaudeSource(homes=(str(tmp_path),))
    for file in source.files([].append):
        prompts = [turn.prompt for turn in source.read_steps(file, [].append).turns if turn.turn]
        assert prompts == list(truth.sessions[file.path].prompts)


@given(seed=st.integers(0, 10**6), data=st.data())
def test_later_records_change_no_earlier_turn(tmp_path_factory, seed, data):
    """A file cut before a prompt has the same turns up to there, step by step."""
    draw = random.Random(seed)
    file, prompts = LinkedFile(), []
    for number in range(draw.randint(2, 5)):
        prompts.append(len(file.lines))
        file.user(f"prompt {number}")
        for step in range(draw.randint(1, 5)):
            name = f"{number}-{step}"
            if draw.random() < 0.4:
                file.assistant(f"text {name} " + "word " * draw.choice([1, 3000]))
            else:
                file.call("Bash", name, command="x " * draw.choice([1, 4000]))
                file.result("line\n" * draw.choice([1, 2000]), name, is_error=draw.random() < 0.3)
    cut = data.draw(st.integers(1, len(prompts) - 1))
    folder = tmp_path_factory.mktemp("prefix")
    whole = ClaudeSource().read_steps(stored(folder / "a.jsonl", file.lines), [].append)
    before = ClaudeSource().read_steps(stored(folder / "b.jsonl", file.lines[: prompts[cut]]), [].append)
    assert before.turns == whole.turns[:cut]


@pytest.mark.parametrize(
    ("attachment", "result"),
    [
        ({"type": "edited_text_file", "filename": "/srv/app/a.py", "snippet": "1\tx = 1"}, "1\tx = 1"),
        ({"type": "file", "filename": "/srv/app/a.py", "content": {"type": "text", "file": {"content": "x"}}}, "x"),
        (
            {"type": "selected_lines_in_ide", "filename": "/srv/app/a.py", "lineStart": 7, "content": "x\ny"},
            "7\tx\n8\ty",
        ),
        ({"type": "directory", "path": "/srv/app/a.py", "content": "a\nb"}, "a\nb"),
        ({"type": "file", "filename": "/srv/app/a.py", "content": ["an image"]}, None),
        ({"type": "edited_text_file", "filename": 7, "snippet": {}}, None),
        ({"type": "task_reminder", "content": [{"id": "1"}]}, None),
    ],
)
def test_file_that_the_agent_was_shown_is_a_step(read, attachment, result):
    """What the person named, marked or edited is known to the agent, although it never asked; other notes are not."""
    file = LinkedFile().user("review it").record("attachment", attachment=attachment).assistant("fine")
    steps = read(file).turns[0].steps
    shown = [(step.text, step.result) for step in steps if step.kind is StepKind.SHOWN]
    assert shown == ([("/srv/app/a.py", result)] if result else [])
    assert steps[-1].text == "fine"
