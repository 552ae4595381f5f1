"""Replay: each task attempted under a candidate and scored, all of it independent work."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.domain.call import Prompt
from skillopt_sleep.domain.candidate import Candidate
from skillopt_sleep.domain.document import region
from skillopt_sleep.domain.rollout import ReplayResult
from skillopt_sleep.domain.task import TaskRecord, reference_kind
from skillopt_sleep.errors import TransientBackend, UsageError
from skillopt_sleep.ports import Ask, Judge, Parallel
from skillopt_sleep.prompts import render

__all__ = ["Attempt", "Models", "answer", "judge_of", "replay", "replay_prompt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The two models of a step, who scores their work, and how much is done at once."""

    target: Ask
    optimizer: Ask
    judges: Mapping[str, Judge]
    parallel: Parallel


class Attempt(Struct, frozen=True, kw_only=True):
    """One rollout to make: a task, the candidate it is made under, and the number of the sample."""

    task: TaskRecord
    candidate: Candidate
    sample: int = 0


def replay(attempts: Sequence[Attempt], models: Models, *, phase: str) -> tuple[ReplayResult, ...]:
    """Make every attempt and score it; results in the order of the attempts.

    What transport lost comes back unmeasured, never as a score. Raises ``FatalBackend``, ``BudgetSpent``.
    """
    return tuple(models.parallel(functools.partial(_make, models=models, phase=phase), attempts))


def replay_prompt(task: TaskRecord, candidate: Candidate, *, sample: int = 0) -> Prompt:
    """What the target is sent for one task: the documents, and the request in the person's own words."""
    documents = _documents(candidate)
    context = f"{task.context.strip()}\n\n" if task.context.strip() else ""
    if task.system:
        system, user = render(
            "replay_framed", framing=task.system, documents=documents, context=context, request=task.intent
        )
    else:
        system, user = render("replay", documents=documents, context=context, request=task.intent)
    return Prompt(system=system, user=user, sample=sample)


def _documents(candidate: Candidate) -> str:
    """What the agent would have read: a skill without its frontmatter, a memory file whole."""
    texts = {
        document.kind: region(document) if document.whole else (document.content or b"").decode("utf-8", "replace")
        for document in candidate.documents
    }
    return "\n\n".join(f"<{kind}>\n{text.strip()}\n</{kind}>" for kind, text in texts.items() if text.strip())


def answer(attempt: Attempt, *, models: Models, phase: str) -> ReplayResult:
    """The target's answer to one attempt, not scored yet; ``call_error`` says when transport lost it."""
    result = ReplayResult(task_id=attempt.task.id, candidate=attempt.candidate.digest, sample=attempt.sample)
    try:
        reply = models.target(replay_prompt(attempt.task, attempt.candidate, sample=attempt.sample), phase=phase)
    except TransientBackend as error:
        return replace(result, call_error=f"{type(error).__name__}: {error}")
    return replace(result, response=reply.text, tools_called=reply.tools_called, latency=reply.latency)


def judge_of(task: TaskRecord, judges: Mapping[str, Judge]) -> Judge:
    """The judge that a task's reference names. Raises ``UsageError`` when there is none of that name."""
    kind = reference_kind(task.reference)
    if kind not in judges:
        raise UsageError(f"task {task.id} asks for the judge {kind!r}; there is {', '.join(sorted(judges))}")
    return judges[kind]


def _make(attempt: Attempt, *, models: Models, phase: str) -> ReplayResult:
    result = answer(attempt, models=models, phase=phase)
    if result.call_error:
        return result
    try:
        score = judge_of(attempt.task, models.judges).score(attempt.task, result, models.optimizer)
    except TransientBackend as error:
        return replace(result, call_error=f"{type(error).__name__}: {error}")
    return replace(result, score=score)
