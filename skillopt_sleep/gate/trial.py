"""Runs the trial of a candidate against its baseline on the val tasks, and lets the rule decide.

A paired trial replays val tasks under both arms, interleaved and judged blind, until the rule has decided. Nothing here
can change the error of the rule: which pair comes next is fixed by the seed before any score is seen, and every way to
stop early only saves money. ``run_strict_trial`` compares two means instead, as the SkillOpt paper does.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import BadReply, BudgetSpent, EmptyReply, TooLong, TransientBackend
from skillopt_sleep.gate.account import Arm, Trial
from skillopt_sleep.gate.rule import (
    Decision,
    Pair,
    Verdict,
    add_results,
    compare_scores,
    decide,
    decide_strict,
    describe_needs,
    explain_unmeasured,
    margin_for,
    may_start_round,
    next_pairs,
)
from skillopt_sleep.gate.tally import Lost, Result, Tally
from skillopt_sleep.model.document import Candidate
from skillopt_sleep.model.ports import PairJudge, Parallel
from skillopt_sleep.model.rollout import GateMetric, ReplayResult, combine
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.optimizer.replay import Attempt, Models, answer, find_judge, replay

CONFIRMING = 500
"""Added to a night's first sample number: replays that confirm a loss belong to none of its rounds."""

NO_VERDICT = (BadReply, EmptyReply, TooLong)
"""Failures of a judge on what it was shown rather than in transport; they may hide a loss."""


class HasId(Protocol):
    """Anything that can be attempted under both arms."""

    @property
    def id(self) -> str:
        """Its name in the report."""


TaskT = TypeVar("TaskT", bound=HasId)
T = TypeVar("T")
R = TypeVar("R")


class PairedPlan(Struct, frozen=True, kw_only=True):
    """The settings of a paired trial."""

    k: int
    """The score that accepts."""
    metric: GateMetric
    mixed_weight: float
    seed: int
    first_sample: int
    """Numbers the first round's replays: rounds and nights make calls of their own, candidates share base replays."""
    apart: int = 0
    """Added to a candidate's sample number: without it, one identical to the baseline would get its very replies."""


class PairRow(Struct, frozen=True, kw_only=True):
    """One replayed pair."""

    task_id: str
    baseline: ReplayResult
    candidate: ReplayResult
    first: Arm | None
    """The arm that the judge saw first, None when it did not see both answers in one call."""
    result: Result | None
    """None when transport lost an arm or the judge."""
    unjudged: bool = False
    """Whether the judge had both answers and gave no readable verdict."""

    @classmethod
    def of(cls, baseline: ReplayResult, candidate: ReplayResult, *, metric: GateMetric, mixed_weight: float) -> PairRow:
        """Pair two replays of one task and compare their scores under the gate metric."""
        before, after = (_value(arm, metric, mixed_weight) for arm in (baseline, candidate))
        result = None if before is None or after is None else compare_scores(before, after, margin_for(metric))
        return cls(task_id=baseline.task_id, baseline=baseline, candidate=candidate, first=None, result=result)

    @property
    def outcome(self) -> Result | Lost:
        """The result, or which part of the pair was lost."""
        if self.result is not None:
            return self.result
        if self.unjudged:
            return Lost.VERDICT
        if bool(self.baseline.call_error) is bool(self.candidate.call_error):
            return Lost.BOTH
        return Lost.BASELINE if self.baseline.call_error else Lost.CANDIDATE


Measure = Callable[[Sequence[tuple[TaskT, int]]], list[PairRow]]
"""Attempts (task, sample) pairs under both arms and returns the first of them that it could pay for."""


def run_strict_trial(
    tasks: Sequence[TaskRecord],
    baseline: Candidate,
    candidate: Candidate,
    models: Models,
    *,
    metric: GateMetric,
    mixed_weight: float,
    known: Sequence[ReplayResult] = (),
) -> Trial:
    """Replay each val task once under both arms, interleaved, and compare the means.

    ``known`` are rollouts of the same tasks under ``baseline`` that this night has already. Raises ``FatalBackend``
    and ``BudgetSpent``.
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


def run_paired_trial(
    tasks: Sequence[TaskRecord],
    baseline: Candidate,
    candidate: Candidate,
    models: Models,
    plan: PairedPlan,
    *,
    before: Tally = Tally(),  # noqa: B008 - frozen
) -> Trial:
    """Run the paired trial of a night's candidate on its val tasks; see ``decide_by_pairs``."""

    def measure(pairs: Sequence[tuple[TaskRecord, int]]) -> list[PairRow]:
        return measure_pairs(pairs, (baseline, candidate), models, plan)

    return decide_by_pairs(tasks, measure, plan, before=before)


