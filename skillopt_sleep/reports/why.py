"""Where a rule came from: every night that had to do with it, the tasks and the person's words it stands on.

A rule that an agent obeys for months must answer for itself, adopted or not. All of it is in the nights' own reports.

What ``why`` prints: a rule, what became of it, whose words it stands on, and how each night tested it.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from skillopt_sleep.model.edit import AppliedEdit, EditOp, EditRecord, EditStatus, unmarked
from skillopt_sleep.model.text import contains_words, excerpt, fold
from skillopt_sleep.night.report import NightReport, TaskLabel, TrialReport
from skillopt_sleep.reports import tally
from skillopt_sleep.reports.rows import bare
from skillopt_sleep.reports.words import DOCUMENTS, number, plain, score, sentence, when

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


TEXT = 100
"""Characters of a rule in a list, and of a task."""

STATES = {
    RuleState.PROPOSED: "proposed, and not adopted",
    RuleState.ADOPTED: "adopted; it is live",
    RuleState.ALTERED: "adopted; no longer in {file} as adopted",
    RuleState.REVERTED: "adopted once, and reverted",
    RuleState.REJECTED: "rejected: it was tried and did not help",
    RuleState.PENDING: "pending: not decided yet, the next night goes on with it",
    RuleState.DROPPED: "dropped: it was not decided, and could not go on",
    RuleState.HELD: "held back: it was never tried",
}


def render(stories: Sequence[Story]) -> str:
    """The whole story of one rule, or a list of several; not ended by a newline."""
    if len(stories) == 1:
        return "\n\n".join("\n".join(part) for part in _parts(stories[0]) if part)
    lines = [f"{number(len(stories), 'rule')} have that in them; name one by its id:", ""]
    lines += [f"  skillopt-sleep why {each.edit.id}  {each.state:<9}  {excerpt(_rule(each), TEXT)}" for each in stories]
    return "\n".join(lines)


def _parts(story: Story) -> Iterator[list[str]]:
    edit = story.edit
    yield [_rule(story)]
    state = STATES[story.state].format(file=plain(story.altered_in))
    about = [f"  state   {state}", f"  edit    {edit.id}, {_does(story)}"]
    yield about + ([f"  reason  {plain(edit.reason)}"] if edit.reason else [])
    if story.tasks:
        yield ["It was written from:"]
        yield from (list(_task(task)) for task in story.tasks)
    else:
        yield ["No task of yours is known that it was written from."]
    yield from (list(_attempt_lines(attempt)) for attempt in story.attempts)


def _rule(story: Story) -> str:
    return bare(story.edit.text or story.edit.anchor)


def _does(story: Story) -> str:
    edit, document = story.edit, DOCUMENTS[story.edit.document]
    match edit.op:
        case EditOp.REPLACE:
            return f"in the {document} instead of “{excerpt(bare(edit.anchor), TEXT)}”"
        case EditOp.DELETE:
            return f"taken out of the {document}"
        case _:
            return f"new in the {document}"


def _task(task: TaskLabel) -> Iterator[str]:
    yield f"  {plain(task.intent)}"
    yield from (f"    you said  “{plain(words)}”" for words in task.words)
    yield from (f"    session   {plain(f'{each.day} {each.source} {each.session_id}')}" for each in task.origins)


def _attempt_lines(attempt: Attempt) -> Iterator[str]:
    yield f"Night {plain(attempt.night)}, {when(attempt.started_at)}"
    trial = attempt.trial
    if trial is None:
        yield f"  {sentence(attempt.why) or 'It was proposed without a test.'}"
        return
    if trial.k is None:
        decision = trial.decision
        means = f"{score(decision.baseline)} -> {score(decision.candidate)}"
        yield f"  {decision.wins} better, {decision.losses} worse, mean score {means}: {decision.verdict}"
    else:
        yield f"  {tally.trial(trial)}"
        yield f"  E = {trial.e:g} (1.618 to the score; at most 1 on average for an edit that is useless)"
    if trial.tasks_in_all:
        yield f"  tested on {number(trial.tasks_in_all, 'different task')} that it was not written from"
    if others := len(trial.edits) - 1:
        yield f"  tried together with {number(others, 'other rule')}"
    yield from (f"  better  {excerpt(plain(task), TEXT)}" for task in attempt.improved)
    for task in attempt.worsened:
        again = " (and twice more when replayed again)" if task in attempt.confirmed else ""
        yield f"  worse   {excerpt(plain(task), TEXT)}{again}"
    yield f"  all of it: skillopt-sleep show {plain(attempt.night)}"
