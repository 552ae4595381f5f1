"""What a night is expected to cost, before a single call is made.

Expect: what the night will take, known as soon as its tasks are, to be compared with what it took.

Rehearse: a night up to the first call, so that its tasks and its price are known before anything is spent.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.gate.pending import tonight
from skillopt_sleep.gate.rule import MOST_LOSSES, PAIRS_A_NIGHT, GateMode
from skillopt_sleep.mining.heuristic import mine_heuristic
from skillopt_sleep.mining.model_miner import split_batches
from skillopt_sleep.mining.tasks import group_given_tasks, merge_tasks
from skillopt_sleep.model.call import Expected
from skillopt_sleep.model.task import Shortfall, TaskRecord, may_ask_model, shortfall
from skillopt_sleep.night.harvest import harvest
from skillopt_sleep.night.plan import Kit, NightPlan
from skillopt_sleep.night.pools import Pools, split_tasks
from skillopt_sleep.night.report import NightReport
from skillopt_sleep.night.select_tasks import choose

USUAL_PAIRS = 12
CONFIRMING = 2
"""Pairs by which the loss of a task under an accepted edit is looked at again."""


class Rehearsal(Struct, frozen=True, kw_only=True):
    """A night as it would begin now. ``shortfall`` says how far the tasks are from carrying a verdict."""

    project: str
    sessions: int
    waiting: int
    out_of_scope: int
    pools: Pools
    expected: tuple[Expected, ...]
    cap: int
    refused: int = 0
    shortfall: Shortfall = Shortfall()

    @property
    def most_calls(self) -> int:
        """Calls the night would make at most, without its cap."""
        return sum(each.most for each in self.expected)

    @property
    def usual_calls(self) -> int:
        """Calls that such a night makes as a rule."""
        return sum(each.usual for each in self.expected)


def expected_calls(
    pools: Pools,
    *,
    samples: int,
    documents: int,
    mode: GateMode,
    mining_batches: int,
    sealed: bool = False,
    probed: bool = False,
    pending: int = 0,
) -> tuple[Expected, ...]:
    """Count the calls of a night by phase.

    A rollout is one call, and one more where a rubric judges. The least is a night whose first document is proposed
    nothing; the most accepts the first document, so that train is rolled out anew under it, and has every paired trial
    go on as long as a night allows and then replay what it lost twice more. As a rule train is rolled out once, every
    document is proposed something, and a trial ends after a round over val, or the dozen pairs it takes on average
    where nothing comes of it (docs/gate.md). ``pending`` counts the undecided edits
    that take their turn before it, each with a trial of its own. ``sealed``: an adopted change waits to be scored on
    the sealed tasks, in two answers each, and one judge for both. ``probed``: what was tried as text is tried once by
    the agent itself. It is about that: a verdict nobody can read is asked for again.
    """
    train = sum(_calls(task) for task in pools.train) * samples
    worthwhile = bool(pools.train) and (bool(pools.val) or mode is GateMode.OFF)
    going_on = pending if pools.val and mode is GateMode.PAIRED else 0
    contrasts = 2 if samples > 1 else 1
    phases = [Expected(phase="mine", least=mining_batches, most=mining_batches, usual=mining_batches)]
    if worthwhile:
        phases += [
            Expected(phase="train", least=train, most=train * documents, usual=train),
            Expected(phase="reflect", least=0, most=contrasts * documents, usual=contrasts * documents),
        ]
    if worthwhile and mode is GateMode.STRICT:
        val = sum(_calls(task) for task in pools.val) * (documents + 1)
        phases.append(Expected(phase="val", least=0, most=val, usual=val))
    if trials := going_on + (documents if worthwhile and mode is GateMode.PAIRED else 0):
        dearest = max(_calls(task) for task in pools.val) + 1  # two answers, and one judge for both
        pairs = PAIRS_A_NIGHT + CONFIRMING * min(MOST_LOSSES, len(pools.val))
        usual = min(USUAL_PAIRS, len(pools.val))
        phases.append(Expected(phase="val", least=0, most=trials * pairs * dearest, usual=trials * usual * dearest))
    if worthwhile and probed:
        phases.append(Expected(phase="load", least=0, most=1, usual=1))
    if sealed and pools.test:
        sealed_calls = sum(_calls(task) + 1 for task in pools.test)
        phases.append(Expected(phase="test", least=0, most=sealed_calls, usual=sealed_calls))
    return tuple(phases)


def _calls(task: TaskRecord) -> int:
    return 2 if may_ask_model(task.reference) else 1


class Outlook(Struct, frozen=True, kw_only=True):
    """Calls by phase, at least and at most, of all that is still to come."""

    phases: tuple[Expected, ...]

    def add_to(self, report: NightReport) -> NightReport:
        """Contribute to the night's report."""
        return replace(report, expected=self.phases)


def expect(pools: Pools, plan: NightPlan) -> Outlook:
    """Count the calls that the pools will take; mining is over."""
    phases = expected_calls(
        pools,
        samples=plan.step.rollouts_k,
        documents=len(plan.step.kinds),
        mode=plan.step.gate_mode,
        mining_batches=0,
        sealed=plan.adopted is not None,
        probed=plan.manner.probes,
        pending=len(tonight(plan.going_on)[0]),
    )
    return Outlook(phases=tuple(each for each in phases if each.most))


def rehearse(plan: NightPlan, kit: Kit) -> Rehearsal:
    """Harvest, mine by rules and split with the stores of ``kit``, which are to be copies; no model is called.

    Tasks that a model would mine are not known yet: those that rules find stand for them.
    """
    harvested = harvest(kit.sources, plan.window, kit.inbox, kit.redact)
    sessions = [kit.inbox.load(key) for key in harvested.sessions]
    scope = plan.window.scope
    refused = 0
    if plan.mining.given is not None:
        known = tasks = group_given_tasks(kit.archive.tasks(scope), plan.mining.given)
    else:
        mined = mine_heuristic(sessions)
        refused = len(mined.refused)
        kit.archive.commit(scope, merge_tasks(kit.archive.tasks(scope), mined.tasks), harvested.sessions)
        known = kit.archive.tasks(scope)
        tasks = choose(known, kit.archive.past(scope), plan.split, plan.going_on)
    pools = split_tasks(tasks, plan.split)
    expected = expected_calls(
        pools,
        samples=plan.step.rollouts_k,
        documents=len(plan.step.kinds),
        mode=plan.step.gate_mode,
        mining_batches=len(split_batches(sessions)) if plan.mining.by_model else 0,
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
