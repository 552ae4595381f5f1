"""The gate of a step: the selection split under the candidate, and what the rule of the config makes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import BudgetSpent, UsageError
from skillopt_sleep.gate.gate import Trial
from skillopt_sleep.gate.rule import Verdict, is_enough_measured, threshold
from skillopt_sleep.gate.trial import PairedPlan, PairRow, paired_trial
from skillopt_sleep.model.rollout import GateMetric, ReplayResult, Score
from skillopt_sleep.model.text import sha256
from skillopt_sleep.train.editing import evaluate_gate
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.results import GateAction, GateResult, RolloutResult
from skillopt_sleep.train.run import Draw, Run, scored
from skillopt_sleep.train.skill_text import skill_hash
from skillopt_sleep.train.state import RunState, Scored

PAIRED_DRAWS = 1_000_000
DRAWS_A_STEP = 1_000
"""Numbers of draws set apart for the trials of a run, and of a step."""


class Judged(Struct, frozen=True, kw_only=True):
    """The state after the gate, what it did, and the candidate's score (None when too little could be measured).

    ``before`` and ``after`` are the two scores that were compared, under the gate metric.
    """

    state: RunState
    action: GateAction
    why: str
    score: Scored | None = None
    before: float | None = None
    after: float | None = None
    trial: Trial | None = None


def score_selection(run: Run, state: RunState, skill: str, folder: str) -> tuple[RunState, Scored]:
    """The selection score of a skill; of one that was scored before, the score it had."""
    known = state.scored.get(skill_hash(skill))
    if known is not None:
        return state, known
    split = run.config.selection_split
    draw = Draw(phase="selection", split=split, number=0, folder=folder, seed=run.config.seed)
    results = run.roll(run.items[split], skill, draw)
    score = scored(results)
    run.artefacts.results(folder, results, {"hard": score.hard, "soft": score.soft, "n": score.measured})
    if is_enough_measured(score.measured, score.items):
        state = replace(state, scored=state.scored | {skill_hash(skill): score})
    return state, score


def judged(
    run: Run,
    state: RunState,
    candidate: str,
    *,
    step: int,
    folder: str,
    forced: bool = False,
    first_draw: int | None = None,
) -> Judged:
    """Put a candidate through the gate of the config; ``forced`` takes it whatever its score.

    A paired trial takes its draws from ``first_draw`` on, or from those set apart for the step: two trials that share
    them would be one piece of luck counted twice. Raises ``FatalBackend`` and ``BudgetSpent``.
    """
    if run.config.gate == "paired" and not forced:
        first = PAIRED_DRAWS + step * DRAWS_A_STEP if first_draw is None else first_draw
        return _paired(run, state, candidate, step=step, folder=folder, first_draw=first)
    state, score = score_selection(run, state, candidate, folder)
    before = state.current_score
    if forced or run.config.gate == "off":
        return _taken(run, state, candidate, score, step=step, why="forced" if forced else "the gate is off")
    if not is_enough_measured(score.measured, score.items) or before is None:
        why = f"only {score.measured} of {score.items} selection items could be measured"
        return Judged(state=state, action="unmeasured", why=why)
    result = evaluate_gate(
        candidate_skill=candidate,
        cand_hard=score.hard,
        current_skill=state.current_skill,
        current_score=before,
        best_skill=state.best_skill,
        best_score=before if state.best_score is None else state.best_score,
        best_step=state.best_step,
        global_step=step,
        cand_soft=score.soft,
        metric=run.config.gate_metric,
        mixed_weight=run.config.gate_mixed_weight,
    )
    after = run.value(score)
    return Judged(
        state=_after(state, result),
        action=result.action,
        why=f"selection {before:.4f} -> {after:.4f}",
        score=score,
        before=before,
        after=after,
    )


def _after(state: RunState, result: GateResult) -> RunState:
    return replace(
        state,
        current_skill=result.current_skill,
        current_score=result.current_score,
        best_skill=result.best_skill,
        best_score=result.best_score,
        best_step=result.best_step,
    )


def _taken(run: Run, state: RunState, candidate: str, score: Scored, *, step: int, why: str) -> Judged:
    """The candidate becomes the current skill; the best one only when its score says so."""
    before, after = state.current_score, run.value(score) if is_enough_measured(score.measured, score.items) else None
    better = after is not None and (state.best_score is None or after > state.best_score)
    state = replace(state, current_skill=candidate, current_score=before if after is None else after)
    if better:
        state = replace(state, best_skill=candidate, best_score=after, best_step=step)
    return Judged(
        state=state,
        action="greedy_applied",
        why=f"{why}: taken as proposed",
        score=score if after is not None else None,
        before=before,
        after=after,
    )


class _Row(Struct, frozen=True, kw_only=True):
    """An item of the selection split in a trial."""

    id: str
    item: Item


def _paired(run: Run, state: RunState, candidate: str, *, step: int, folder: str, first_draw: int) -> Judged:
    """Pairs of attempts until they decide, up to a night's worth; undecided is not accepted."""
    config = run.config
    metric = GateMetric(config.gate_metric)
    spent: list[BudgetSpent] = []

    def measure(pairs: Sequence[tuple[_Row, int]]) -> list[PairRow]:
        try:
            arms = [(row, sample, skill) for row, sample in pairs for skill in (state.current_skill, candidate)]
            made = [_replay(*arm, each) for arm, each in zip(arms, _attempts(run, arms, folder), strict=True)]
        except BudgetSpent as error:
            spent.append(error)
            raise
        rows = zip(made[::2], made[1::2], strict=True)
        weight = config.gate_mixed_weight
        return [PairRow.of(old, new, metric=metric, mixed_weight=weight) for old, new in rows]

    plan = PairedPlan(
        k=threshold(config.gate_alpha),
        metric=metric,
        mixed_weight=config.gate_mixed_weight,
        seed=config.seed + first_draw,
        first_sample=first_draw,
    )
    items = [_Row(id=str(item["id"]), item=item) for item in run.items[config.selection_split]]
    trial = paired_trial(items, measure, plan)
    if spent:  # what was measured is in the ledger, and the trial goes on from there
        raise spent[0]
    decision = trial.decision
    results = [_result(each) for each in trial.candidate]
    score = scored(results)
    run.artefacts.json(f"{folder}/trial.json", trial)
    actions: dict[Verdict, GateAction] = {
        Verdict.ACCEPT: "accept_new_best",
        Verdict.REJECT: "reject",
        Verdict.UNDECIDED: "undecided",
        Verdict.UNMEASURED: "unmeasured",
    }
    if decision.verdict is Verdict.ACCEPT:
        after = run.value(score)
        state = replace(
            state,
            current_skill=candidate,
            current_score=after,
            best_skill=candidate,
            best_score=after,
            best_step=step,
        )
    return Judged(
        state=state,
        action=actions[decision.verdict],
        why=decision.why,
        score=score,
        before=decision.baseline,
        after=decision.candidate,
        trial=trial,
    )


