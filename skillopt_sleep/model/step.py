"""Steps: what an agent did within a turn, in the order of the conversation.

A source reads them when they are needed (most sessions are harvested without). They are redacted and bounded before
anybody keeps them.
"""

from __future__ import annotations

import enum

from msgspec import Struct


class StepKind(enum.StrEnum):
    """What a step is."""

    TEXT = "text"
    """Words of the agent."""
    CALL = "call"
    """A tool call with its result."""
    INSTRUCTION = "instruction"
    """The body of a slash command or a skill that the agent was given; no one typed it here."""
    SHOWN = "shown"
    """A file, or a part of one, that the agent was shown without asking: the person named, marked or edited it."""


class StepOutcome(enum.StrEnum):
    """How a tool call ended."""

    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    """Refused by the person."""
    DENIED = "denied"
    """Denied by a permission rule or a sandbox, without the person."""
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"
    """No result is recorded; texts and instructions have none either."""


class Step(Struct, frozen=True, kw_only=True):
    """One text or tool call of the agent."""

    id: str
    """Where the session file can be cut before this step: the uuid of its record, or the number of its line."""
    kind: StepKind
    text: str = ""
    """The words; for a call its arguments as JSON, long values shortened; for what was shown the file's path."""
    tool: str = ""
    """The tool's name as recorded; for an instruction the name of the command or skill."""
    result: str = ""
    """Head and tail of what the tool returned, or of the file that was shown."""
    outcome: StepOutcome = StepOutcome.UNKNOWN
    words: str = ""
    """What the person typed while refusing this call."""
    at: str = ""
    """ISO 8601 as recorded; "" when unknown."""


class TurnSteps(Struct, frozen=True, kw_only=True):
    """What the agent did in one turn."""

    turn: str
    """The id of the ``Turn``."""
    prompt: str = ""
    """What the person typed; "" for work that no prompt started."""
    interrupted: bool = False
    """Whether the person stopped the agent in this turn."""
    steps: tuple[Step, ...] = ()


class Conversation(Struct, frozen=True, kw_only=True):
    """The steps of one session along its final branch; branches that the person abandoned are not part of it."""

    source: str
    path: str
    session_id: str
    cwd: str = ""
    branch: str = ""
    model: str = ""
    ended_at: str = ""
    turns: tuple[TurnSteps, ...] = ()
