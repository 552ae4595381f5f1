"""What ``why`` prints: a rule, what became of it, whose words it stands on, and how each night tested it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillopt_sleep.domain.edit import EditOp
from skillopt_sleep.domain.report import TaskLabel
from skillopt_sleep.domain.why import Attempt, RuleState, Story
from skillopt_sleep.domain.words import excerpt
from skillopt_sleep.reports import tally
from skillopt_sleep.reports.phrases import DOCUMENTS, number, score, sentence, when
from skillopt_sleep.reports.plain import plain
from skillopt_sleep.reports.rows import bare

__all__ = ["render"]

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
    yield from (list(_attempt(attempt)) for attempt in story.attempts)


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


def _attempt(attempt: Attempt) -> Iterator[str]:
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
