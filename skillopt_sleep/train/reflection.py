"""What training shows an analyst of one attempt, and how attempts are dealt to analysts.

The analysts of a step as a function of results, for an environment that reflects by itself and asks them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

from skillopt_sleep.calls.parallel import Pool
from skillopt_sleep.model.document import DocumentKind
from skillopt_sleep.optimizer.aggregate import Learnt
from skillopt_sleep.optimizer.client import Optimizer, quote
from skillopt_sleep.optimizer.reflect import Lesson, Minibatch, analyse
from skillopt_sleep.train.config import SkillOptConfig
from skillopt_sleep.train.conversations import ask_of
from skillopt_sleep.train.editing import select_gate_score, to_patch
from skillopt_sleep.train.ports import ChatClient
from skillopt_sleep.train.results import RawPatch, RolloutResult
from skillopt_sleep.train.slow_update import Revisit

TRAJECTORY = 3_000
"""Characters shown of a conversation; its beginning and its end say most."""
REFERENCE = 600

_NO_NAME = re.compile(r"[<>\"\s]+")


def minibatches(results: Sequence[RolloutResult], config: SkillOptConfig, seed: str) -> tuple[Minibatch, ...]:
    """Failures and successes apart, and items whose attempts differ by contrast; shuffled by ``seed``, then dealt.

    Unmeasured attempts teach nothing. A deep reflection shows an analyst up to ``minibatch_size`` trajectories, a
    shallow one a single one.
    """
    shown: dict[str, list[str]] = {"analyst_contrast": [], "analyst_error": [], "analyst_success": []}
    for attempts in by_item(results).values():
        values = [
            select_gate_score(each.hard, each.soft, config.gate_metric, config.gate_mixed_weight) for each in attempts
        ]
        if max(values) > min(values):
            best, worst = attempts[values.index(max(values))], attempts[values.index(min(values))]
            shown["analyst_contrast"].append(_contrast(best, worst))
        elif attempts[0].hard < 1:
            shown["analyst_error"].append(_case(attempts[0]))
        elif not config.failure_only:
            shown["analyst_success"].append(_case(attempts[0]))
    size = config.minibatch_size if config.reflection == "deep" else 1
    made = []
    for template, cases in shown.items():
        learnt = Learnt.SUCCESS if template == "analyst_success" else Learnt.FAILURE
        shuffled = random.Random(f"{seed}:{template}").sample(cases, len(cases))  # noqa: S311  an order, not a secret
        made += [
            Minibatch(template=template, cases=tuple(shuffled[start : start + size]), learnt=learnt)
            for start in range(0, len(shuffled), size)
        ]
    return tuple(made)


def by_item(results: Sequence[RolloutResult]) -> Mapping[str, list[RolloutResult]]:
    """The measured attempts of each item, in the order of the items."""
    found: dict[str, list[RolloutResult]] = {}
    for result in results:
        if not result.call_error:
            found.setdefault(result.id, []).append(result)
    return found


def revisits(before: Sequence[RolloutResult], now: Sequence[RolloutResult]) -> tuple[Revisit, ...]:
    """Items measured under both skills, paired by the ids of their results."""
    earlier = {result.id: result for result in before if not result.call_error}
    return tuple(
        Revisit(
            id=_id(result),
            passed_before=earlier[result.id].hard >= 1,
            passed_now=result.hard >= 1,
            asked=_asked(result),
            before=_with_reason(earlier[result.id]),
            now=_with_reason(result),
        )
        for result in now
        if not result.call_error and result.id in earlier
    )


def _case(result: RolloutResult) -> str:
    parts = [quote("asked", _asked(result)), quote("answer", _trajectory(result), TRAJECTORY)]
    return _framed(result, [*parts, *_told(result)])


def _contrast(best: RolloutResult, worst: RolloutResult) -> str:
    parts = [
        quote("asked", _asked(best)),
        quote("better-answer", _trajectory(best), TRAJECTORY),
        quote("worse-answer", _trajectory(worst), TRAJECTORY),
    ]
    return _framed(best, [*parts, *_told(worst)])


def _framed(result: RolloutResult, parts: Sequence[str]) -> str:
    return "\n".join([f'<request id="{_id(result)}">', *parts, "</request>"])


def _told(result: RolloutResult) -> list[str]:
    """What is known of the item besides the attempt; a training item has no secrets from the optimizer."""
    told = {"wanted": result.reference_text, "why-it-failed": result.fail_reason}
    return [quote(tag, text, REFERENCE) for tag, text in told.items() if text.strip()]


def _with_reason(result: RolloutResult) -> str:
    return f"{result.response}\n{result.fail_reason}".strip()


def _asked(result: RolloutResult) -> str:
    return result.question or result.task_description or result.target_user_prompt or result.id


def _trajectory(result: RolloutResult) -> str:
    """What the agent did: its turns when there are several, else its answer."""
    turns = [turn for turn in result.conversation if turn.get("role") != "system"]
    if len(turns) <= 2:  # noqa: PLR2004  a question and an answer
        return result.response
    return "\n".join(f"[{turn.get('role', '?')}] {turn.get('content', '')}" for turn in turns)


def _id(result: RolloutResult) -> str:
    """The id, as it can stand in a tag."""
    return _NO_NAME.sub("_", result.id)


def reflect_on(
    results: Sequence[RolloutResult],
    skill: str,
    *,
    optimizer_client: ChatClient,
    workers: int,
    failure_only: bool,
    minibatch_size: int,
    edit_budget: int,
    random_seed: int,
    error_system: str | None = None,
    success_system: str | None = None,
    step_buffer_context: str = "",
    meta_skill_context: str = "",
) -> list[RawPatch]:
    """One patch of each analyst that proposed something. Raises ``FatalBackend`` and ``BudgetSpent``.

    ``error_system`` and ``success_system`` take the place of the analysts' instructions; the form of their reply stays.
    """
    config = SkillOptConfig(
        minibatch_size=minibatch_size, failure_only=failure_only, edit_budget=edit_budget, min_edit_budget=1
    )
    wording = {"analyst_error": error_system, "analyst_success": success_system}
    optimizer = Optimizer(
        ask=ask_of(optimizer_client),
        parallel=Pool(workers),
        wording={name: text for name, text in wording.items() if text is not None},
    )
    notes = [meta_skill_context.strip(), f"Tried before:\n{step_buffer_context}" if step_buffer_context.strip() else ""]
    analyses = analyse(
        minibatches(results, config, str(random_seed)),
        DocumentKind.SKILL,
        skill,
        frozenset(each.id for each in results),
        optimizer,
        lesson=Lesson(edit_budget=edit_budget, notes="\n\n".join(filter(None, notes))),
        phase="reflect",
    )
    return [
        RawPatch(
            patch=to_patch(each.patch),
            source_type="success" if each.patch.learnt is Learnt.SUCCESS else "failure",
            batch_size=each.patch.cases,
        )
        for each in analyses
        if each.patch.proposals
    ]
