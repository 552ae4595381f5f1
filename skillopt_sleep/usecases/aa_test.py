"""A trial of a change that changes nothing, on request: the one verdict whose right answer is known."""

from __future__ import annotations

import secrets
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skillopt_sleep.errors import UsageError
from skillopt_sleep.gate import audit as rule
from skillopt_sleep.gate.rule import Tally
from skillopt_sleep.gate.trial import PairedPlan, run_paired
from skillopt_sleep.mining.recurrences import grouped
from skillopt_sleep.model.session import SessionKey
from skillopt_sleep.night.connection import probe
from skillopt_sleep.night.harvest import Harvested
from skillopt_sleep.night.outcome import base_replays
from skillopt_sleep.night.pools import split_tasks
from skillopt_sleep.storage.ledger import NightLedger
from skillopt_sleep.storage.lock import one_night
from skillopt_sleep.storage.space import check_disk

if TYPE_CHECKING:
    from skillopt_sleep.gate.audit import NullTrial
    from skillopt_sleep.model.task import TaskRecord
    from skillopt_sleep.night.plan import NightPlan
    from skillopt_sleep.usecases.app import App

APART = 250
"""Added to the numbers of the second arm's replays: they are calls of their own, far from those of the first."""


def null_trial(app: App, given: tuple[TaskRecord, ...] | None = None) -> NullTrial:
    """Replay val tasks under the live files twice, as baseline and as candidate, through the trial of a night.

    Nothing is proposed, staged or counted as tried; the replays are kept for the audit. Raises ``UsageError`` when
    there are no tasks, ``NightRunning``, ``FatalBackend``, and ``BudgetSpent`` when not one pair could be paid for.
    """
    with one_night(app.data_dir):
        check_disk(app.database, app.project)
        plan = app.plan(given)
        tasks = _tasks(app, plan)
        name = f"{rule.ON_REQUEST}{app.clock.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        seed = plan.split.seed or secrets.randbelow(2**31 - 1) + 1
        ledger = NightLedger(app.database, night=name, sitting=1)
        with closing(app.kit(plan).connect(ledger, _usual(app))) as connection:
            probe(connection).require_ready()
            models = connection.models
            step = plan.step
            trial = run_paired(
                tasks,
                plan.baseline,
                plan.baseline,
                models,
                PairedPlan(
                    k=step.k,
                    metric=step.gate_metric,
                    mixed_weight=step.gate_mixed_weight,
                    seed=seed,
                    first_sample=0,
                    apart=APART,
                ),
            )
    project = str(app.project)
    replays = base_replays(name, models.target.model, [("val", trial.baseline), ("val", trial.candidate)])
    app.trials.note(project, name, replays, trial.position)
    found = rule.audit(
        app.trials.replays(project),
        app.trials.position(project),
        metric=step.gate_metric,
        mixed_weight=step.gate_mixed_weight,
        val_tasks=len(tasks),
        k=step.k,
    )
    return rule.NullTrial(
        tasks=len(trial.measured),
        tally=trial.tally or Tally(),
        k=step.k,
        verdict=trial.decision.verdict,
        why=trial.decision.why,
        spend=ledger.spent(),
        audit=found,
    )


def _tasks(app: App, plan: NightPlan) -> tuple[TaskRecord, ...]:
    """As many as a night tests on, val first; none that is sealed."""
    if plan.mining.given is not None:
        pools = split_tasks(grouped(plan.mining.given), plan.split)
    else:
        pools = split_tasks(app.archive.tasks(app.scope), plan.split, app.archive.past(app.scope))
    tasks = (*pools.val, *pools.train)[: plan.split.max_val]
    if not tasks:
        raise UsageError("there are no tasks to replay yet; `skillopt-sleep run` finds some in your sessions")
    return tasks


def _usual(app: App) -> Harvested:
    """The models of the last night, where none was asked for: what is audited is what nights do."""
    for night in app.journal.reports(str(app.project)):
        keys = [
            SessionKey(source=each.backend, path="", first_turn="", last_turn="", model=each.model)
            for each in night.backends
            if each.model and each.ready
        ]
        if keys:
            return replace(Harvested(), sessions=tuple(keys))
    return Harvested()
