"""A judge with a reference of its own: an answer must be loud enough."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from skillopt_sleep.model.ports import Ask
from skillopt_sleep.model.rollout import ReplayResult, Score
from skillopt_sleep.model.task import TaskRecord, require_reference


class LoudReference(Struct, frozen=True, kw_only=True, tag="loud", tag_field="kind"):
    """How many honks an answer needs."""

    honks: int

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a number that no answer could miss."""
        if self.honks < 1:
            raise ValueError(f"honks is a number from 1, not {self.honks}")


@dataclass(frozen=True, kw_only=True)
class LoudJudge:
    """Counts honks."""

    name = "loud"
    reference = LoudReference

    def score(self, task: TaskRecord, rollout: ReplayResult, ask: Ask) -> Score:
        """Full marks for as many honks as the reference wants."""
        wanted, found = require_reference(task, LoudReference).honks, rollout.response.count("honk")
        return Score(hard=float(found >= wanted), soft=min(1.0, found / wanted), rationale=f"{found} honks")
