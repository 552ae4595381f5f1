"""Replay: attempts every task under a candidate and has it scored, in parallel.

As text, the documents stand in the prompt of one call. Otherwise the agent itself is let to work with the documents in
place, and what it did by itself, such as refusing or going round in circles, is its score and not a lost call.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import TransientBackend, UsageError
from skillopt_sleep.model.call import Prompt, Reply
from skillopt_sleep.model.document import Candidate, DocumentKind, read_region
from skillopt_sleep.model.ports import Ask, Judge, Parallel
from skillopt_sleep.model.rollout import (
    Assignment,
    CheckCommand,
    Ending,
    ReplayMode,
    ReplayResult,
    Score,
    Trajectory,
    explain_not_loaded,
)
from skillopt_sleep.model.task import CommandReference, TaskRecord, reference_kind
from skillopt_sleep.optimizer.client import Optimizer
from skillopt_sleep.prompts import render


class Manner(Struct, frozen=True, kw_only=True):
    """How tasks are replayed: the mode, the git project that copies are made of, and the commands the user approved.

    ``probes``: there is an agent behind the target, which is to try once what has been tried as text.
    """

    mode: ReplayMode = ReplayMode.TEXT
    probes: bool = False
    project: str = ""
    approved: tuple[CheckCommand, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The two models of a step, who scores their work, how much is done at once, and how tasks are replayed."""

    target: Ask
    optimizer: Ask
    judges: Mapping[str, Judge]
    parallel: Parallel
    manner: Manner = Manner()  # noqa: RUF009  frozen

    @property
    def as_optimizer(self) -> Optimizer:
        """The optimizer model, ready to be asked with the templates of a step."""
        return Optimizer(ask=self.optimizer, parallel=self.parallel)

    @property
    def tried_with(self) -> str:
        """What a tally of pairs holds for: the target's model and, where it is not text, how it was replayed."""
        mode = self.manner.mode
        return self.target.model if mode is ReplayMode.TEXT else f"{self.target.model} ({mode})"


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


def render_replay_prompt(task: TaskRecord, candidate: Candidate, *, sample: int = 0) -> Prompt:
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


def assign(task: TaskRecord, candidate: Candidate, manner: Manner, *, sample: int = 0) -> Assignment:
    """The same for an agent: the request in the person's own words, and the documents where it looks for them.

    Of a task's commands only those that the user approved are ever handed on.
    """
    context = f"{task.context.strip()}\n\n" if task.context.strip() else ""
    system, user = render("replay_native", framing=task.system, context=context, request=task.intent)
    work = Assignment(system=system, user=user, sample=sample, mode=manner.mode, documents=candidate.documents)
    if manner.mode is not ReplayMode.WORKTREE:
        return replace(work, mode=ReplayMode.NATIVE)
    wanted = task.reference.commands if isinstance(task.reference, CommandReference) else ()
    return replace(
        work,
        project=manner.project,
        commit=task.commit,
        folder=_folder(task.project, manner.project),
        commands=tuple(each for each in manner.approved if each.line in wanted),
    )


def _folder(cwd: str, project: str) -> str:
    """Where in the project the session stood, "" at its top."""
    if not cwd or not PurePath(cwd).is_relative_to(project):
        return ""
    inside = PurePath(cwd).relative_to(project).as_posix()
    return "" if inside == "." or ".." in inside.split("/") else inside


def _documents(candidate: Candidate) -> str:
    """What the agent would have read: a skill without its frontmatter, a memory file whole."""
    texts = {
        document.kind: read_region(document) if document.whole else (document.content or b"").decode("utf-8", "replace")
        for document in candidate.documents
    }
    return "\n\n".join(f"<{kind}>\n{text.strip()}\n</{kind}>" for kind, text in texts.items() if text.strip())


def answer(attempt: Attempt, *, models: Models, phase: str) -> ReplayResult:
    """The target's answer to one attempt; ``call_error`` says when transport lost it.

    It is scored only where the agent's own ending is the score.
    """
    task, candidate, manner = attempt.task, attempt.candidate, models.manner
    result = ReplayResult(task_id=task.id, candidate=candidate.digest, sample=attempt.sample, mode=manner.mode)
    try:
        if manner.mode is ReplayMode.TEXT:
            reply = models.target(render_replay_prompt(task, candidate, sample=attempt.sample), phase=phase)
            return replace(result, response=reply.text, tools_called=reply.tools_called, latency=reply.latency)
        assignment = assign(task, candidate, manner, sample=attempt.sample)
        return record_trajectory(result, assignment, models.target(assignment, phase=phase))
    except TransientBackend as error:
        return replace(result, call_error=f"{type(error).__name__}: {error}")


def record_trajectory(result: ReplayResult, assignment: Assignment, done: Reply) -> ReplayResult:
    """The result with what became of an assignment.

    A candidate that the agent did not load has not been tried: the rollout is unmeasured.
    """
    if not isinstance(done, Trajectory):
        raise TypeError(f"an assignment was answered by {type(done).__name__}")
    read = {each.kind: each.read for each in done.shown}
    skill = next((each for each in assignment.documents if each.kind is DocumentKind.SKILL), None)
    score = None
    if done.ending is not Ending.DONE:
        score = Score(hard=0.0, soft=0.0, rationale=f"{done.ending.in_words}{f': {done.note}' if done.note else ''}")
    unloaded = explain_not_loaded(assignment, done)
    return replace(
        result,
        response=done.text,
        tools_called=done.tools_called,
        latency=done.latency,
        ending=done.ending,
        shown=done.shown,
        bypassed=skill is not None and skill.content is not None and read.get(DocumentKind.SKILL) is False,
        changes=done.changes,
        runs=done.runs,
        score=None if unloaded else score,
        call_error=f"NotLoaded: {unloaded}" if unloaded else "",
    )


def find_judge(task: TaskRecord, judges: Mapping[str, Judge]) -> Judge:
    """The judge that a task's reference names. Raises ``UsageError`` when there is none of that name."""
    kind = reference_kind(task.reference)
    if kind not in judges:
        raise UsageError(f"task {task.id} asks for the judge {kind!r}; there is {', '.join(sorted(judges))}")
    return judges[kind]


def _make(attempt: Attempt, *, models: Models, phase: str) -> ReplayResult:
    result = answer(attempt, models=models, phase=phase)
    if result.call_error or result.score is not None:
        return result
    try:
        # Equal answers of several samples are judged by one call: here none of them counts in a paired verdict.
        score = find_judge(attempt.task, models.judges).score(attempt.task, replace(result, sample=0), models.optimizer)
    except TransientBackend as error:
        return replace(result, call_error=f"{type(error).__name__}: {error}")
    return replace(result, score=score)