def _attempts(run: Run, arms: Sequence[tuple[_Row, int, str]], folder: str) -> list[RolloutResult]:
    """One attempt for each (item, number, skill); what an environment can roll out together, it is given together."""
    split = run.config.selection_split

    def draw(number: int, skill: str) -> Draw:
        name = f"{folder}/draw_{number}_{skill_hash(skill)[:8]}"
        return Draw(phase="selection", split=split, number=number, folder=name, seed=run.config.seed + number)

    if not run.rolls_batches():
        return run.parallel(lambda arm: run.roll_one(arm[0].item, arm[2], draw(arm[1], arm[2])), arms)
    found: dict[tuple[str, int, str], RolloutResult] = {}
    for number, skill in dict.fromkeys((number, skill) for _, number, skill in arms):
        rows = [row for row, its_number, its_skill in arms if (its_number, its_skill) == (number, skill)]
        found |= {
            (name, number, skill): each for name, each in _together(run, rows, skill, draw(number, skill)).items()
        }
    return [found[row.id, number, skill] for row, number, skill in arms]


def _together(run: Run, rows: Sequence[_Row], skill: str, draw: Draw) -> dict[str, RolloutResult]:
    """One attempt at each of these items, by their ids.

    An environment that cannot roll out these alone rolls out its whole split: once a round, since that is kept.
    """
    names, everything = [row.id for row in rows], run.items[draw.split]
    if not rolls_whole(run.env, draw.split) and len(rows) < len(everything):
        part = sha256("\n".join(names).encode())[:6]
        alone = dataclasses.replace(draw, folder=f"{draw.folder}_{part}")
        found = {each.id: each for each in run.roll([row.item for row in rows], skill, alone)}
        if set(names) == set(found):
            return found
    results = run.roll(everything, skill, draw)
    found = {each.id: each for each in results}
    if set(names) <= set(found):
        return found
    known = [str(item["id"]) for item in everything]
    if len(results) == len(known) and not set(known) & set(found):  # attempts without items: the first is the first
        return dict(zip(known, results, strict=True))
    absent = next(name for name in names if name not in found)
    raise UsageError(
        f"{run.env.name} returned {len(results)} results for {len(known)} items, and none for {absent!r}; the paired"
        " gate needs one each, by their ids"
    )


def rolls_whole(env: object, split: str) -> bool:
    """Whether an environment rolls out a split only as a whole."""
    parts = getattr(env, "takes_parts", None)
    return callable(getattr(env, "rollout_batch", None)) and callable(parts) and not parts(split)


def _replay(row: _Row, number: int, skill: str, result: RolloutResult) -> ReplayResult:
    score = None if result.call_error else Score(hard=result.hard, soft=result.soft)
    return ReplayResult(
        task_id=row.id,
        candidate=skill_hash(skill),
        sample=number,
        response=result.response,
        score=score,
        call_error=result.call_error,
    )


def _result(replay: ReplayResult) -> RolloutResult:
    score = replay.score or Score(hard=0.0, soft=0.0)
    return RolloutResult(id=replay.task_id, hard=score.hard, soft=score.soft, call_error=replay.call_error)
