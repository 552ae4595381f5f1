"""One night, from the person's sessions to a proposal on the table."""

from __future__ import annotations

from contextlib import closing

from msgspec.structs import replace

from skillopt_sleep.night.connection import probe
from skillopt_sleep.night.consolidate import consolidate
from skillopt_sleep.night.forecast import expect
from skillopt_sleep.night.harvest import harvest
from skillopt_sleep.night.load_check import load
from skillopt_sleep.night.outcome import evidence
from skillopt_sleep.night.plan import Kit, NightPlan, recollect
from skillopt_sleep.night.report import NightReport
from skillopt_sleep.night.sealed_test import unseal
from skillopt_sleep.night.select_tasks import gather, prepare, split
from skillopt_sleep.night.staging import audit, stage


def run_night(plan: NightPlan, kit: Kit) -> NightReport:
    """Run or resume a night; the report is also on disk, after every stage and however the night ends.

    Raises ``DiskError`` and what is a bug; every other end is in the report, with its exit code.
    """
    with kit.journal.open(plan.blank_report(), plan.fingerprint) as night:
        sessions = night.stage("harvest", harvest, kit.sources, plan.window, kit.inbox, kit.redact)
        with closing(kit.connect(night.ledger, sessions)) as connection:
            if plan.mining.given or sessions.sessions or plan.going_on or kit.archive.fresh(plan.window.scope):
                night.look("probe", probe, connection).require_ready()
            found = night.stage("mine", gather, sessions, plan, kit, connection.models, night.seed)
            tasks = night.stage("prepare", prepare, found, plan.manner, kit.commit_of)
            pools = night.stage("split", split, tasks, plan.split, night.seed)
            night.look("expect", expect, pools, plan)
            past = night.stage("recollect", recollect, plan, (*kit.archive.tasks(plan.window.scope), *tasks.tasks))
            plan = replace(plan, step=past.settings(plan.step))
            outcome = night.stage(
                "consolidate",
                consolidate,
                plan.baseline,
                pools,
                plan.step,
                connection.models,
                night=night.id,
                seed=night.seed,
                rejected=past.rejected,
                pending=past.pending,
                closed=plan.closed,
            )
            night.stage("load", load, outcome, connection.models)
            left = plan.caps.calls - night.ledger.spent().calls
            night.stage("unseal", unseal, night.id, plan, pools.test, connection.models, kit.trials, calls_left=left)
        night.evidence(evidence(night.id, outcome))
        night.stage("stage", stage, night.id, outcome, plan, kit)
        night.stage("audit", audit, night.id, outcome, plan, kit.trials)
    return night.report()
