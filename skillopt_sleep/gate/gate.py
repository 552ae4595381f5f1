"""Gate: run the trial of a candidate against its baseline on the val tasks, and let the pure rule decide."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.gate.account import Arm
from skillopt_sleep.gate.audit import Position
from skillopt_sleep.gate.rule import Decision, Pair, Result, Tally, decide_strict
from skillopt_sleep.model.document import Candidate
from skillopt_sleep.model.rollout import GateMetric, ReplayResult, combine
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.optimizer.replay import Attempt, Models, replay


class Trial(Struct, frozen=True, kw_only=True):
    """Both arms of a comparison, pair by pair, and the decision.

    ``tally`` and ``k`` are of the paired rule: the pairs over the edit's whole life, and the score that accepts it.
    Of an accepted edit, ``confirmed_regressions`` are tasks that lost tonight and twice more; of the ``unconfirmed``
    that could not be found out, and ``losses_before`` counts the pairs lost in earlier nights, which are not replayed
    again.
    ``cut`` says which cap ended the trial for tonight, "" for none. ``results`` are what the pairs counted, None where
    transport lost one; ``firsts`` the arms that a judge saw first, None where no call showed it both answers.
    """

    decision: Decision
    baseline: tuple[ReplayResult, ...]
    candidate: tuple[ReplayResult, ...]
    improved: tuple[str, ...] = ()
    worsened: tuple[str, ...] = ()
    confirmed_regressions: tuple[str, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    losses_before: int = 0
    tally: Tally | None = None
    k: int | None = None
    cut: str = ""
    results: tuple[Result | None, ...] = ()
    firsts: tuple[Arm | None, ...] = ()

    @property
    def position(self) -> Position:
        """Which place won, of the pairs whose answers a judge saw in one call."""
        seen = zip(self.firsts, self.results, strict=True)
        judged = [(first, result) for first, result in seen if first is not None and result is not None]
        decided = [(first, result) for first, result in judged if result is not Result.TIE]
        won = sum((first is Arm.CANDIDATE) is (result is Result.WIN) for first, result in decided)
        return Position(first=won, second=len(decided) - won, ties=len(judged) - len(decided))

    @property
    def measured(self) -> tuple[str, ...]:
        """The different tasks of which both replays of some pair came back."""
        pairs = zip(self.baseline, self.candidate, strict=True)
        return tuple(dict.fromkeys(old.task_id for old, new in pairs if old.score and new.score))


def run_trial(
    tasks: Sequence[TaskRecord],
    baseline: Candidate,
    candidate: Candidate,
    models: Models,
    *,
    metric: GateMetric,
    mixed_weight: float,
    known: Sequence[ReplayResult] = (),
) -> Trial:
    """Replay the val tasks under both arms, interleaved, and decide.

    ``known`` are rollouts of the same tasks under ``baseline``, when this night has them already. Raises
    ``FatalBackend`` and ``BudgetSpent``.
    """
    arms = (candidate,) if known else (baseline, candidate)
    results = replay([Attempt(task=task, candidate=arm) for task in tasks for arm in arms], models, phase="val")
    before, after = tuple(known) or results[::2], results[len(arms) - 1 :: len(arms)]
    pairs = [
        Pair(task_id=task.id, baseline=_value(old, metric, mixed_weight), candidate=_value(new, metric, mixed_weight))
        for task, old, new in zip(tasks, before, after, strict=True)
    ]
    measured = [
        (p.task_id, p.baseline, p.candidate) for p in pairs if p.baseline is not None and p.candidate is not None
    ]
    return Trial(
        decision=decide_strict(pairs),
        baseline=before,
        candidate=after,
        improved=tuple(task_id for task_id, old, new in measured if new > old),
        worsened=tuple(task_id for task_id, old, new in measured if new < old),
    )


def _value(result: ReplayResult, metric: GateMetric, mixed_weight: float) -> float | None:
    return None if result.score is None else combine(result.score, metric, mixed_weight)
