"""Mines tasks by rules, without a model: every request that is clear by itself, judged by the person's feedback.

A correction is worth most: it tells what was asked, what was wrong and, by the answer it led to, what is right.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from skillopt_sleep.mining.commands import find_checks
from skillopt_sleep.mining.episodes import Episode, find_obstacle, split_episodes
from skillopt_sleep.mining.tasks import (
    MAX_COMMANDS,
    MAX_FEEDBACK,
    MAX_QUOTE,
    Mined,
    belongs_to_skill,
    build_origin,
    build_task_id,
    merge_tasks,
    shorten_answer,
)
from skillopt_sleep.model.lexicon import strip_pasted
from skillopt_sleep.model.near_duplicates import group_recurrences
from skillopt_sleep.model.replies import Refusal
from skillopt_sleep.model.session import Session
from skillopt_sleep.model.task import ExactReference, Outcome, Reference, RubricReference, TaskRecord
from skillopt_sleep.model.text import excerpt

MAX_LITERAL = 80
"""Characters below which a one-line answer that took no tool counts as a literal."""

MAX_EXAMPLE = 700
"""Characters of an accepted answer that a rubric quotes."""


class _Found(Struct, frozen=True, kw_only=True):
    session: Session
    episode: Episode


def mine_heuristic(sessions: Sequence[Session], *, target_skill: str = "") -> Mined:
    """Return the tasks of these sessions, near-duplicates merged; with ``target_skill``, only tasks of that skill."""
    found: list[_Found] = []
    refused: list[Refusal] = []
    for session in sessions:
        for episode in split_episodes(session):
            prompt = episode.request.prompt
            why = find_obstacle(episode)
            if not why and target_skill and not belongs_to_skill(target_skill, episode.skills, strip_pasted(prompt)):
                why = f"not of the skill {target_skill!r}"
            if why:
                refused.append(Refusal(subject=session.session_id, words=excerpt(prompt, MAX_QUOTE), why=why))
            else:
                found.append(_Found(session=session, episode=episode))
    groups: dict[int, list[_Found]] = {}
    numbers = group_recurrences([strip_pasted(item.episode.request.prompt) for item in found])
    for number, item in zip(numbers, found, strict=True):
        groups.setdefault(number, []).append(item)
    tasks = sorted(map(_build_task, groups.values()), key=_sort_key)
    return Mined(tasks=merge_tasks((), tasks), refused=tuple(refused), found=len(tasks))


def _build_task(recurrences: Sequence[_Found]) -> TaskRecord:
    """Return one task for all the times that the same was asked; the most instructive one sets the reference."""
    best = max(recurrences, key=lambda item: _rank_value(item.episode))
    ordered = [best, *(item for item in recurrences if item is not best)]
    episode, request = best.episode, best.episode.request
    origins = [build_origin(item.session, item.episode.request, item.episode.request.prompt) for item in recurrences]
    origins.sort(key=lambda origin: (origin.at, origin.session_id))
    corrections = (excerpt(turn.prompt, MAX_QUOTE) for item in ordered for turn in item.episode.corrections)
    feedback = tuple(dict.fromkeys(corrections))[:MAX_FEEDBACK]
    outcomes = {item.episode.outcome for item in recurrences} - {Outcome.UNKNOWN}
    checks = (line for item in ordered for line in find_checks(item.episode.commands, item.session.cwd))
    return TaskRecord(
        id=build_task_id(request.prompt, origins[0]),
        intent=request.prompt,
        reference=_build_reference(episode, feedback),
        context=_build_context(episode),
        feedback=feedback,
        accepted=shorten_answer(episode.accepted),
        rejected=shorten_answer(episode.rejected),
        outcome=Outcome.MIXED if len(outcomes) > 1 else next(iter(outcomes), Outcome.UNKNOWN),
        origins=tuple(origins),
        skill_hint=next((skill for item in ordered for skill in item.episode.skills), ""),
        project=best.session.cwd,
        commands=tuple(dict.fromkeys(checks))[:MAX_COMMANDS],
        commit=best.session.commit,
    )


def _rank_value(episode: Episode) -> tuple[bool, bool, bool]:
    """Return a number that says how much an episode teaches."""
    return bool(episode.corrections), episode.approved, bool(episode.accepted)


def _sort_key(task: TaskRecord) -> tuple[bool, bool, int]:
    """Return the order of tasks: corrected ones, then approved ones, then the most frequent."""
    return not task.feedback, task.outcome is not Outcome.SUCCESS, -len(task.origins)


def _build_context(episode: Episode) -> str:
    """Return the previous answer, if the request refers to it; "" otherwise."""
    if not episode.previous or not episode.points_outside:
        return ""
    answer = shorten_answer(episode.previous)
    return f"Your previous answer in this conversation was:\n\n{answer}\n\nThe request:"


def _build_reference(episode: Episode, feedback: Sequence[str]) -> Reference:
    if not feedback and (literal := _find_literal(episode)):
        return ExactReference(answer=literal)
    demands = []
    if feedback:
        demands.append(
            "The answer does what was asked and heeds from the start, without being told, what this person had to say"
            f" about an earlier answer: {' '.join(map(_quote, feedback))}"
        )
    if episode.accepted:
        demands.append(
            f"It agrees in substance with the answer this person {'approved' if episode.approved else 'let stand'},"
            f" which begins: {_quote(excerpt(episode.accepted, MAX_EXAMPLE))}. It may be worded, ordered and detailed"
            " differently; what cannot be known without doing the work (names of commits, results of commands) need"
            " not be in it."
        )
    return RubricReference(rubric="\n".join(demands))


def _quote(words: str) -> str:
    return f"\N{LEFT DOUBLE QUOTATION MARK}{words}\N{RIGHT DOUBLE QUOTATION MARK}"


def _find_literal(episode: Episode) -> str:
    """Return an approved answer that consists of nothing but the requested literal; "" for any other."""
    answer = episode.accepted.strip()
    if not episode.approved or episode.used_tools or "\n" in answer or not 0 < len(answer) < MAX_LITERAL:
        return ""
    return "" if answer[-1] in ".!?:…" else answer.strip("`\"'")
