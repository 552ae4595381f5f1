"""Rollouts: attempts of a model or an agent at a task, and their scores.

An agent receives an ``Assignment``, which is a prompt, and returns a ``Trajectory``, which is a reply, so both pass
through the same account, caps and ledger as any model call.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import fsum
from pathlib import PurePath

import msgspec
from msgspec import Struct

from skillopt_sleep.model.call import Bounds, Prompt, Reply
from skillopt_sleep.model.document import Document, DocumentKind
from skillopt_sleep.model.session import Step
from skillopt_sleep.model.text import sha256


class ReplayMode(enum.StrEnum):
    """How a task is replayed."""

    TEXT = "text"
    """One model call without tools; the documents are part of the prompt."""
    NATIVE = "native"
    """The agent itself works in an empty folder, where it loads the documents as its skill and its memory."""
    WORKTREE = "worktree"
    """As native, but in a throwaway copy of the project at the commit of the session."""


class Ending(enum.StrEnum):
    """How an agent's work ended. Every ending except ``done`` is the agent's own fault and scores 0."""

    DONE = "done"
    REFUSED = "refused"
    OUT_OF_TURNS = "out_of_turns"
    OUT_OF_TIME = "out_of_time"
    OUT_OF_ROOM = "out_of_room"
    BROKE_WORKSPACE = "broke_workspace"

    @property
    def in_words(self) -> str:
        """The ending as a clause about the agent, for the reason of a score."""
        return {
            Ending.DONE: "it finished",
            Ending.REFUSED: "it refused",
            Ending.OUT_OF_TURNS: "it ran out of turns",
            Ending.OUT_OF_TIME: "it ran out of time",
            Ending.OUT_OF_ROOM: "it filled its context",
            Ending.BROKE_WORKSPACE: "it broke its workspace",
        }[self]


class CheckCommand(Struct, frozen=True, kw_only=True):
    """A command, approved by the user, whose exit status tells good work from bad."""

    line: str
    seconds: float = 300.0
    """Time limit in seconds."""


class CommandRun(Struct, frozen=True, kw_only=True):
    """How a check command ended."""

    line: str
    status: int | None
    """Exit status; None when this program ended the command because of its time limit or its output."""
    seconds: float = 0.0
    tail: str = ""
    """The last part of the command's output."""
    flooded: bool = False
    """Whether this program ended the command because it printed more than 16 MB."""

    @property
    def passed(self) -> bool:
        """Whether the command's exit status is 0."""
        return self.status == 0


class CutKind(enum.StrEnum):
    """The point in a turn at which a recorded session is cut."""

    REQUEST = "request"
    """Before a prompt, with which the agent is resumed. ``cut`` is the prompt's record, or the agent's first reply."""
    DECISION = "decision"
    """In the middle of a turn, before a message of the agent; the agent is resumed with the word "continue"."""


STALE = "since the commit that was copied"
"""Last words of the note on which edits of the session are missing from the copy of the project."""


class PutBack(Struct, frozen=True, kw_only=True):
    """A place in a recorded session at which an agent is resumed, with the conversation up to that place."""

    source: str
    """Name of the agent that recorded the session."""
    path: str
    """The session file."""
    cut: str
    """The record before which the session is cut: its uuid (claude) or its line number, from 1 (codex)."""
    kind: CutKind = CutKind.DECISION


class Assignment(Prompt, frozen=True, kw_only=True):
    """A request (``user``) to an agent in a workspace of its own; ``system`` is added to the agent's instructions."""

    mode: ReplayMode
    documents: tuple[Document, ...] = ()
    """Documents that are put where the agent looks for them; a document without content is removed there."""
    project: str = ""
    """Path of the git project that is copied; "" for an empty workspace."""
    commit: str = ""
    """The commit of the project that is copied."""
    folder: str = ""
    """Working folder inside the project; "" for the project's top folder."""
    commands: tuple[CheckCommand, ...] = ()
    """Check commands that run in the workspace after the agent has ended."""
    put_back: PutBack | None = None
    """The place in a session at which the agent is resumed; None for a new session."""

    @property
    def digest(self) -> str:
        """Hex digest of everything the agent receives, without ``sample`` and ``within``."""
        fields = msgspec.to_builtins(msgspec.structs.replace(self, sample=0, within=Bounds()))
        if self.put_back is None:  # so that replies which an older version paid for are found
            del fields["put_back"]
        for document in fields["documents"]:
            if not document["beside"]:
                del document["beside"]
        return sha256(msgspec.json.encode(fields))


class Shown(Struct, frozen=True, kw_only=True):
    """Whether an agent loaded one document of the candidate, according to the agent's own records, not to the model."""

    kind: DocumentKind
    offered: bool | None
    """Whether the memory file was loaded, or the skill was listed; None when the records do not tell."""
    read: bool | None
    """Whether the document's text was sent to the model; None when the records do not tell."""
    how: str = ""
    """The evidence in the agent's records, in words for the report."""


