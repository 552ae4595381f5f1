"""What a night's reflection is shown: tasks that failed every time, and tasks whose attempts differ, side by side.

Requests, answers and the person's own words of train tasks; never a rubric, a check or a judge's rationale, nor
anything of a val or test task: an edit that quotes the examiner proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from skillopt_sleep.domain.rollout import GateMetric, ReplayResult, combine, rollout_stats
from skillopt_sleep.domain.task import TaskRecord
from skillopt_sleep.optimize.analyse import Minibatch
from skillopt_sleep.optimize.optimizer import quote

__all__ = ["night_material"]

MOST_CONTRASTS = 6
"""Tasks of the widest spread that are shown side by side, as in the reference implementation."""
MOST_FAILURES = 24


def night_material(
    tasks: Sequence[TaskRecord], rollouts: Sequence[ReplayResult], metric: GateMetric, mixed_weight: float
) -> tuple[Minibatch, ...]:
    """At most one minibatch of contrasts and one of failures; none when nothing went wrong."""
    contrasts: list[tuple[float, str]] = []
    failures: list[tuple[bool, float, str]] = []
    for task in tasks:
        measured = [result for result in rollouts if result.task_id == task.id and result.score is not None]
        stats = rollout_stats(measured, metric, mixed_weight)
        if stats is None:
            continue
        if stats.spread > 0:

            def value(result: ReplayResult) -> float:
                return combine(result.score, metric, mixed_weight) if result.score else 0.0

            best, worst = max(measured, key=value), min(measured, key=value)
            answers = f"{quote('better-answer', best.work)}\n{quote('worse-answer', worst.work)}"
            contrasts.append((-stats.spread, _case(task, answers)))
        elif stats.pass_rate < 1:
            failures.append((not task.feedback, stats.best, _case(task, quote("answer", measured[0].work))))
    shown = {
        "contrast": tuple(case for _, case in sorted(contrasts)[:MOST_CONTRASTS]),
        "reflect": tuple(case for *_, case in sorted(failures)[:MOST_FAILURES]),
    }
    return tuple(Minibatch(template=template, cases=cases) for template, cases in shown.items() if cases)


def _case(task: TaskRecord, answers: str) -> str:
    said = "".join(f"\n{quote('the-developer-said', words)}" for words in task.feedback)
    accepted = f"\n{quote('accepted-in-the-end', task.accepted)}" if task.accepted else ""
    return f'<request id="{task.id}">\n{quote("asked", task.intent)}\n{answers}{said}{accepted}\n</request>'
