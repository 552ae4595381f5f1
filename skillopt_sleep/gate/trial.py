"""Run a paired trial: replay val tasks under both arms, interleaved and judged blind, until the rule has decided.

The rule itself is ``domain/paired.py``. Nothing here can change its error: which pair comes next is fixed by the seed
before any score is seen, and every way to stop early only saves money.
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
from skillopt_sleep.gate.account import Arm
from skillopt_sleep.gate.gate import Trial
from skillopt_sleep.gate.rule import (
    Decision,
    Lost,
    Result,
    Tally,
    Verdict,
    decide,
    follow,
    go_on_tonight,
    judge_pair,
    margin_for,
    needs,
    next_pairs,
    too_little_measured,
)
from skillopt_sleep.model.document import Candidate
from skillopt_sleep.model.ports import PairJudge, Parallel
from skillopt_sleep.model.rollout import GateMetric, ReplayResult, combine
from skillopt_sleep.model.task import TaskRecord
from skillopt_sleep.optimizer.replay import Attempt, Models, answer, judge_of

AGAIN = 500
"""Added to the number of a night's first sample: the replays that confirm a loss are none of its rounds'."""

NO_VERDICT = (BadReply, EmptyReply, TooLong)
"""How a judge fails on what it was shown, rather than on the way to it: as likely on what one arm has lost as not."""


class Named(Protocol):
    """Whatever can be attempted under both arms."""

    @property
    def id(self) -> str:
        """Its name in the report."""


NamedT = TypeVar("NamedT", bound=Named)
T = TypeVar("T")
R = TypeVar("R")


class PairedPlan(Struct, frozen=True, kw_only=True):
    """The settings of a trial.

    ``k`` is the score that accepts. ``first_sample`` numbers the first round's replays, so that each night's and each
    round's are calls of their own, while the candidates of one night share their base replays. ``apart`` is added to
    the number of a candidate's replay: without it, one that is byte for byte the baseline would get its very replies.
    """

    k: int
    metric: GateMetric
    mixed_weight: float
    seed: int
    first_sample: int
    apart: int = 0


class PairRow(Struct, frozen=True, kw_only=True):
    """One pair. ``result`` is None when transport lost an arm or the judge, or that gave no verdict: ``unjudged``.

    ``first`` is the arm that the judge saw first, None when it did not see both answers in one call.
    """

    task_id: str
    baseline: ReplayResult
    candidate: ReplayResult
    first: Arm | None
    result: Result | None
    unjudged: bool = False

    @classmethod
    def of(
        cls,
        baseline: ReplayResult,
        candidate: ReplayResult,
        *,
        metric: GateMetric,
        mixed_weight: float,
        first: Arm | None = None,
    ) -> PairRow:
        """The pair of two replays of one task, and what it counts under the gate metric."""
        result = None
        if baseline.score is not None and candidate.score is not None:
            before, after = (combine(score, metric, mixed_weight) for score in (baseline.score, candidate.score))
            result = judge_pair(before, after, margin_for(metric))
        return cls(task_id=baseline.task_id, baseline=baseline, candidate=candidate, first=first, result=result)

    @property
    def outcome(self) -> Result | Lost:
        """What it counts as, or what of it was lost."""
        if self.result is not None:
            return self.result
        if self.unjudged:
            return Lost.VERDICT
        if bool(self.baseline.call_error) is bool(self.candidate.call_error):
            return Lost.BOTH
        return Lost.BASELINE if self.baseline.call_error else Lost.CANDIDATE


def run_paired(
    tasks: Sequence[TaskRecord],
    baseline: Candidate,
    candidate: Candidate,
    models: Models,
    plan: PairedPlan,
    *,
    before: Tally = Tally(),  # noqa: B008 - frozen
) -> Trial:
    """The trial of a night's candidate on its val tasks; see ``paired_trial``."""

    def measure(pairs: Sequence[tuple[TaskRecord, int]]) -> list[PairRow]:
        return measure_pairs(pairs, (baseline, candidate), models, plan)

    return paired_trial(tasks, measure, plan, before=before)


