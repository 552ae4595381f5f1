"""What a night is expected to cost, before a single call is made."""

from __future__ import annotations

from msgspec import Struct

from skillopt_sleep.domain.budget import Expected
from skillopt_sleep.domain.paired import PAIRS_A_NIGHT
from skillopt_sleep.domain.shortfall import Shortfall
from skillopt_sleep.domain.split import Pools
from skillopt_sleep.domain.task import RubricReference, TaskRecord
from skillopt_sleep.domain.verdict import MOST_LOSSES, GateMode

__all__ = ["Expected", "Rehearsal", "expected_calls"]

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
    return 2 if isinstance(task.reference, RubricReference) else 1
