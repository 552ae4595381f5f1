"""Makes a session and its conversation from a few words: prompts with labels, and what the agent did about them."""

from __future__ import annotations

import json

from msgspec.structs import replace

from skillopt_sleep.model.session import Conversation, PromptKind, Session, Step, StepKind, StepOutcome, Turn, TurnSteps
from tests.fakes.sessions import FEEDBACK, Feedback


def said(text):
    """Make words of the agent."""
    return Step(id="", kind=StepKind.TEXT, text=text)


def call(tool, arguments, result="", outcome=StepOutcome.DONE, words=""):
    """Make a tool call."""
    text = json.dumps(arguments, ensure_ascii=False)
    return Step(id="", kind=StepKind.CALL, tool=tool, text=text, result=result, outcome=outcome, words=words)


def ran(command, result="", outcome=StepOutcome.DONE):
    """Make a shell command."""
    return call("Bash", {"command": command}, result, outcome)


def read(path, content):
    """Make a reading of a file, with line numbers as Claude Code writes them."""
    lines = "\n".join(f"{number:>6}\u2192{line}" for number, line in enumerate(content.split("\n"), start=1))
    return call("Read", {"file_path": path}, lines)


def edited(path, old, new):
    """Make an edit."""
    return call("Edit", {"file_path": path, "old_string": old, "new_string": new}, "The file was updated.")


def wrote(path, content):
    """Make a new file."""
    return call("Write", {"file_path": path, "content": content}, "File created.")


def patched(patch):
    """Make a patch as Codex writes it."""
    return call("apply_patch", {"input": patch}, "Success.")


def refused(step, words=""):
    """Make a call that the person refused."""
    return replace(step, outcome=StepOutcome.REFUSED, words=words)


def stopped(step):
    """Make a call that the person stopped."""
    return replace(step, outcome=StepOutcome.INTERRUPTED)


def instructed(name, body):
    """Make the body of a slash command or skill."""
    return Step(id="", kind=StepKind.INSTRUCTION, tool=name, text=body)


def talk(*turns, source="claude", cwd="/home/ada/rockets", model="claude-test-9"):
    """Make a session and its conversation of turns given as (prompt, label, steps); "no", "ok" or "" label a prompt.

    A turn whose last step was refused with words is followed by a turn with these words. A fourth entry "stop" says
    that the person stopped the agent.
    """
    numbered = list(enumerate(turns))
    made = [_make_turn(number, *turn) for number, turn in numbered]
    session = Session(
        source=source, path="/sessions/s1.jsonl", session_id="s1", cwd=cwd, model=model, turns=tuple(t for t, _ in made)
    )
    conversation = Conversation(
        source=source,
        path="/sessions/s1.jsonl",
        session_id="s1",
        cwd=cwd,
        model=model,
        turns=tuple(steps for _, steps in made),
    )
    return session, conversation


def _make_turn(number, prompt, label, steps, *more):
    kind = PromptKind.REJECTION if label == "refusal" else PromptKind.TYPED
    feedback = Feedback.CORRECTION if label == "refusal" else FEEDBACK.get(label, Feedback.NEITHER)
    name = f"turn-{number}"
    turn = Turn(id=name, prompt=prompt, kind=kind, feedback=feedback, at=f"2026-03-02T10:{number:02}:00Z")
    named = tuple(replace(step, id=f"{name}-step-{place}") for place, step in enumerate(steps))
    return turn, TurnSteps(turn=name, prompt=prompt, steps=named, interrupted="stop" in more)
