"""Moments: places in a session where the person stepped in, from which an agent can be run again.

A task at a moment is judged by its ``MomentReference``: what the person said there, what was done, and what tells the
two apart.
"""

from __future__ import annotations

import enum

from msgspec import Struct

from skillopt_sleep.model.move_check import MoveCheck

QUESTION = "Would this developer have to say it again?"


class MomentKind(enum.StrEnum):
    """How the person stepped in."""

    REFUSED = "refused"
    """They refused a tool call."""
    INTERRUPTED = "interrupted"
    """They stopped the agent and said why."""
    CORRECTED = "corrected"
    """They corrected the finished answer."""
    APPROVED = "approved"
    """They approved: a guard, as this must not get worse."""
    REPEATED = "repeated"
    """They asked for the same in several sessions."""


class Acceptance(enum.StrEnum):
    """How the person received the final version of the work, as their later words tell."""

    CONFIRMED = "confirmed"
    """They approved, committed or pushed the work."""
    PASSED_OVER = "passed over"
    """They moved on to something else."""
    NONE = "none"
    """They said nothing more in this session."""
    REJECTED = "rejected"


class Basis(enum.StrEnum):
    """How the step was found in which the agent committed to what the person rejected."""

    STRUCTURE = "structure"
    """The step is the refused or interrupted call, or the only one that said or changed anything."""
    WORDS = "words"
    """The step shares words with the correction; a model may name another."""
    GUESS = "guess"
    """The step is a guess; a model may name another."""
    MODEL = "model"
    """A model named the step, which was checked to come before the correction."""


class Moment(Struct, frozen=True, kw_only=True):
    """One place where the person stepped in; the behaviour in it is rendered from steps, redacted and bounded."""

    id: str
    """A digest of the session and of the turn in which the person stepped in."""
    kind: MomentKind
    source: str
    session_id: str
    path: str
    project: str = ""
    """The working folder of the session."""
    branch: str = ""
    at: str = ""
    """When the person stepped in, ISO 8601."""
    turn: str
    """Id of the turn whose work was rejected (or approved)."""
    request: str
    """What the person had asked in that turn."""
    words: tuple[str, ...]
    """What the person said about that work: the corrections of one chain on one subject, in order."""
    words_turns: tuple[str, ...] = ()
    """Ids of the turns that ``words`` began; "" for words typed while refusing a call."""
    step: str = ""
    """Id of the step with which the agent committed to what was rejected: the replay is cut before it."""
    basis: Basis = Basis.GUESS
    """How ``step`` was found."""
    rejected: str = ""
    """What the agent did from that step on."""
    stood: str = ""
    """What the agent did after the last correction of the chain."""
    acceptance: Acceptance = Acceptance.NONE
    void: str = ""
    """Why this place is no moment after all; "" for a moment."""
    teaches_only: str = ""
    """Why it may teach but never vote (changed mind, contradictory corrections, not knowable then), or "" if it may."""
    group: str = ""
    """Id of the chain of corrections that it belongs to; moments of one group are one request."""


class ProofState(enum.StrEnum):
    """Whether a reference was shown to tell the rejected behaviour from the one that stood."""

    UNPROVEN = "unproven"
    PROVEN = "proven"
    INSEPARABLE = "does not separate"


class Proof(Struct, frozen=True, kw_only=True):
    """Result of the attempt to prove a reference."""

    state: ProofState = ProofState.UNPROVEN
    by: str = ""
    """What proved it: ``check`` or ``judge``."""
    judge: str = ""
    """The model that judged; a proof by any other model does not count."""
    why: str = ""
    """Reason for the state, as a sentence for the report."""


class MomentReference(Struct, frozen=True, kw_only=True, tag="moment", tag_field="kind"):
    """What makes a move at a moment good: that the person need not repeat their correction."""

    moment: str
    """The id of the moment that the lesson comes from."""
    words: tuple[str, ...]
    """What the person said there."""
    question: str = QUESTION
    about: str = ""
    """What the moment is about, in the person's words."""
    rejected: str = ""
    """What the agent did and the person rejected; at a sibling, what the agent did there."""
    stood: str = ""
    """What the agent did in the end; "" at a sibling."""
    cut: str = ""
    """Id of the step before which the session is cut to resume the agent there; "" if it cannot be."""
    branch: str = ""
    """The git branch of the session."""
    check: MoveCheck | None = None
    proof: Proof = Proof()
    sibling: bool = False
    """Whether the task is at another place where the lesson's check applies, and nobody complained."""
    teaches_only: str = ""
    """Why the task may never vote; "" if it may."""

    @property
    def may_vote(self) -> bool:
        """Whether the gate may count the task in a verdict."""
        return self.proof.state is ProofState.PROVEN and not self.teaches_only
