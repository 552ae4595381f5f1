"""Rehearse: a night up to the first call, so that its tasks and its price are known before anything is spent."""

from __future__ import annotations

from skillopt_sleep.domain.expect import Rehearsal, expected_calls
from skillopt_sleep.domain.pending import tonight
from skillopt_sleep.domain.shortfall import shortfall
from skillopt_sleep.domain.split import split_tasks
from skillopt_sleep.night.gather import choose
from skillopt_sleep.night.harvest import harvest
from skillopt_sleep.night.merge import beside, merge
from skillopt_sleep.night.mine_heuristic import mine_heuristic
from skillopt_sleep.night.mine_model import batches
from skillopt_sleep.night.plan import Kit, NightPlan

__all__ = ["rehearse"]


def rehearse(plan: NightPlan, kit: Kit) -> Rehearsal:
    """Harvest, mine by rules and split with the stores of ``kit``, which are to be copies; no model is called.

    Tasks that a model would mine are not known yet: those that rules find stand for them.
    """
    harvested = harvest(kit.sources, plan.window, kit.inbox, kit.redact)
    sessions = [kit.inbox.load(key) for key in harvested.sessions]
    scope = plan.window.scope
    refused = 0
    if plan.mining.given is not None:
        known = tasks = beside(kit.archive.tasks(scope), plan.mining.given)
    else:
        mined = mine_heuristic(sessions)
        refused = len(mined.refused)
        kit.archive.commit(scope, merge(kit.archive.tasks(scope), mined.tasks), harvested.sessions)
        known = kit.archive.tasks(scope)
        tasks = choose(known, kit.archive.past(scope), plan.split, plan.going_on)
    pools = split_tasks(tasks, plan.split)
    expected = expected_calls(
        pools,
        samples=plan.step.rollouts_k,
        documents=len(plan.step.kinds),
        mode=plan.step.gate_mode,
        mining_batches=len(batches(sessions)) if plan.mining.by_model else 0,
        sealed=plan.adopted is not None,
        probed=plan.manner.probes,
        pending=len(tonight(plan.going_on)[0]),
    )
    return Rehearsal(
        project=plan.project,
        sessions=len(sessions),
        waiting=harvested.counts.waiting,
        out_of_scope=harvested.counts.out_of_scope,
        pools=pools,
        expected=expected,
        cap=plan.caps.calls,
        refused=refused,
        shortfall=shortfall(known),
    )
