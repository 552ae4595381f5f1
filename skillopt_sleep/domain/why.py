"""Where a rule came from: every night that had to do with it, the tasks and the person's words it stands on.

A rule that an agent obeys for months must answer for itself, adopted or not. All of it is in the nights' own reports.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from skillopt_sleep.domain.edit import AppliedEdit, EditRecord, EditStatus, unmarked
from skillopt_sleep.domain.report import NightReport, TaskLabel, TrialReport
from skillopt_sleep.domain.words import contains_words, fold

__all__ = ["Attempt", "RuleState", "Story", "find", "nearest"]

LIST_MARKS = "-*+• "


class RuleState(enum.StrEnum):
    """What became of a rule in the end."""

    PROPOSED = "proposed"
    ADOPTED = "adopted"
    ALTERED = "altered"
    """It was adopted, and its file does not have it any more as it was: someone has rewritten it, or taken it out."""
    REVERTED = "reverted"
    REJECTED = "rejected"
    PENDING = "pending"
    DROPPED = "dropped"
    """It was undecided, and could not go on."""
    HELD = "held back"
    """It was never tried: guarded, unmatched, or nothing new."""


class Attempt(Struct, frozen=True, kw_only=True):
    """What one night made of a rule.

    ``trial`` is the comparison it was part of, None without one; ``improved`` and ``worsened`` are what was asked in
    the tasks that did, ``confirmed`` in those that lost twice more when they were replayed again.
    """

    night: str
    started_at: str
    status: EditStatus
    why: str = ""
    trial: TrialReport | None = None
    improved: tuple[str, ...] = ()
    worsened: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()


class Story(Struct, frozen=True, kw_only=True):
    """A rule, what became of it, the tasks it was written from, and its nights, the oldest first.

    ``altered_in`` is the file that does not have it any more as adopted, "" for any other state.
    """

    edit: EditRecord
    state: RuleState
    tasks: tuple[TaskLabel, ...] = ()
    attempts: tuple[Attempt, ...]
    altered_in: str = ""


def find(
    wanted: str,
    nights: Sequence[NightReport],
    *,
    live: Mapping[tuple[str, str], bool],
    pending: Collection[str],
    altered: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> tuple[Story, ...]:
    """The rules that ``wanted`` names: the one of that id or those with just that text, else those it is a part of.

    A rule may be pasted with the list mark that it has in its file.
    ``nights`` come the latest first, and so do the stories. ``live`` knows each (night, edit id) that was ever adopted,
    and whether it still is; ``altered`` names the file of those that are live and not there as adopted; ``pending``
    are the ids of the undecided edits.
    """
    rules = _rules(nights)
    for said in (wanted, unmarked(wanted), wanted.lstrip(LIST_MARKS)):
        for matches in (
            lambda edit, said: edit.id == said.strip(),
            lambda edit, said: fold(unmarked(_text(edit))) == fold(said),
            lambda edit, said: contains_words(_text(edit), said),
        ):
            if found := [edit for edit in rules.values() if matches(edit, said)]:
                return tuple(_story(edit, nights, live, altered, pending) for edit in found)
    return ()


def nearest(wanted: str, nights: Sequence[NightReport]) -> str:
    """The rule that shares most words with ``wanted``; "" where none shares any."""
    said = set(fold(wanted).split())
    texts = list(dict.fromkeys(map(_text, _rules(nights).values())))
    best = max(texts, key=lambda text: len(said.intersection(fold(text).split())), default="")
    return best if said.intersection(fold(best).split()) else ""


def _rules(nights: Sequence[NightReport]) -> dict[str, EditRecord]:
    """Every edit by its id, as it was first met from the latest night backwards."""
    rules: dict[str, EditRecord] = {}
    for night in nights:
        for each in _edits(night):
            rules.setdefault(each.edit.id, each.edit)
    return rules


def _edits(night: NightReport) -> Iterator[AppliedEdit]:
    yield from (*night.applied_edits, *night.rejected_edits, *night.held_edits)


def _text(edit: EditRecord) -> str:
    return edit.text or edit.anchor


def _story(
    edit: EditRecord,
    nights: Sequence[NightReport],
    live: Mapping[tuple[str, str], bool],
    altered: Mapping[tuple[str, str], str],
    pending: Collection[str],
) -> Story:
    attempts, tasks = [], {}
    for night in reversed(nights):
        for each in _edits(night):
            if each.edit.id == edit.id:
                attempts.append(_attempt(each, night))
                wanted = each.edit.task_ids
                tasks.update({task.id: task for task in night.tasks if task.id in wanted})
    state = _state(edit, attempts, live, pending)
    now_live = [key for each in attempts if live.get(key := (each.night, edit.id))]
    file = ""
    if state is RuleState.ADOPTED and all(key in altered for key in now_live):
        state, file = RuleState.ALTERED, altered[now_live[-1]]
    return Story(edit=edit, state=state, tasks=tuple(tasks.values()), attempts=tuple(attempts), altered_in=file)


def _attempt(applied: AppliedEdit, night: NightReport) -> Attempt:
    trial = next((each for each in night.trials if applied.edit.id in each.edits), None)
    asked = {task.id: task.intent for task in night.tasks}
    return Attempt(
        night=night.night,
        started_at=night.started_at,
        status=applied.status,
        why=applied.why,
        trial=trial,
        improved=tuple(asked.get(task, task) for task in trial.improved) if trial else (),
        worsened=tuple(asked.get(task, task) for task in trial.worsened) if trial else (),
        confirmed=tuple(asked.get(task, task) for task in trial.confirmed_regressions) if trial else (),
    )


def _state(
    edit: EditRecord, attempts: Sequence[Attempt], live: Mapping[tuple[str, str], bool], pending: Collection[str]
) -> RuleState:
    """What is live counts most, then the last night that tried it; one that only met it again changes nothing."""
    adopted = [live[key] for each in attempts if (key := (each.night, edit.id)) in live]
    if adopted:
        return RuleState.ADOPTED if any(adopted) else RuleState.REVERTED
    if edit.id in pending:
        return RuleState.PENDING
    tried = {
        EditStatus.APPLIED: RuleState.PROPOSED,
        EditStatus.REJECTED: RuleState.REJECTED,
        EditStatus.PENDING: RuleState.DROPPED,
    }
    return next((tried[each.status] for each in reversed(attempts) if each.status in tried), RuleState.HELD)