def decide_by_pairs(
    tasks: Sequence[TaskT],
    measure: Measure[TaskT],
    plan: PairedPlan,
    *,
    before: Tally = Tally(),  # noqa: B008 - frozen
) -> Trial:
    """Add pairs to the tally ``before`` until it decides, or continuing tonight is not worth its price.

    ``measure`` raises ``BudgetSpent`` when it cannot pay for any pair, and so does the trial when it has none at all;
    otherwise a cap ends it for tonight, undecided. ``FatalBackend`` is always raised.

    A pair counts only after all before it in the order drawn beforehand; whatever finished behind the first pair that
    a cap does not pay for is ignored. So which pairs count does not depend on their results, and a cap is one more way
    to stop early. (A cap on tokens, money or time may strike at a pair with long answers.)
    """
    rows: list[PairRow] = []
    tally = before
    cut = ""
    for sample, order in _draw_rounds(tasks, plan):
        left = order
        while size := next_pairs(tally, plan.k, pairs_tonight=len(rows), left=len(left)):
            try:
                measured = measure([(task, sample) for task in left[:size]])
            except BudgetSpent as spent:
                if not rows:
                    raise
                cut = str(spent)
                break
            rows += measured
            left = left[len(measured) :]
            tally = add_results((row.outcome for row in measured), plan.k, tally)
        if cut or decide(tally, plan.k) is not Verdict.UNDECIDED or not may_start_round(tally, len(rows)):
            break
    decision = _decide(rows, tally, plan)
    if decision.verdict is Verdict.UNMEASURED and decide(tally, plan.k) is Verdict.ACCEPT:
        # Otherwise the next night could accept it without a new pair. Forgetting what spoke for the edit cannot raise
        # the error; forgetting every night that was not measured could.
        tally = before
        decision = replace(decision, wins=tally.wins, losses=tally.losses)
    accepted = decision.verdict is Verdict.ACCEPT
    worsened = _tasks_with(rows, Result.LOSS)
    confirmed, unconfirmed = _confirm_losses(
        [task for task in tasks if accepted and task.id in worsened], measure, plan.first_sample + CONFIRMING
    )
    return Trial(
        decision=decision,
        baseline=tuple(row.baseline for row in rows),
        candidate=tuple(row.candidate for row in rows),
        improved=_tasks_with(rows, Result.WIN),
        worsened=worsened,
        confirmed_regressions=confirmed,
        unconfirmed=unconfirmed,
        losses_before=before.losses if accepted else 0,
        results=tuple(row.result for row in rows),
        firsts=tuple(row.first for row in rows),
        tally=tally,
        k=plan.k,
        cut=cut,
    )


def measure_pairs(
    pairs: Sequence[tuple[TaskRecord, int]],
    arms: tuple[Candidate, Candidate],
    models: Models,
    plan: PairedPlan,
    *,
    phase: str = "val",
) -> list[PairRow]:
    """Replay each (task, sample) under baseline and candidate, next to each other in the queue, then judge the pairs.

    Returns the first of them that could be paid for, in order; raises ``BudgetSpent`` when that is none.
    """
    attempts = [
        Attempt(task=task, candidate=arm, sample=sample + apart)
        for task, sample in pairs
        for arm, apart in zip(arms, (0, plan.apart), strict=True)
    ]
    answers, cut = _run_while_paid(functools.partial(answer, models=models, phase=phase), attempts, models.parallel)
    answered = zip(pairs, answers[::2], answers[1::2], strict=False)  # an odd answer is half a pair
    work = [(task, old, new) for (task, _), old, new in answered]
    rows, later = _run_while_paid(functools.partial(_judge_pair, models=models, plan=plan), work, models.parallel)
    if not rows and (spent := later or cut) is not None:
        raise spent
    return rows


def _draw_rounds(tasks: Sequence[TaskT], plan: PairedPlan) -> Iterator[tuple[int, list[TaskT]]]:
    """Yield round after round with its sample number, every task once, in an order that the seed alone draws."""
    rng = random.Random(plan.seed)  # noqa: S311  a seeded order, not a secret
    sample = plan.first_sample
    while tasks:
        yield sample, rng.sample(list(tasks), len(tasks))
        sample += 1


def _run_while_paid(
    work: Callable[[T], R], items: Sequence[T], parallel: Parallel
) -> tuple[list[R], BudgetSpent | None]:
    """Return the results of the first items that could be paid for, and the cap that ended it, if any."""
    spent: list[BudgetSpent] = []

    def attempt(item: T) -> R | None:
        if spent:  # nothing starts behind the cap: its result would not count
            return None
        try:
            return work(item)
        except BudgetSpent as error:
            spent.append(error)
            return None

    done = itertools.takewhile(lambda result: result is not None, parallel(attempt, items))
    return [result for result in done if result is not None], spent[0] if spent else None


