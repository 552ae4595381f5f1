"""The arithmetic of scores and of the strict gate, as users of the reference call it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum
from typing import Any

from skillopt_sleep.domain.rollout import GateMetric, Score, combine
from skillopt_sleep.errors import ConfigError
from skillopt_sleep.train.results import GateAction, GateResult, RolloutResult

__all__ = ["compute_score", "evaluate_gate", "select_gate_score"]


def compute_score(results: Iterable[RolloutResult | Mapping[str, Any]]) -> tuple[float, float]:
    """Mean ``hard`` and ``soft`` over what could be measured; (0.0, 0.0) where nothing was."""
    scores = [
        (float(each["hard"]), float(each.get("soft", each["hard"])))
        if isinstance(each, Mapping)
        else (each.hard, each.soft)
        for each in results
        if not (each.get("call_error") if isinstance(each, Mapping) else each.call_error)
    ]
    if not scores:
        return 0.0, 0.0
    return fsum(hard for hard, _ in scores) / len(scores), fsum(soft for _, soft in scores) / len(scores)


def select_gate_score(hard: float, soft: float, metric: str = "hard", mixed_weight: float = 0.5) -> float:
    """The one number a metric makes of both. Raises ``ConfigError`` for a metric that is none."""
    if metric not in list(GateMetric):
        raise ConfigError(f"gate_metric is {metric!r}, must be one of {', '.join(GateMetric)}")
    return combine(Score(hard=hard, soft=soft), GateMetric(metric), mixed_weight)


def evaluate_gate(  # noqa: PLR0917  the signature that users of the reference call
    candidate_skill: str,
    cand_hard: float,
    current_skill: str,
    current_score: float,
    best_skill: str,
    best_score: float,
    best_step: int,
    global_step: int,
    *,
    cand_soft: float = 0.0,
    metric: str = "hard",
    mixed_weight: float = 0.5,
) -> GateResult:
    """The rule of the paper: a candidate whose score is strictly above the current one takes its place.

    It becomes the best one too when it is strictly above that. Pure.
    """
    score = select_gate_score(cand_hard, cand_soft, metric, mixed_weight)
    action: GateAction = "reject"
    if score > current_score:
        action, current_skill, current_score = "accept", candidate_skill, score
        if score > best_score:
            action, best_skill, best_score, best_step = "accept_new_best", candidate_skill, score, global_step
    return GateResult(
        action=action,
        current_skill=current_skill,
        current_score=current_score,
        best_skill=best_skill,
        best_score=best_score,
        best_step=best_step,
    )
