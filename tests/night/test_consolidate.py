"""A pending edit over the nights of ``consolidate``, beside the proposals that come with them."""

from __future__ import annotations

from random import Random

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.edit import EditStatus
from skillopt_sleep.model.rollout import GateMetric
from skillopt_sleep.night.consolidate import consolidate
from skillopt_sleep.night.plan import ConsolidatePlan
from tests.benchmarks.gate_cells import Cell, Judge, tasks_of
from tests.benchmarks.gate_driven import BASELINE, MemoryLedger, connect, pools

HARM = Cell(tasks=2, judge=Judge.BINARY, base=1.0, effect=-1.0)
"""Two val tasks, broken by the rule that every reflection proposes."""


def night(number: int, pending=()):
    """One night whose train task fails, so that its reflection proposes the rule once more."""
    models = connect(HARM, tasks_of(HARM, Random(0)), MemoryLedger(), Random(0))
    plan = ConsolidatePlan(gate_metric=GateMetric.HARD, evolve_memory=False)
    return consolidate(BASELINE, pools(HARM), plan, models, night=f"n{number}", seed=number, pending=pending)


def test_edit_rejected_tonight_is_not_tried_again_tonight():
    """A pending edit that is rejected tonight is not proposed again tonight as a new edit."""
    first = night(0)
    assert [step.decision.verdict for step in first.steps] == [Verdict.UNDECIDED]
    second = night(1, first.pending)
    gone, proposed = second.steps
    assert (gone.decision.verdict, gone.since) == (Verdict.REJECT, "n0")
    assert [edit.status for edit in proposed.edits] == [EditStatus.SKIPPED]
    assert proposed.trial is None
    assert second.pending == ()