def paired_trial(
    tasks: Sequence[NamedT],
    measure: Callable[[Sequence[tuple[NamedT, int]]], list[PairRow]],
    plan: PairedPlan,
    *,
    before: Tally = Tally(),  # noqa: B008 - frozen
) -> Trial:
    """Add pairs to the tally ``before`` until it decides, or going on tonight is not worth its price.

    ``measure`` attempts each (task, sample) under both arms, and answers with the first of them that it could pay for;
    it raises ``BudgetSpent`` when that is none, and so does the trial when it has no pair at all. Else a cap ends it
    for tonight, undecided. ``FatalBackend`` is raised always. Pairs are replayed as many at once as could decide
    at the earliest, so none is paid for in vain.

    A pair counts only after all before it in the order drawn beforehand; what happens to be done behind the first that
    a cap does not pay for is not looked at. So which pairs count does not depend on how they came out, and a cap is one
    more way to stop early. (Under one on tokens, money or time, the pair it strikes at may be one of long answers.)
    """
    rows: list[PairRow] = []
    tally = before
    cut = ""
    for sample, order in _rounds(tasks, plan):
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
            tally = follow((row.outcome for row in measured), plan.k, tally)
        if cut or decide(tally, plan.k) is not Verdict.UNDECIDED or not go_on_tonight(tally, len(rows)):
            break
    decision = _decision(rows, tally, plan)
    if decision.verdict is Verdict.UNMEASURED and decide(tally, plan.k) is Verdict.ACCEPT:
        # Not to be accepted on the next night's silence. Forgetting what spoke for the edit cannot raise the error;
        # forgetting every night that was not measured could.
        tally = before
        decision = replace(decision, wins=tally.wins, losses=tally.losses)
    worsened = _with(rows, Result.LOSS)
    lost = [task for task in tasks if task.id in worsened and decision.verdict is Verdict.ACCEPT]
    confirmed, unconfirmed = _confirmed(lost, measure, plan)
    return Trial(
        decision=decision,
        baseline=tuple(row.baseline for row in rows),
        candidate=tuple(row.candidate for row in rows),
        improved=_with(rows, Result.WIN),
        worsened=worsened,
        confirmed_regressions=confirmed,
        unconfirmed=unconfirmed,
        losses_before=before.losses if decision.verdict is Verdict.ACCEPT else 0,
        results=tuple(row.result for row in rows),
        firsts=tuple(row.first for row in rows),
        tally=tally,
        k=plan.k,
        cut=cut,
    )


def _with(rows: Sequence[PairRow], result: Result) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.task_id for row in rows if row.result is result))


def _rounds(tasks: Sequence[NamedT], plan: PairedPlan) -> Iterator[tuple[int, list[NamedT]]]:
    """Round after round, every task once, in an order the seed alone has drawn."""
    rng = random.Random(plan.seed)  # noqa: S311  a seeded order, not a secret
    sample = plan.first_sample
    while tasks:
        yield sample, rng.sample(list(tasks), len(tasks))
        sample += 1


def measure_pairs(
    pairs: Sequence[tuple[TaskRecord, int]],
    arms: tuple[Candidate, Candidate],
    models: Models,
    plan: PairedPlan,
    *,
    phase: str = "val",
) -> list[PairRow]:
    """Replay each (task, sample) under baseline and candidate, one after the other in the queue, then judge them.

    The first of them that could be paid for, in order; raises ``BudgetSpent`` when that is none.
    """
    attempts = [
        Attempt(task=task, candidate=arm, sample=sample + apart)
        for task, sample in pairs
        for arm, apart in zip(arms, (0, plan.apart), strict=True)
    ]
    answers, cut = _paid(functools.partial(answer, models=models, phase=phase), attempts, models.parallel)
    answered = zip(pairs, answers[::2], answers[1::2], strict=False)  # an odd one is half a pair
    made = [(task, old, new) for (task, _), old, new in answered]
    rows, later = _paid(functools.partial(_judged, models=models, plan=plan), made, models.parallel)
    if not rows and (spent := later or cut) is not None:
        raise spent
    return rows


def _paid(work: Callable[[T], R], items: Sequence[T], parallel: Parallel) -> tuple[list[R], BudgetSpent | None]:
    """What came of the first items that could be paid for, and the cap at which that ended, None when it did not."""
    spent: list[BudgetSpent] = []

    def paid(item: T) -> R | None:
        if spent:  # nothing is begun behind the cap: what of it still fitted would not count
            return None
        try:
            return work(item)
        except BudgetSpent as error:
            spent.append(error)
            return None

    done = itertools.takewhile(lambda each: each is not None, parallel(paid, items))
    return [each for each in done if each is not None], spent[0] if spent else None


