"""Compares an answer literally with the one the person accepted.

For answers that are one short literal: a name, a number, a commit message that must be just so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from skillopt_sleep.errors import UsageError
from skillopt_sleep.model.ports import Ask
from skillopt_sleep.model.rollout import ReplayResult, Score
from skillopt_sleep.model.task import ExactReference, TaskRecord
from skillopt_sleep.model.text import excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactJudge:
    """Hard: equal with white space folded, case kept. Soft: F1 of the words, the measure of SQuAD. No model call."""

    @property
    def name(self) -> str:
        """The kind of reference it scores."""
        return "exact"

    def score(self, task: TaskRecord, rollout: ReplayResult, ask: Ask) -> Score:  # noqa: ARG002  no model needed
        """Score a response against ``ExactReference.answer``."""
        if not isinstance(task.reference, ExactReference):
            raise UsageError(f"task {task.id}: the judge exact needs an exact reference")
        wanted, given = task.reference.answer.split(), rollout.response.split()
        if wanted == given:
            return Score(hard=1.0, soft=1.0, rationale="exactly the accepted answer")
        shared = (Counter(wanted) & Counter(given)).total()
        soft = 2.0 * shared / (len(wanted) + len(given))
        return Score(hard=0.0, soft=soft, rationale=f"not {excerpt(task.reference.answer, 80)!r}")


PLUGIN = ExactJudge
