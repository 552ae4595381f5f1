"""One attempt at one task under one candidate, its score, and what several attempts say together."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import fsum

from msgspec import Struct

from skillopt_sleep.domain.assignment import CommandRun, Ending, ReplayMode, Shown

__all__ = ["GateMetric", "ReplayResult", "RolloutStats", "Score", "combine", "rollout_stats"]


class GateMetric(enum.StrEnum):
    """Which number of a score decides: pass / fail, the graded one, or a weighted mean of both."""

    HARD = "hard"
    SOFT = "soft"
    MIXED = "mixed"


class Score(Struct, frozen=True, kw_only=True):
    """``hard`` is 0 or 1, ``soft`` lies in [0, 1]; ``rationale`` says why in a sentence."""

    hard: float
    soft: float
    rationale: str = ""


class ReplayResult(Struct, frozen=True, kw_only=True):
    """One rollout. ``score`` is None when it is *unmeasured*: transport lost it, and ``call_error`` says how.

    A result without a score is never counted as 0. ``sample`` numbers repeated rollouts of one task from 0.
    ``latency`` is in seconds. The fields from ``ending`` on are of an agent at work (see ``domain/assignment.py``);
    ``bypassed`` says that it had a skill in front of it and never opened it.
    """

    task_id: str
    candidate: str
    sample: int = 0
    response: str = ""
    tools_called: tuple[str, ...] = ()
    score: Score | None = None
    call_error: str = ""
    latency: float = 0.0
    mode: ReplayMode = ReplayMode.TEXT
    ending: Ending = Ending.DONE
    shown: tuple[Shown, ...] = ()
    bypassed: bool = False
    changes: str = ""
    runs: tuple[CommandRun, ...] = ()

    @property
    def work(self) -> str:
        """All there is to judge: the answer and, where files were changed, the changes."""
        if not self.changes:
            return self.response
        return f"{self.response}\n\nWhat it changed in the files, as a diff:\n\n{self.changes}"


class RolloutStats(Struct, frozen=True, kw_only=True):
    """What the measured rollouts of one task say: all under one metric, ``pass_rate`` the mean of ``hard``."""

    task_id: str
    best: float
    worst: float
    spread: float
    pass_rate: float
    measured: int


def combine(score: Score, metric: GateMetric, mixed_weight: float) -> float:
    """The one number a metric makes of a score; ``mixed_weight`` in [0, 1] is the share of ``soft`` in mixed."""
    match metric:
        case GateMetric.HARD:
            return score.hard
        case GateMetric.SOFT:
            return score.soft
        case GateMetric.MIXED:
            return (1.0 - mixed_weight) * score.hard + mixed_weight * score.soft


def rollout_stats(results: Sequence[ReplayResult], metric: GateMetric, mixed_weight: float) -> RolloutStats | None:
    """Best, worst, spread and pass rate over the measured rollouts of one task; None when none was measured."""
    scores = [result.score for result in results if result.score is not None]
    if not scores:
        return None
    values = [combine(score, metric, mixed_weight) for score in scores]
    return RolloutStats(
        task_id=results[0].task_id,
        best=max(values),
        worst=min(values),
        spread=max(values) - min(values),
        pass_rate=fsum(score.hard for score in scores) / len(scores),
        measured=len(scores),
    )