def _confirmed(
    lost: Sequence[NamedT], measure: Callable[[Sequence[tuple[NamedT, int]]], list[PairRow]], plan: PairedPlan
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which tasks that lost under an accepted edit lose twice more, and of which that could not be found out.

    No part of the tally, and not at any price: what a cap leaves out, or transport loses, leaves its task open, unless
    the other replay has not lost.
    """
    pairs = [(task, plan.first_sample + AGAIN + number) for task in lost for number in range(2)]
    results: list[Result | None] = [None] * len(pairs)
    with contextlib.suppress(BudgetSpent):
        made = [row.result for row in measure(pairs)]
        results[: len(made)] = made
    twice = [(task.id, set(both)) for task, *both in zip(lost, results[::2], results[1::2], strict=True)]
    return (
        tuple(task_id for task_id, both in twice if both == {Result.LOSS}),
        tuple(task_id for task_id, both in twice if None in both <= {None, Result.LOSS}),
    )


def _judged(pair: tuple[TaskRecord, ReplayResult, ReplayResult], *, models: Models, plan: PairedPlan) -> PairRow:
    task, old, new = pair
    first: Arm | None = None
    unjudged = False
    if not old.call_error and not new.call_error:
        try:
            old, new, first = _scored(task, old, new, _drawn(task.id, new, plan.seed), models)
        except TransientBackend as error:  # the judge was lost, and with it both scores
            unjudged = isinstance(error, NO_VERDICT)
            lost = f"{type(error).__name__}: {error}"
            old, new = replace(old, call_error=lost), replace(new, call_error=lost)
    row = PairRow.of(old, new, metric=plan.metric, mixed_weight=plan.mixed_weight, first=first)
    return replace(row, unjudged=unjudged)


def _scored(
    task: TaskRecord, old: ReplayResult, new: ReplayResult, first: Arm, models: Models
) -> tuple[ReplayResult, ReplayResult, Arm | None]:
    """Both with their scores, and ``first`` where one call showed both answers: equal ones are shown once."""
    judge = judge_of(task, models.judges)
    if old.score is not None or new.score is not None:  # one of them has scored itself, by how it ended
        one, two = (each.score or judge.score(task, each, models.optimizer) for each in (old, new))
    elif isinstance(judge, PairJudge):
        if first is Arm.BASELINE:
            one, two = judge.score_pair(task, old, new, models.optimizer)
        else:
            two, one = judge.score_pair(task, new, old, models.optimizer)
    else:
        one, two = (judge.score(task, result, models.optimizer) for result in (old, new))
    apart = old.score is None and new.score is None and old.work != new.work
    shown = first if isinstance(judge, PairJudge) and apart else None
    return replace(old, score=one), replace(new, score=two), shown


def _drawn(task_id: str, new: ReplayResult, seed: int) -> Arm:
    """Which answer the judge sees first: a coin that knows the pair and the night, not the answers."""
    coin = hashlib.sha256(f"{seed}:{task_id}:{new.candidate}:{new.sample}".encode()).digest()[0] & 1
    return Arm.CANDIDATE if coin else Arm.BASELINE


def _decision(rows: Sequence[PairRow], tally: Tally, plan: PairedPlan) -> Decision:
    """The verdict in words, with the numbers it stands on.

    A reject stands however little was measured: the losses that were seen are losses, and dropping an edit can only
    lower the chance that a useless one is accepted. That the rest was not measured is said with it.
    """
    measured = [row for row in rows if row.result is not None]
    problem = too_little_measured(tally, plan.k, planned=len(rows), measured=len(measured))
    verdict = decide(tally, plan.k)
    numbers = f"{tally.in_words}: score {tally.score} of {plan.k}"
    if not rows:
        why = "there are no validation tasks apart from the training ones"
    elif problem and verdict is not Verdict.REJECT:
        verdict, why = Verdict.UNMEASURED, problem
    elif verdict is Verdict.UNDECIDED:
        why = f"{numbers}; {needs(tally, plan.k)} would decide"
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


def _mean(results: Sequence[ReplayResult], plan: PairedPlan) -> float | None:
    values = [combine(each.score, plan.metric, plan.mixed_weight) for each in results if each.score is not None]
    return sum(values) / len(values) if values else None
