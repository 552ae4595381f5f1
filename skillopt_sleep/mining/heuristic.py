"""Mining by rules, without a model call: each ask that stands on its own, judged by what its author said about it.

A correction is the best there is: it says what was asked, what was wrong and, by the answer it led to, what is right.

What mining yields, whichever way it is done.

Whether work belongs to a skill, as far as a session tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from skillopt_sleep.mining.commands import checks_of
from skillopt_sleep.mining.episodes import Episode, episodes, own_words, why_not_a_task
from skillopt_sleep.mining.recurrences import COMMANDS, FEEDBACK, merge, task_id
from skillopt_sleep.model.near_duplicates import group_recurrences, terms
from skillopt_sleep.model.replies import Refusal
from skillopt_sleep.model.session import Session, Turn
from skillopt_sleep.model.task import ExactReference, Origin, Outcome, Reference, RubricReference, TaskRecord
from skillopt_sleep.model.text import excerpt

WORDS = 400
"""Characters kept of a person's words where they are quoted."""

KEPT = 4_000
"""Characters kept of an answer."""


class Mined(Struct, frozen=True, kw_only=True):
    """Tasks, and what was not made into one, by name.

    ``unmined`` are ids of sessions that could not be mined tonight (their reply was lost or unreadable): they belong
    back into the inbox; ``lost`` says why. ``found`` counts tasks that came out of tonight's sessions, new or seen
    again.
    """

    tasks: tuple[TaskRecord, ...] = ()
    refused: tuple[Refusal, ...] = ()
    unmined: tuple[str, ...] = ()
    lost: str = ""
    found: int = 0


def origin(session: Session, ask: Turn, words: str) -> Origin:
    """Where a task was asked for, in the person's own words."""
    return Origin(
        source=session.source,
        session_id=session.session_id,
        path=session.path,
        words=excerpt(words, WORDS),
        at=ask.at or session.started_at,
        cwd=session.cwd,
    )


def cut(answer: str) -> str:
    """As much of an answer as is kept, its lines as they are."""
    return answer if len(answer) <= KEPT else answer[: KEPT - 1].rstrip() + "…"


def relates(skill: str, invoked: Iterable[str], intent: str, *, about: str = "") -> bool:
    """Whether ``skill`` was invoked (with or without the name of its plugin), or what it is for is asked about.

    What it is for are the words of its name, and of ``about``, its description.
    """
    if any(skill in {name, name.rpartition(":")[2]} for name in invoked):
        return True
    words = f"{skill} {about}".replace("-", " ").replace("_", " ")
    named = {term for term, weight in terms(words).items() if weight == 1.0}
    return not named.isdisjoint(terms(intent))


LITERAL = 80
"""Characters up to which an answer of one line, made without any tool, is taken for a literal."""

ANSWER = 700
"""Characters of an accepted answer that a rubric quotes."""


class _Found(Struct, frozen=True, kw_only=True):
    session: Session
    episode: Episode


def mine_heuristic(sessions: Sequence[Session], *, target_skill: str = "") -> Mined:
    """The tasks of these sessions, near-duplicates made one; with ``target_skill``, those that are of that skill."""
    found: list[_Found] = []
    refused: list[Refusal] = []
    for session in sessions:
        for episode in episodes(session):
            if why := why_not_a_task(episode) or _off_target(episode, target_skill):
                refused.append(Refusal(subject=session.session_id, words=excerpt(episode.ask.prompt, WORDS), why=why))
            else:
                found.append(_Found(session=session, episode=episode))
    groups: dict[int, list[_Found]] = {}
    asks = [own_words(each.episode.ask.prompt) for each in found]
    for number, each in zip(group_recurrences(asks), found, strict=True):
        groups.setdefault(number, []).append(each)
    tasks = sorted(map(_task, groups.values()), key=_rank)
    return Mined(tasks=merge((), tasks), refused=tuple(refused), found=len(tasks))


def _off_target(episode: Episode, target_skill: str) -> str:
    if not target_skill or relates(target_skill, episode.skills, own_words(episode.ask.prompt)):
        return ""
    return f"not of the skill {target_skill!r}"


def _task(recurrences: Sequence[_Found]) -> TaskRecord:
    """One task of all the times that the same was asked for, told by the time that teaches most."""
    best = max(recurrences, key=lambda each: _teaches(each.episode))
    episode, ask = best.episode, best.episode.ask
    origins = [origin(each.session, each.episode.ask, each.episode.ask.prompt) for each in recurrences]
    origins.sort(key=lambda each: (each.at, each.session_id))
    said = [best, *(each for each in recurrences if each is not best)]
    feedback = tuple(dict.fromkeys(excerpt(turn.prompt, WORDS) for each in said for turn in each.episode.corrections))[
        :FEEDBACK
    ]
    outcomes = {each.episode.outcome for each in recurrences} - {Outcome.UNKNOWN}
    return TaskRecord(
        id=task_id(ask.prompt, origins[0]),
        intent=ask.prompt,
        reference=_reference(episode, feedback),
        context=_context(episode),
        feedback=feedback,
        accepted=cut(episode.stood),
        rejected=cut(episode.wrong),
        outcome=Outcome.MIXED if len(outcomes) > 1 else next(iter(outcomes), Outcome.UNKNOWN),
        origins=tuple(origins),
        skill_hint=next((skill for each in said for skill in each.episode.skills), ""),
        project=best.session.cwd,
        commands=tuple(
            dict.fromkeys(line for each in said for line in checks_of(each.episode.commands, each.session.cwd))
        )[:COMMANDS],
        commit=best.session.commit,
    )


def _teaches(episode: Episode) -> tuple[bool, bool, bool]:
    return bool(episode.corrections), episode.approved, bool(episode.stood)


def _rank(task: TaskRecord) -> tuple[bool, bool, int]:
    """The order of tasks: corrected ones, then approved ones, then those asked for most often."""
    return not task.feedback, task.outcome is not Outcome.SUCCESS, -len(task.origins)


def _context(episode: Episode) -> str:
    """The answer that an ask points at, without which it would not be understood."""
    if not episode.before or not episode.points_outside:
        return ""
    return f"Your previous answer in this conversation was:\n\n{cut(episode.before)}\n\nThe request:"


def _reference(episode: Episode, feedback: Sequence[str]) -> Reference:
    if not feedback and (literal := _literal(episode)):
        return ExactReference(answer=literal)
    demands = []
    if feedback:
        demands.append(
            "The answer does what was asked and heeds from the start, without being told, what this person had to say"
            f" about an earlier answer: {' '.join(map(_quoted, feedback))}"
        )
    if episode.stood:
        demands.append(
            f"It agrees in substance with the answer this person {'approved' if episode.approved else 'let stand'},"
            f" which begins: {_quoted(excerpt(episode.stood, ANSWER))}. It may be worded, ordered and detailed"
            " differently; what cannot be known without doing the work (names of commits, results of commands) need"
            " not be in it."
        )
    return RubricReference(rubric="\n".join(demands))


def _quoted(words: str) -> str:
    return f"\N{LEFT DOUBLE QUOTATION MARK}{words}\N{RIGHT DOUBLE QUOTATION MARK}"


def _literal(episode: Episode) -> str:
    """An approved answer that is nothing but the literal that was asked for, "" for any other."""
    answer = episode.stood.strip()
    if not episode.approved or episode.used_tools or "\n" in answer or not 0 < len(answer) < LITERAL:
        return ""
    return "" if answer[-1] in ".!?:…" else answer.strip("`\"'")