class Trajectory(Reply, frozen=True, kw_only=True):
    """How an agent carried out an assignment; ``text`` is its last message."""

    ending: Ending = Ending.DONE
    turns: int = 0
    """Number of requests to the model, as far as the agent reports them."""
    shown: tuple[Shown, ...] = ()
    skills_called: tuple[str, ...] = ()
    changes: str = ""
    """Unified diff of the agent's changes to the workspace, shortened when long."""
    runs: tuple[CommandRun, ...] = ()
    """The results of the check commands."""
    note: str = ""
    """Anything else worth knowing about the ending."""
    steps: tuple[Step, ...] = ()
    """For an agent resumed in a session: what it did from there on; the output of tools is shortened."""


def get_skill_name(document: Document) -> str:
    """Return the name by which an agent knows a skill, which is the name of the skill's folder."""
    return PurePath(document.path).parent.name


def explain_not_loaded(assignment: Assignment, trajectory: Trajectory) -> str:
    """Return why an attempt does not count as a trial of the candidate; "" when the attempt counts.

    A document that the agent did not load was not tried. Whether the agent then opens a skill is the agent's choice.
    """
    found = {shown.kind: shown for shown in trajectory.shown}
    for document in assignment.documents:
        shown = found.get(document.kind)
        if document.content is not None and shown is not None and shown.offered is False:
            return f"the agent did not load the {document.kind}: {shown.how}"
    return ""


class GateMetric(enum.StrEnum):
    """The number of a score that decides: pass or fail (hard), the grade (soft), or a weighted mean of both."""

    HARD = "hard"
    SOFT = "soft"
    MIXED = "mixed"


class Score(Struct, frozen=True, kw_only=True):
    """How good an answer is, according to a judge."""

    hard: float
    """1 for pass, 0 for fail."""
    soft: float
    """A grade between 0 and 1."""
    rationale: str = ""
    """The judge's reason, in a sentence."""


class ReplayResult(Struct, frozen=True, kw_only=True):
    """One rollout. When an agent made it, the fields from ``ending`` on are copied from its ``Trajectory``."""

    task_id: str
    candidate: str
    """Digest of the candidate that was tried."""
    sample: int = 0
    """Number of a repeated rollout of the task, from 0."""
    response: str = ""
    tools_called: tuple[str, ...] = ()
    score: Score | None = None
    """The judge's score; None when the rollout is *unmeasured* because its call failed, which never counts as 0."""
    call_error: str = ""
    """Why the rollout is unmeasured; "" for a measured one."""
    latency: float = 0.0
    """Duration of the call in seconds."""
    mode: ReplayMode = ReplayMode.TEXT
    ending: Ending = Ending.DONE
    shown: tuple[Shown, ...] = ()
    bypassed: bool = False
    """Whether the agent was offered a skill and never opened it."""
    changes: str = ""
    runs: tuple[CommandRun, ...] = ()
    model: str = ""
    """The model that answered, as the provider names it."""
    version: str = ""
    """Version of the agent's command line; "" when there is none or its version is not known."""
    answered_at: str = ""
    """Time when the reply came, ISO 8601; "" for a reply that an earlier version of this program stored."""
    note: str = ""

    @property
    def work(self) -> str:
        """Everything that a judge looks at: the answer, and a diff of the changed files."""
        if not self.changes:
            return self.response
        return f"{self.response}\n\nWhat it changed in the files, as a diff:\n\n{self.changes}"


class RolloutStats(Struct, frozen=True, kw_only=True):
    """Summary of the measured rollouts of one task, under one metric."""

    task_id: str
    best: float
    worst: float
    spread: float
    """``best`` minus ``worst``."""
    pass_rate: float
    """Mean of the hard scores."""
    measured: int
    """Number of measured rollouts."""


def combine(score: Score, metric: GateMetric, mixed_weight: float) -> float:
    """Return a score as one number; ``mixed_weight``, from 0 to 1, is the weight of ``soft`` in the mixed metric."""
    match metric:
        case GateMetric.HARD:
            return score.hard
        case GateMetric.SOFT:
            return score.soft
        case GateMetric.MIXED:
            return (1.0 - mixed_weight) * score.hard + mixed_weight * score.soft


def summarize_rollouts(results: Sequence[ReplayResult], metric: GateMetric, mixed_weight: float) -> RolloutStats | None:
    """Return a summary of the rollouts of one task, or None when none was measured."""
    scores = [result.score for result in results if result.score is not None]
    if not scores:
        return None
    values = [combine(score, metric, mixed_weight) for score in scores]
    return RolloutStats(
        task_id=results[0].task_id,
        best=max(values),
        worst=min(values),
        spread=max(values) - min(values),
        pass_rate=fsum(score.hard for score in scores) / len(scores),
        measured=len(scores),
    )
