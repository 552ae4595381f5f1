"""One attempt at one task under one candidate, its score, and what several attempts say together.

Work for an agent rather than a question for a model: what it is given, and what is known of how it went.

An assignment is a prompt, and a trajectory a reply, so both pass through the same account, caps and ledger as any call.
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
from skillopt_sleep.model.text import sha256


class ReplayMode(enum.StrEnum):
    """What an attempt at a task is.

    Text: one answer, the documents in the prompt, no tools. Native: the agent itself, which loads the documents as its
    skill and its memory, in an empty folder. Worktree: native, in a throwaway copy of the project as it was then.
    """

    TEXT = "text"
    NATIVE = "native"
    WORKTREE = "worktree"


class Ending(enum.StrEnum):
    """How an agent's work ended. All but ``done`` are its own doing, and score 0."""

    DONE = "done"
    REFUSED = "refused"
    OUT_OF_TURNS = "out_of_turns"
    OUT_OF_TIME = "out_of_time"
    OUT_OF_ROOM = "out_of_room"
    BROKE_WORKSPACE = "broke_workspace"

    @property
    def in_words(self) -> str:
        """The ending as a clause about the agent."""
        return {
            Ending.DONE: "it finished",
            Ending.REFUSED: "it refused",
            Ending.OUT_OF_TURNS: "it ran out of turns",
            Ending.OUT_OF_TIME: "it ran out of time",
            Ending.OUT_OF_ROOM: "it filled its context",
            Ending.BROKE_WORKSPACE: "it broke its workspace",
        }[self]


class CheckCommand(Struct, frozen=True, kw_only=True):
    """A command that tells good work from bad by its exit status, approved by the user; ``seconds`` is its limit."""

    line: str
    seconds: float = 300.0


class CommandRun(Struct, frozen=True, kw_only=True):
    """How such a command ended. ``status`` is its exit status, None when it was ended.

    It ran out of time then, or, when ``flooded``, printed more than is kept for a program (16 MB).
    """

    line: str
    status: int | None
    seconds: float = 0.0
    tail: str = ""
    flooded: bool = False

    @property
    def passed(self) -> bool:
        """Whether it ended well."""
        return self.status == 0


class Assignment(Prompt, frozen=True, kw_only=True):
    """A request, ``user``, to an agent in a workspace of its own; ``system`` is said to it beside its own instructions.

    ``documents`` are put where the agent looks for them; one without content is kept away. ``project`` is the git
    project whose copy at ``commit`` it works in, and ``folder`` the folder in it where it stands; both are "" for an
    empty workspace. ``commands`` are run there when it has ended.
    """

    mode: ReplayMode
    documents: tuple[Document, ...] = ()
    project: str = ""
    commit: str = ""
    folder: str = ""
    commands: tuple[CheckCommand, ...] = ()

    @property
    def digest(self) -> str:
        """Hex digest of everything the agent is given (``sample`` and ``within`` are no part of it)."""
        return sha256(msgspec.json.encode(msgspec.structs.replace(self, sample=0, within=Bounds())))


class Shown(Struct, frozen=True, kw_only=True):
    """What the agent's own records say about one document of the candidate; the model is not asked.

    ``offered``: a memory file was loaded, a skill was listed. ``read``: its text went to the model. None means that
    this agent's records do not tell.
    """

    kind: DocumentKind
    offered: bool | None
    read: bool | None
    how: str = ""


class Trajectory(Reply, frozen=True, kw_only=True):
    """How an agent fulfilled an assignment; ``text`` is the last it said.

    ``turns`` counts its requests to the model, as far as the agent tells. ``changes`` is a unified diff of the
    workspace, cut when long. ``note`` says what else is worth knowing.
    """

    ending: Ending = Ending.DONE
    turns: int = 0
    shown: tuple[Shown, ...] = ()
    skills_called: tuple[str, ...] = ()
    changes: str = ""
    runs: tuple[CommandRun, ...] = ()
    note: str = ""


def skill_name(document: Document) -> str:
    """The name an agent knows a skill by: that of its folder."""
    return PurePath(document.path).parent.name


def not_shown(assignment: Assignment, trajectory: Trajectory) -> str:
    """Why the trajectory says nothing about the candidate, "" when it does.

    A document that the agent did not load has not been tried; whether a skill is then used is the agent's own choice.
    """
    found = {each.kind: each for each in trajectory.shown}
    for document in assignment.documents:
        shown = found.get(document.kind)
        if document.content is not None and shown is not None and shown.offered is False:
            return f"the agent did not load the {document.kind}: {shown.how}"
    return ""


class GateMetric(enum.StrEnum):
    """Which number of a score decides: pass / fail, the graded one, or a weighted mean of both."""

    HARD = "hard"
    SOFT = "soft"
    MIXED = "mixed"


class Score(Struct, frozen=True, kw_only=True):
    """``hard`` is 0 or 1, ``soft`` lies in [0, 1]; ``rationale`` says why in a sentence."""

    hard: float
    soft: float
    rationale: str = ""


class ReplayResult(Struct, frozen=True, kw_only=True):
    """One rollout. ``score`` is None when it is *unmeasured*: transport lost it, and ``call_error`` says how.

    A result without a score is never counted as 0. ``sample`` numbers repeated rollouts of one task from 0.
    ``latency`` is in seconds. The fields from ``ending`` on are of an agent at work (see ``domain/assignment.py``);
    ``bypassed`` says that it had a skill in front of it and never opened it.
    """

    task_id: str
    candidate: str
    sample: int = 0
    response: str = ""
    tools_called: tuple[str, ...] = ()
    score: Score | None = None
    call_error: str = ""
    latency: float = 0.0
    mode: ReplayMode = ReplayMode.TEXT
    ending: Ending = Ending.DONE
    shown: tuple[Shown, ...] = ()
    bypassed: bool = False
    changes: str = ""
    runs: tuple[CommandRun, ...] = ()

    @property
    def work(self) -> str:
        """All there is to judge: the answer and, where files were changed, the changes."""
        if not self.changes:
            return self.response
        return f"{self.response}\n\nWhat it changed in the files, as a diff:\n\n{self.changes}"


class RolloutStats(Struct, frozen=True, kw_only=True):
    """What the measured rollouts of one task say: all under one metric, ``pass_rate`` the mean of ``hard``."""

    task_id: str
    best: float
    worst: float
    spread: float
    pass_rate: float
    measured: int


def combine(score: Score, metric: GateMetric, mixed_weight: float) -> float:
    """The one number a metric makes of a score; ``mixed_weight`` in [0, 1] is the share of ``soft`` in mixed."""
    match metric:
        case GateMetric.HARD:
            return score.hard
        case GateMetric.SOFT:
            return score.soft
        case GateMetric.MIXED:
            return (1.0 - mixed_weight) * score.hard + mixed_weight * score.soft


def rollout_stats(results: Sequence[ReplayResult], metric: GateMetric, mixed_weight: float) -> RolloutStats | None:
    """Best, worst, spread and pass rate over the measured rollouts of one task; None when none was measured."""
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
