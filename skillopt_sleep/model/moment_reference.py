"""The reference of a task at a moment: what the person said there, what was done, and how that is told apart."""

from __future__ import annotations

import enum

from msgspec import Struct

from skillopt_sleep.model.move_check import MoveCheck

QUESTION = "Would this developer have to say it again?"


class ProofState(enum.StrEnum):
    """Whether a reference was seen to tell the rejected behaviour from the one that stood."""

    UNPROVEN = "unproven"
    PROVEN = "proven"
    INSEPARABLE = "does not separate"


class Proof(Struct, frozen=True, kw_only=True):
    """What became of a reference's proof."""

    state: ProofState = ProofState.UNPROVEN
    by: str = ""
    """``check`` or ``judge``."""
    judge: str = ""
    """The model whose judgement it is; a proof by another model does not count."""
    why: str = ""
    """In a sentence, for the report."""


class MomentReference(Struct, frozen=True, kw_only=True, tag="moment", tag_field="kind"):
    """What a good move at a moment is: the person does not have to say it again."""

    moment: str
    """The id of the moment that the lesson comes from."""
    words: tuple[str, ...]
    """What the person said there."""
    question: str = QUESTION
    about: str = ""
    """What the moment is about, in the person's words."""
    rejected: str = ""
    """What was done and rejected; at a sibling, what was done there."""
    stood: str = ""
    """What was done in the end; "" at a sibling."""
    cut: str = ""
    """Id of the step before which the session is cut when the agent itself is put back; "" if it cannot be."""
    branch: str = ""
    """The git branch of the session."""
    check: MoveCheck | None = None
    proof: Proof = Proof()
    sibling: bool = False
    """Whether this is another place where the lesson's check applies; nobody complained there."""
    teaches_only: str = ""
    """Why it may never vote; "" if it may."""

    @property
    def may_vote(self) -> bool:
        """Whether the gate may use it."""
        return self.proof.state is ProofState.PROVEN and not self.teaches_only
