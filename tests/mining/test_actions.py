"""What a step did, whichever tool did it, and how it is rendered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_sleep.mining.actions import ActionKind, Change, is_looking, read_action, strip_output
from skillopt_sleep.mining.rendering import (
    describe_step,
    fold_lines,
    list_changed_lines,
    render_behaviour,
    strip_own_rules,
)
from skillopt_sleep.model.session import Step, StepKind, StepOutcome
from tests.fakes.conversations import call, edited, ran, read, refused, said, wrote

PATCH = """*** Begin Patch
*** Add File: new.py
+one = 1
*** Update File: old.py
@@ def two
 two = 2
-three = 3
+three = 4
@@
-four
*** Delete File: gone.py
*** End Patch"""


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (said("I do it."), ActionKind.SAID),
        (call("ExitPlanMode", {"plan": "First this, then that."}), ActionKind.SAID),
        (read("a.py", "x"), ActionKind.LOOKED),
        (call("Grep", {"pattern": "x", "path": "src"}), ActionKind.LOOKED),
        (ran("cd src && rg -n 'a; rm b' | head -3"), ActionKind.LOOKED),
        (ran("git status && git diff --stat"), ActionKind.LOOKED),
        (ran("pytest -q 2>&1 | tail -5"), ActionKind.CHECKED),
        (call("exec_command", {"cmd": ["bash", "-lc", "git push"]}), ActionKind.CHANGED),
        (call("exec", {"input": 'await tools.exec_command({cmd: "make install"})'}), ActionKind.CHANGED),
        (edited("a.py", "x", "y"), ActionKind.CHANGED),
        (ran("cat > a.py <<'EOF'\nx = 1\nEOF"), ActionKind.CHANGED),
        (call("write_stdin", {"session_id": 3, "chars": ""}), ActionKind.WAITED),
        (call("TodoWrite", {"todos": []}), ActionKind.WAITED),
        (ran("sleep 30"), ActionKind.WAITED),
        (call("mcp__mail__send", {"to": "ada"}), ActionKind.CHANGED),
        (Step(id="", kind=StepKind.CALL, tool="Bash", text="{not json"), ActionKind.CHANGED),
    ],
)
def test_kind(step: Step, kind: ActionKind) -> None:
    """Looking, checking, waiting and changing are told apart by the arguments."""
    assert read_action(step).kind is kind


@pytest.mark.parametrize(
    "command",
    [
        "echo x > a.txt",
        "git commit -m x",
        "git branch nozzle",
        "sed -i s/a/b/ f",
        "ls $(rm a)",
        "cat <<EOF\nx\nEOF",
        "",
    ],
)
def test_command_that_may_change_something(command: str) -> None:
    """In doubt a command changes something."""
    assert not is_looking(command)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["command", "path", "edits", "input", "plan", "questions", "x"]), inner)
    ),
    max_leaves=12,
)


@given(JSON, st.text(max_size=40))
def test_any_arguments(arguments: object, result: str) -> None:
    """Whatever a tool was given and returned, its step is read and rendered."""
    step = call("Tool", arguments, result)
    action = read_action(step)
    assert describe_step(step, action) or action.kind in (ActionKind.WAITED, ActionKind.CHANGED, ActionKind.LOOKED)
    assert len(render_behaviour([step], 200)) <= 200


def test_changes_of_a_patch() -> None:
    """Every hunk is a change with its context, a new file is whole."""
    assert read_action(call("apply_patch", {"input": PATCH})).changes == (
        Change(path="new.py", added="one = 1", is_whole=True),
        Change(path="old.py", removed="two = 2\nthree = 3", added="two = 2\nthree = 4"),
        Change(path="old.py", removed="four"),
        Change(path="gone.py"),
    )


def test_file_written_by_a_shell() -> None:
    """A heredoc is the whole file, one that appends is not."""
    (whole,) = read_action(ran("cat > a.py <<'EOF'\nx = 1\nEOF")).changes
    (more,) = read_action(ran("cat >> a.py <<'EOF'\nx = 1\nEOF")).changes
    assert (whole.added, whole.is_whole, more.is_whole) == ("x = 1", True, False)


def test_lines_that_stayed_are_no_change() -> None:
    """Only lines that were added or removed count."""
    change = Change(path="a", removed="one\ntwo\nthree", added="one\n2\nthree")
    assert list_changed_lines(change) == (["two"], ["2"])


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nhello", "hello"),
        ("     1\u2192x = 1\n     2\u2192y = 2", "x = 1\ny = 2"),
        ("x\n<system-reminder>\nBe nice.\n</system-reminder>", "x"),
        ("1 apple\n2 pears", "1 apple\n2 pears"),
    ],
)
def test_output_without_its_wrapping(result: str, text: str) -> None:
    """Headers, line numbers and reminders are taken off; what was printed stays."""
    assert strip_output(result) == text


@pytest.mark.parametrize(
    "text",
    [
        "a\n<!-- skillopt-sleep:begin -->\nrule\n<!-- skillopt-sleep:end -->\nb",
        "a\n<!-- skillopt-sleep:begin -->\nrule",
        "rule\n<!-- skillopt-sleep:end -->\na",
    ],
    ids=["whole", "end cut off", "beginning cut off"],
)
def test_own_rules_are_stripped(text: str) -> None:
    """Our block goes, also where one of its markers was cut off."""
    assert "rule" not in strip_own_rules(text)
    assert "a" in strip_own_rules(text)


class TestBehaviour:
    """What a judge reads of what an agent did."""

    def test_what_is_shown(self) -> None:
        """Words, commands and changed lines are; what was looked at is a line each, what a check printed its end."""
        steps = [
            read("a.py", "x = 1"),
            said("I change it."),
            edited("a.py", "x = 1", "x = 2"),
            ran("pytest -q", "F\n1 failed", StepOutcome.FAILED),
            refused(ran("git push")),
        ]
        assert render_behaviour(steps) == (
            "read a.py\n\nI change it.\n\nedited a.py (+1 -1)\n- x = 1\n+ x = 2\n\n"
            "$ pytest -q (failed)\nF\n1 failed\n\n$ git push (refused by the person)"
        )

    def test_bound(self) -> None:
        """However much was done, the text is bounded, and its last words stay."""
        steps = [wrote(f"{number}.txt", "long line " * 40) for number in range(60)]
        text = render_behaviour([*steps, said("All is done.")], 1_500)
        assert len(text) <= 1_500
        assert text.endswith("All is done.")
        assert "more steps …)" in text


def test_folded_lines() -> None:
    """The number of lines left out is said."""
    assert fold_lines("\n".join("abcdef"), 2, 1) == "a\nb\n(… 3 more lines …)\nf"


def test_long_word_is_read_at_once() -> None:
    """A word of a hundred thousand letters is read in one pass; what stands inside of a command is left alone."""
    assert not is_looking("x" * 100_000)
    assert is_looking("time ls")
    assert is_looking("A=1 ls")
    assert not is_looking("deploy time ls")
