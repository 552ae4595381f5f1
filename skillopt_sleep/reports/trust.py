"""How far a verdict can be trusted, in words: noise, drift, a taste for a place, sealed tests, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from skillopt_sleep.gate.audit import ENOUGH, SUSPICIOUS, Audit, NullTrial
from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.task import DECIDING, Shortfall
from skillopt_sleep.night.report import SealedTest
from skillopt_sleep.reports.tally import chance
from skillopt_sleep.reports.words import number, plain, score


def audited(found: Audit) -> Iterator[str]:
    """The sentences of the audit; none before anything was replayed."""
    if found.repeats or found.val_tasks:
        yield noise(found)
    if found.drift < SUSPICIOUS:
        yield (
            f"Later replays of the same task did better {_times(found.later_better)} and worse"
            f" {_times(found.later_worse)}, which is more than luck ({_p(found.drift)}): something changes between"
            " them, the model or its judge."
        )
    if found.position.judged:
        yield position(found)


def brief(found: Audit) -> str:
    """The audit on a line or two: the gains that show, and what is wrong, if anything; the report has all of it."""
    if not found.known or found.differ is None:
        return "not known yet; the report says more" if found.repeats or found.val_tasks else ""
    shown = (
        f"one night shows gains of {found.tonight} points" if found.tonight else "one night shows no gain for sure",
        f"a week {found.in_a_week}" if found.in_a_week else "a week neither",
    )
    said = f"{found.differ:.0%} of repeats differ; {', '.join(shown) if found.val_tasks else 'no test tasks tonight'}"
    wrong = ["later replays do not come out as earlier ones"] if found.drift < SUSPICIOUS else []
    if found.position.judged and found.position.chance < SUSPICIOUS:
        wrong.append("the judge minds the order it is shown answers in")
    return "; ".join([said, *wrong])


def sealed_brief(test: SealedTest) -> str:
    """The sealed test on a line."""
    if test.why:
        return f"change of {plain(test.change)}: put off, {plain(test.why)}"
    return f"change of {plain(test.change)}: {score(test.before)} -> {score(test.after)} on {test.tasks} unseen tasks"


def noise(found: Audit) -> str:
    """How much the tasks vary by themselves, and what gain that lets be seen."""
    if not found.known or found.differ is None:
        return (
            f"How much your tasks vary by themselves is not known yet: of the {ENOUGH} replays repeated on another"
            f" night that takes, there are {found.repeats}.{_same_night(found)}"
        )
    spread = f"; the score of a task varies by {score(found.sd)} (one standard deviation)" if found.sd else ""
    said = (
        f"Of two replays of one task with the same files on different nights, {found.differ:.0%} differ"
        f" ({number(found.repeats)} repeats of {number(found.tasks, 'task')}{spread}).{_same_night(found)}"
    )
    if not found.val_tasks:
        return said
    tests = number(found.val_tasks, "test task")
    if found.in_a_week is None:
        return f"{said} With {tests} that is too much noise for any gain to be seen within a week."
    if found.tonight is None:
        return (
            f"{said} With {tests}, nothing is sure to be accepted in its first night; within a week, in 8 of 10 cases,"
            f" what makes about {found.in_a_week} more of a hundred replays pass."
        )
    return (
        f"{said} With {tests}, what makes about {found.tonight} more of a hundred replays pass is accepted in its first"
        f" night in 8 of 10 cases, and about {found.in_a_week} within a week."
    )


def _same_night(found: Audit) -> str:
    """What replays within one night say, which is apart: they share more than the files. "" where there are none."""
    if found.differ_same_night is None:
        return ""
    return f" Within one night {found.differ_same_night:.0%} differ ({number(found.repeats_same_night, 'repeat')})."


def position(found: Audit) -> str:
    """Which place the judge prefers, if any."""
    place = found.position
    said = (
        f"The judge saw {number(place.judged, 'pair')} of answers side by side, in random order: the one shown first"
        f" won {_times(place.first)}, the other {_times(place.second)}"
    )
    if not place.first + place.second:
        return f"{said}."
    if place.chance >= SUSPICIOUS:
        return f"{said}, as luck has it ({_p(place.chance)})."
    return (
        f"{said}, which is more than luck ({_p(place.chance)}): the place counts with it. As lots decide who is shown"
        " first, that hides gains and favours neither side."
    )


def sealed(test: SealedTest) -> str:
    """What came of the sealed test of an adopted change."""
    what = f"The change of night {plain(test.change)}"
    tries = {1: "at the first try", 2: "at the second try", 3: "at the third try"}.get(test.attempts, "")
    if test.why:
        so_far = f"; {number(test.attempts, 'try', 'tries')} so far" if test.attempts else ""
        return f"{what} is yet to be scored on {number(test.tasks, 'sealed task')}: {plain(test.why)}{so_far}."
    return (
        f"{what}, on {number(test.tasks, 'sealed task')} that nothing had seen: {score(test.before)} without it,"
        f" {score(test.after)} with it ({test.wins} better, {test.losses} worse). Scored once, {tries}; no verdict"
        " depends on it."
    )


def missing(found: Shortfall) -> str:
    """How many more tasks a verdict takes, and how long that is; "" when there are enough."""
    if not found.missing:
        return ""
    days = f": at your pace about {number(found.days, 'day')} of work" if found.days else ""
    more = number(found.missing, "more different task")
    verb = "is" if found.missing == 1 else "are"
    return f"{more} {verb} needed for a verdict that stands on {DECIDING} test tasks{days}."


def null_trial(found: NullTrial) -> Iterator[str]:
    """The trial of a change that changes nothing."""
    yield "Your files were tried against themselves, byte for byte the same: only noise can tell the two apart."
    yield ""
    tally = found.tally
    yield f"{tally.in_words} on {number(found.tasks, 'task')}: score {tally.score}; at {found.k} it is accepted."
    match found.verdict:
        case Verdict.ACCEPT:
            yield (
                f"ACCEPTED, and it should not have been. Luck does that to at most {chance(found.k)} of such trials, so"
                " try again: twice in a row, do not believe the verdicts of your nights."
            )
        case Verdict.UNMEASURED:
            yield f"Not measured: {plain(found.why)}."
        case _:
            yield f"Not accepted, as it must be. Luck accepts at most {chance(found.k)} of such trials."
    yield ""
    yield from audited(found.audit)
    yield ""
    yield f"It took {number(found.spend.calls, 'call')}. Nothing was proposed or staged, and nothing counts as tried."


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count) or f"{count:,} times"


def _p(value: float) -> str:
    return "p < .001" if value < 0.001 else f"p = {value:.3f}".replace("0.", ".")  # noqa: PLR2004