def _confirm_losses(
    lost: Sequence[TaskT], measure: Measure[TaskT], first_sample: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the tasks that lost under an accepted edit and lose twice more, and those that stay open.

    These pairs are not part of the tally. A task stays open when a cap or transport prevents a replay, unless the
    other replay did not lose.
    """
    pairs = [(task, first_sample + number) for task in lost for number in range(2)]
    results: list[Result | None] = [None] * len(pairs)
    with contextlib.suppress(BudgetSpent):
        measured = [row.result for row in measure(pairs)]
        results[: len(measured)] = measured
    twice = [(task.id, set(both)) for task, *both in zip(lost, results[::2], results[1::2], strict=True)]
    return (
        tuple(task_id for task_id, both in twice if both == {Result.LOSS}),
        tuple(task_id for task_id, both in twice if None in both <= {None, Result.LOSS}),
    )


def _judge_pair(pair: tuple[TaskRecord, ReplayResult, ReplayResult], *, models: Models, plan: PairedPlan) -> PairRow:
    task, old, new = pair
    first: Arm | None = None
    unjudged = False
    if not old.call_error and not new.call_error:
        try:
            old, new, first = _score(task, old, new, _draw_first(task.id, new, plan.seed), models)
        except TransientBackend as error:  # the judge was lost, and with it both scores
            unjudged = isinstance(error, NO_VERDICT)
            lost = f"{type(error).__name__}: {error}"
            old, new = replace(old, call_error=lost), replace(new, call_error=lost)
    row = PairRow.of(old, new, metric=plan.metric, mixed_weight=plan.mixed_weight)
    return replace(row, first=first, unjudged=unjudged)


def _score(
    task: TaskRecord, old: ReplayResult, new: ReplayResult, first: Arm, models: Models
) -> tuple[ReplayResult, ReplayResult, Arm | None]:
    """Score both; the arm is ``first`` where one call showed the judge two different answers, else None."""
    judge = find_judge(task, models.judges)
    if old.score is not None or new.score is not None:  # an agent's own ending is already its score
        one, two = (result.score or judge.score(task, result, models.optimizer) for result in (old, new))
        return replace(old, score=one), replace(new, score=two), None
    if not isinstance(judge, PairJudge):
        one, two = (judge.score(task, result, models.optimizer) for result in (old, new))
        return replace(old, score=one), replace(new, score=two), None
    if first is Arm.BASELINE:
        one, two = judge.score_pair(task, old, new, models.optimizer)
    else:
        two, one = judge.score_pair(task, new, old, models.optimizer)
    return replace(old, score=one), replace(new, score=two), first if old.work != new.work else None


def _draw_first(task_id: str, new: ReplayResult, seed: int) -> Arm:
    """Draw which answer the judge sees first, from the pair and the night but not from the answers."""
    coin = hashlib.sha256(f"{seed}:{task_id}:{new.candidate}:{new.sample}".encode()).digest()[0] & 1
    return Arm.CANDIDATE if coin else Arm.BASELINE


def _decide(rows: Sequence[PairRow], tally: Tally, plan: PairedPlan) -> Decision:
    """Put the verdict into words, with its numbers.

    A reject stands however little was measured: the losses seen are losses, and dropping an edit can only lower the
    chance that a useless one is accepted.
    """
    measured = [row for row in rows if row.result is not None]
    problem = explain_unmeasured(tally, plan.k, planned=len(rows), measured=len(measured))
    verdict = decide(tally, plan.k)
    numbers = f"{tally.in_words}: score {tally.score} of {plan.k}"
    if not rows:
        why = "there are no validation tasks apart from the training ones"
    elif problem and verdict is not Verdict.REJECT:
        verdict, why = Verdict.UNMEASURED, problem
    elif verdict is Verdict.UNDECIDED:
        why = f"{numbers}; {describe_needs(tally, plan.k)} would decide"
    else:
        why = f"{numbers}; {problem}, which is enough to drop it" if problem else numbers
    return Decision(
        verdict=verdict,
        why=why,
        baseline=_mean([row.baseline for row in measured], plan),
        candidate=_mean([row.candidate for row in measured], plan),
        pairs=len(rows),
        measured=len(measured),
        wins=tally.wins,
        losses=tally.losses,
    )


def _tasks_with(rows: Sequence[PairRow], result: Result) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.task_id for row in rows if row.result is result))


def _value(result: ReplayResult, metric: GateMetric, mixed_weight: float) -> float | None:
    return None if result.score is None else combine(result.score, metric, mixed_weight)


def _mean(results: Sequence[ReplayResult], plan: PairedPlan) -> float | None:
    values = [_value(result, plan.metric, plan.mixed_weight) for result in results]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
