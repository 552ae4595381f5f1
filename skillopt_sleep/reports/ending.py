"""How a night ended, and what to do now, in plain words: the first thing every report says."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.call import Caps, Spend
from skillopt_sleep.night.report import GateAction, NightReport, NightState, StoppedBy
from skillopt_sleep.reports import trust
from skillopt_sleep.reports.rows import Outcome, task_rows
from skillopt_sleep.reports.tally import claims, paired
from skillopt_sleep.reports.words import errors, number, plain, score, sentence


class Word(enum.StrEnum):
    """How a night ended, in one word."""

    ACCEPTED = "ACCEPTED"
    UNTESTED = "UNTESTED"
    REJECTED = "REJECTED"
    UNDECIDED = "UNDECIDED"
    UNMEASURED = "UNMEASURED"
    NOTHING_NEW = "NOTHING NEW"
    STOPPED = "STOPPED"
    RUNNING = "RUNNING"


class Step(Struct, frozen=True, kw_only=True):
    """Something to do: a command, and what it does."""

    command: str
    effect: str


class Ending(Struct, frozen=True, kw_only=True):
    """How a night ended: a heading, a sentence or two, what to do now, and the commands for it."""

    word: Word
    title: str
    says: str
    now: str
    steps: tuple[Step, ...] = ()


_GOES_ON = "Nothing to do, and nothing of yours has changed. The next night goes on with new tasks."
_NEXT_TIME = "Nothing to do: come back after some more work with your agent."
_WORK_ON = "Go on working, and say it to your agent when it gets something wrong: that makes the best tasks."

_DOCTOR = Step(command="skillopt-sleep doctor", effect="checks your agent and spends nothing")
_INSIGHTS = Step(command="skillopt-sleep insights", effect="shows what your sessions tell so far")
_RUN = Step(command="skillopt-sleep run", effect="goes on; nothing is paid for twice")


def ending(report: NightReport) -> Ending:
    """How the night ended. A verdict counts more than what stopped the night, once there is a proposal."""
    if report.state is NightState.RUNNING:
        return _running(report)
    if report.stopped_by is not None and report.proposal is None:
        return _STOPS[report.stopped_by](report)
    if report.gate_action in {GateAction.GREEDY_APPLIED, GateAction.GREEDY_NOOP}:
        return _greedy(report)
    return _VERDICTS[report.verdict](report)


def _running(report: NightReport) -> Ending:
    return Ending(
        word=Word.RUNNING,
        title="not finished",
        says=f"The night has got {_how_far(report)}. If nothing runs any more, it was killed.",
        now="Wait for it. If it was killed, start it again: it goes on where it was.",
        steps=(_RUN,),
    )


def _accepted(report: NightReport) -> Ending:
    return Ending(
        word=Word.ACCEPTED,
        title="a change is ready",
        says=_text(
            "A change to what your agent reads helped, and waits for your word.", claims(report) or _trial(report)
        ),
        now="Nothing of yours has been touched yet. Look at the change, then adopt it if you want it.",
        steps=_adoption(report),
    )


def _greedy(report: NightReport) -> Ending:
    if report.gate_action is GateAction.GREEDY_NOOP:
        says = _text("No change was proposed tonight.", sentence(report.why))
        return Ending(word=Word.UNDECIDED, title="nothing was proposed", says=says, now=_GOES_ON)
    return Ending(
        word=Word.UNTESTED,
        title="an untested change is ready",
        says="A change is proposed, and nobody knows whether it helps: testing is switched off (gate_mode = off).",
        now="Nothing of yours has been touched yet. Read the change with care before you adopt it.",
        steps=_adoption(report),
    )


def _adoption(report: NightReport) -> tuple[Step, ...]:
    night = plain(report.night)
    return (
        Step(command=f"skillopt-sleep show {night}", effect="shows the exact change"),
        Step(command=f"skillopt-sleep adopt {night}", effect="puts it live"),
        Step(command=f"skillopt-sleep revert {night}", effect="undoes that later, byte for byte"),
    )


def _rejected(report: NightReport) -> Ending:
    return Ending(
        word=Word.REJECTED,
        title="nothing changes",
        says=_text("What was proposed tonight did not help, so it was dropped.", _trial(report)),
        now="Nothing to do. What was dropped is remembered, so that the next night tries something else.",
    )


def _undecided(report: NightReport) -> Ending:
    counts = report.counts
    if not (counts.train and counts.val):
        lacking = "to test it on" if counts.train else "to learn from"
        return Ending(
            word=Word.UNDECIDED,
            title="too few different tasks",
            says=_text(
                f"Your sessions gave {number(counts.tasks, 'task')}. A change is written from some tasks and tested on"
                f" others that ask for something else, and tonight there was none {lacking}.",
                trust.missing(report.shortfall),
            ),
            now=_WORK_ON,
            steps=(_INSIGHTS,),
        )
    if report.pending:
        wait = number(len(report.pending), "change")
        says = f"{wait} could not be decided yet, and {'goes' if len(report.pending) == 1 else 'go'} on the next night."
        says = _text(says, trust.missing(report.shortfall))
        return Ending(word=Word.UNDECIDED, title="no decision yet", says=says, now=_GOES_ON)
    if trial := _trial(report):
        says = _text("Whether the change helps could not be decided.", trial, sentence(report.why))
        return Ending(word=Word.UNDECIDED, title="no decision yet", says=says, now=_GOES_ON)
    says = _text("No change was tried tonight.", sentence(report.why))
    return Ending(word=Word.UNDECIDED, title="nothing was tried", says=says, now=_GOES_ON)


def _unmeasured(report: NightReport) -> Ending:
    lost = errors(report)
    return Ending(
        word=Word.UNMEASURED,
        title="too little could be measured",
        says=_text(
            "Too many answers of the model never arrived.",
            sentence(report.why),
            f"What went wrong: {lost}." if lost else "",
        ),
        now="A lost answer is never counted as a bad one. See whether your agent can be reached, then run again.",
        steps=(_DOCTOR, _RUN),
    )


def _no_sessions(report: NightReport) -> Ending:
    counts = report.counts
    if counts.out_of_scope:
        return Ending(
            word=Word.NOTHING_NEW,
            title="nothing new in this project",
            says=f"No new session in this project; {number(counts.out_of_scope, 'session')} of other projects wait.",
            now=_NEXT_TIME,
            steps=(Step(command="skillopt-sleep run --scope all", effect="learns from all projects, for all of them"),),
        )
    if not counts.files_seen:
        return Ending(
            word=Word.NOTHING_NEW,
            title="no sessions found",
            says="No session of any agent was found on this machine.",
            now="See where they were looked for.",
            steps=(Step(command="skillopt-sleep doctor", effect="shows the agents and folders that were found"),),
        )
    says = "There is no new session to learn from since the last night."
    return Ending(word=Word.NOTHING_NEW, title="nothing new", says=says, now=_NEXT_TIME)


def _no_tasks(report: NightReport) -> Ending:
    sessions = number(report.counts.sessions, "session was", "sessions were")
    return Ending(
        word=Word.NOTHING_NEW,
        title="no tasks found",
        says=f"{sessions} read, and nothing was found that could be replayed and judged.",
        now=_WORK_ON,
        steps=(_INSIGHTS,),
    )


def _backend(report: NightReport) -> Ending:
    return Ending(
        word=Word.STOPPED,
        title="your agent could not be used",
        says=_text("The night stopped before it judged anything.", sentence(report.why)),
        now="Put that right, then run again. Nothing is lost: sessions and tasks wait for the next night.",
        steps=(_DOCTOR, _RUN),
    )


def _budget(report: NightReport) -> Ending:
    cap, flag = _nearest_cap(report.caps, report.spend)
    return Ending(
        word=Word.STOPPED,
        title=f"the cap on {cap} was reached",
        says=_text("The night stopped at a cap before it could decide anything.", sentence(report.why)),
        now="Run again with a higher cap, or just again: either way it goes on where it stopped.",
        steps=(Step(command=f"skillopt-sleep run {flag}", effect="goes on with twice the cap"), _RUN),
    )


def _handoff(report: NightReport) -> Ending:
    return Ending(
        word=Word.STOPPED,
        title="waiting for answers",
        says=_text("The questions of this night are written down and wait for answers.", sentence(report.why)),
        now="Let your agent answer them, then run again.",
        steps=(_RUN,),
    )


def _interrupted(report: NightReport) -> Ending:
    return Ending(
        word=Word.STOPPED,
        title="stopped from outside",
        says=f"The night was interrupted; it had got {_how_far(report)}. What is paid for is kept.",
        now="Run again whenever you like.",
        steps=(_RUN,),
    )


def _crash(report: NightReport) -> Ending:
    return Ending(
        word=Word.STOPPED,
        title="it failed",
        says=_text(f"The night failed; it had got {_how_far(report)}.", sentence(report.why)),
        now="Run again. If it fails in the same way, report it, with the diagnostics.json beside this report.",
        steps=(_RUN,),
    )


def _how_far(report: NightReport) -> str:
    """``report.stage`` is the last one that was finished."""
    return "nowhere yet" if report.stage == "open" else f"through its stage “{plain(report.stage)}”"


def _text(*sentences: str) -> str:
    return " ".join(each for each in sentences if each)


def _trial(report: NightReport) -> str:
    """What the comparison showed under the strict rule, in a sentence; "" when there was none."""
    if paired(report):
        return ""
    outcomes = Counter(pair.outcome for pair in task_rows(report))
    if not outcomes:
        return ""
    counted = ", ".join(f"{outcomes[each]} {each}" for each in Outcome if outcomes[each])
    went = f"the mean score went from {score(report.baseline_score)} to {score(report.candidate_score)} (1 is perfect)"
    return f"Your own tasks were replayed with and without it: {went}; {counted}."


def _nearest_cap(caps: Caps, spend: Spend) -> tuple[str, str]:
    """The cap that stood in the way: its name, and the flag that doubles it."""
    shares = {
        ("calls", f"--max-calls {2 * caps.calls}"): spend.calls / max(caps.calls, 1),
        ("tokens", f"--max-tokens {2 * caps.tokens}"): spend.tokens / max(caps.tokens, 1),
        ("money", f"--max-usd {2 * caps.usd:g}"): spend.usd / max(caps.usd, 0.01),
        ("minutes", f"--max-minutes {2 * caps.minutes:g}"): spend.seconds / 60 / max(caps.minutes, 0.01),
    }
    return max(shares, key=lambda name: shares[name])


_VERDICTS: Mapping[Verdict, Callable[[NightReport], Ending]] = {
    Verdict.ACCEPT: _accepted,
    Verdict.REJECT: _rejected,
    Verdict.UNDECIDED: _undecided,
    Verdict.UNMEASURED: _unmeasured,
}

_STOPS: Mapping[StoppedBy, Callable[[NightReport], Ending]] = {
    StoppedBy.NO_SESSIONS: _no_sessions,
    StoppedBy.NO_TASKS: _no_tasks,
    StoppedBy.BACKEND: _backend,
    StoppedBy.BUDGET: _budget,
    StoppedBy.HANDOFF: _handoff,
    StoppedBy.INTERRUPTED: _interrupted,
    StoppedBy.CRASH: _crash,
}
