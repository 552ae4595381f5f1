"""What was harvested: one conversation of a person with an agent, in the person's own words."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from msgspec import Struct

OWN_RUN_MARKER = "skillopt-sleep-replay"
"""Stands in the working folder or the first words of every session that our own replays start."""


class Feedback(enum.StrEnum):
    """What a prompt says about the answer before it."""

    CORRECTION = "correction"
    APPROVAL = "approval"
    NEITHER = "neither"


class PromptKind(enum.StrEnum):
    """Where in a session the person's words were found."""

    TYPED = "typed"
    """An ordinary prompt."""
    QUEUED = "queued"
    """Typed while the agent worked."""
    REJECTION = "rejection"
    """Said while refusing a tool call: the strongest correction there is."""
    ANSWER = "answer"
    """A choice made in a question dialogue: weak, grounds no rule by itself."""
    HEADLESS = "headless"
    """Given to an unattended run, by a person in a shell or by a program, nobody can tell: as weak as an answer."""

    @property
    def weak(self) -> bool:
        """Whether such words ground no task and no rule by themselves."""
        return self in (PromptKind.ANSWER, PromptKind.HEADLESS)


class Place(enum.Enum):
    """Where a session belongs, seen from a project."""

    OWN = enum.auto()
    """To the project."""
    OTHER = enum.auto()
    """To another project."""
    UNKNOWN = enum.auto()
    """To a deleted worktree that may be of this project or of another."""


class Command(Struct, frozen=True, kw_only=True):
    """A shell command the agent ran in a turn.

    ``exit_status`` is None where the session does not record it (killed, still running, redacted id).
    """

    line: str
    exit_status: int | None = None


class Turn(Struct, frozen=True, kw_only=True):
    """One prompt a person typed, and what the agent made of it until the next one.

    ``id`` is stable over re-reads, resumes and forks of a session (the record's own uuid where there is one).
    ``at`` is ISO 8601 as recorded, "" where it is not. ``feedback`` says what *this* prompt says about the
    answer to the turn before it. ``final`` is the agent's last text of the turn, "" while it still works.
    ``files`` are paths the agent wrote or edited; ``skills`` the skills invoked.
    """

    id: str
    prompt: str
    kind: PromptKind = PromptKind.TYPED
    at: str = ""
    feedback: Feedback = Feedback.NEITHER
    final: str = ""
    tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    files: tuple[str, ...] = ()


class Session(Struct, frozen=True, kw_only=True):
    """One harvested conversation. Fields a session file does not record are ""."""

    source: str
    path: str
    session_id: str
    cwd: str = ""
    branch: str = ""
    commit: str = ""
    remote: str = ""
    """The remote of its repository, as ``repository.normalize_remote`` writes it."""
    model: str = ""
    started_at: str = ""
    ended_at: str = ""
    turns: tuple[Turn, ...] = ()


class SessionFile(Struct, frozen=True, kw_only=True):
    """A session file as the file system shows it, unopened. ``size`` in bytes, ``mtime_ns`` in nanoseconds."""

    path: str
    size: int
    mtime_ns: int


class Skip(Struct, frozen=True, kw_only=True):
    """Something that was not read, counted and named in the report. ``line`` is 1-based, 0 for a whole file."""

    path: str
    reason: str
    line: int = 0
    count: int = 1


class SessionKey(Struct, frozen=True, kw_only=True):
    """Where a waiting session lies in the archive, and which turns of it wait (ids of the first and the last)."""

    source: str
    path: str
    first_turn: str
    last_turn: str
    cwd: str = ""
    ended_at: str = ""
    model: str = ""
    remote: str = ""


def list_typed(turns: Iterable[Turn]) -> list[Turn]:
    """The turns that count as prompts of a person, in every count that this program shows."""
    return [turn for turn in turns if not turn.kind.weak]


def is_own_run(cwd: str, first_words: str) -> bool:
    """Whether a session was started by one of our replays: such a session is never harvested."""
    return OWN_RUN_MARKER in cwd or OWN_RUN_MARKER in first_words
