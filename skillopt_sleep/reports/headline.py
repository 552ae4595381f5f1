"""How a night ended and what to do now: the first lines of every report."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct

from skillopt_sleep.gate.rule import Verdict
from skillopt_sleep.model.call import Caps, Spend
from skillopt_sleep.night.report import GateAction, Loading, NightReport, NightState, StoppedBy
from skillopt_sleep.reports.blocks import Tone
from skillopt_sleep.reports.formatting import WORDS, describe_errors, number, plain, score, sentence, spell
from skillopt_sleep.reports.measurements import describe_gains, describe_shortfall, paired_trials
from skillopt_sleep.reports.rows import Outcome, list_said, list_tasks


class Ending(enum.StrEnum):
    """How a night ended, in one word."""

    ACCEPTED = "ACCEPTED"
    UNTESTED = "UNTESTED"
    NOT_LOADED = "NOT LOADED"
    NOT_OPENED = "NOT OPENED"
    REJECTED = "REJECTED"
    UNDECIDED = "UNDECIDED"
    UNMEASURED = "UNMEASURED"
    NOTHING_NEW = "NOTHING NEW"
    STOPPED = "STOPPED"
    RUNNING = "RUNNING"


TONES = {
    Ending.ACCEPTED: Tone.GOOD,
    Ending.UNDECIDED: Tone.WAITING,
    Ending.RUNNING: Tone.WAITING,
    Ending.STOPPED: Tone.BAD,
    Ending.UNMEASURED: Tone.BAD,
}
"""The colours of a night's ending."""


class Step(Struct, frozen=True):
    """A command to run next, and what it does."""

    command: str
    effect: str


class Headline(Struct, frozen=True):
    """How a night ended, and what to do about it."""

    ending: Ending
    title: str
    """A heading, in lower case."""
    text: str
    """What happened, in a sentence or two."""
    now: str
    """What to do now."""
    steps: tuple[Step, ...] = ()


_NOTHING_TO_DO = "Nothing to do; none of your files has changed. The next night continues with new tasks."
_COME_BACK = "Nothing to do: come back after some more work with your agent."
_KEEP_CORRECTING = "Keep working, and tell your agent when it gets something wrong: corrections make the best tasks."

_DOCTOR = Step("skillopt-sleep doctor", "checks your agent; costs nothing")
_INSIGHTS = Step("skillopt-sleep insights", "shows what your sessions tell so far")
_RUN = Step("skillopt-sleep run", "continues the night; nothing is paid for twice")


def _outdated(report: NightReport) -> Headline:
    stale = "; ".join(change.edited for change in report.documents if not change.adoptable)
    return Headline(
        Ending.UNTESTED if report.gate_action is GateAction.GREEDY_APPLIED else Ending.ACCEPTED,
        "the change no longer fits your file",
        _join(f"A change to your agent's instructions was proposed, but {plain(stale)}.", describe_gains(report)),
        "None of your files has changed. The next night starts from your edited file.",
        (Step(f"skillopt-sleep show {plain(report.night)} --all", "shows the change, to take over by hand"),),
    )


def summarize_night(report: NightReport) -> Headline:
    """Return how the night ended. Once there is a proposal, its verdict counts more than what stopped the night."""
    if report.state is NightState.RUNNING:
        return _running(report)
    if report.stopped_by is not None and report.proposal is None:
        return _STOPS.get(report.stopped_by, _stopped)(report)
    if report.proposal is not None and not all(change.adoptable for change in report.documents):
        return _outdated(report)
    if report.proposal is not None and report.replay.loading in {Loading.NOT_LOADED, Loading.NOT_OPENED}:
        return _unread(report)
    if report.gate_action in {GateAction.GREEDY_APPLIED, GateAction.GREEDY_NOOP}:
        return _without_gate(report)
    return _VERDICTS[report.verdict](report)


def _running(report: NightReport) -> Headline:
    return Headline(
        Ending.RUNNING,
        "not finished",
        f"The night has {_progress(report)}. If nothing is running any more, it was killed.",
        "Wait for it. If it was killed, run it again: it continues where it stopped.",
        (_RUN,),
    )


def _unread(report: NightReport) -> Headline:
    is_listed = report.replay.loading is Loading.NOT_OPENED
    does_not = "open its skill" if is_listed else "load it"
    is_tested = report.gate_action is not GateAction.GREEDY_APPLIED
    helped = "helped when it was read" if is_tested else "is proposed, untested"
    return Headline(
        Ending.NOT_OPENED if is_listed else Ending.NOT_LOADED,
        f"a change {'helps' if is_tested else 'is proposed'}, but your agent does not {does_not}",
        _join(
            f"A change to your agent's instructions {helped}, but your agent did not {does_not} by itself"
            f" ({plain(report.replay.why)}).",
            (describe_gains(report) or _compare_means(report)) if is_tested else "",
        ),
        "None of your files has changed. Adopted as it is, the change may do nothing. If you adopt it, tell your"
        " agent to read that file, or move the rules to its memory file.",
        _adoption(report),
    )


def _accepted(report: NightReport) -> Headline:
    if not any(trial.decision.verdict is Verdict.ACCEPT for trial in report.trials):
        return Headline(
            Ending.ACCEPTED,
            "a change still waits for you",
            "What earlier nights proved and you have not adopted is proposed again, on your files as they are now."
            " None of it was paid for or counted again, and nothing was added.",
            "None of your files has changed yet. Look at the change, then adopt it if you want it.",
            _adoption(report),
        )
    helped = describe_gains(report) or _compare_means(report)
    moved = "Your agent did not open the skill, so what was learnt goes to its memory file, which it loads."
    return Headline(
        Ending.ACCEPTED,
        "a change is ready",
        _join("A change to your agent's instructions helped.", moved if report.replay.moved else "", helped),
        "None of your files has changed yet. Look at the change, then adopt it if you want it.",
        _adoption(report),
    )


def _without_gate(report: NightReport) -> Headline:
    if report.gate_action is GateAction.GREEDY_NOOP:
        return _no_decision("nothing was proposed", "No change was proposed tonight.", sentence(report.why))
    return Headline(
        Ending.UNTESTED,
        "an untested change is ready",
        "A change is proposed, but it was not tested: testing is switched off (gate_mode = off).",
        "None of your files has changed yet. Read the change carefully before you adopt it.",
        _adoption(report),
    )


def _adoption(report: NightReport) -> tuple[Step, ...]:
    night = plain(report.night)
    return (
        Step(f"skillopt-sleep show {night} --all", "shows the exact change"),
        Step(f"skillopt-sleep adopt {night}", "applies it to your files"),
        Step(f"skillopt-sleep revert {night}", "undoes it later, byte for byte"),
    )


def _rejected(report: NightReport) -> Headline:
    return Headline(
        Ending.REJECTED,
        "nothing changes",
        _join("Tonight's proposal did not help, so it was dropped.", _compare_means(report)),
        "Nothing to do. The next night knows what was dropped and tries something else.",
    )


def _no_decision(title: str, *sentences: str) -> Headline:
    return Headline(Ending.UNDECIDED, title, _join(*sentences), _NOTHING_TO_DO)


def _undecided(report: NightReport) -> Headline:
    counts = report.counts
    shortfall = describe_shortfall(report.shortfall)
    if not (counts.train and counts.val):
        said = (
            f"Your sessions gave {number(counts.tasks, 'task')}. A change is learnt from some tasks and tested on"
            f" different ones, and tonight there was none {'to test it on' if counts.train else 'to learn from'}."
        )
        title = "too few different tasks"
        return Headline(Ending.UNDECIDED, title, _join(said, shortfall), _KEEP_CORRECTING, (_INSIGHTS,))
    if wishes := list_said(report):
        noun = number(len(wishes), "standing wish", "standing wishes")
        said = f"{noun} of yours worked where you said so; that is no proof yet."
        adopt = (f"skillopt-sleep adopt {plain(report.night)} --edit {plain(wish.edits[0])}" for wish in wishes)
        steps = tuple(Step(command, "applies this one to your files, by your word") for command in adopt)
        title, now = "what you said waits for your word", "None of your files has changed. Adopt what you want."
        return Headline(Ending.UNDECIDED, title, _join(said, shortfall), now, steps)
    if report.pending:
        rules = sum(len(pending.rules) for pending in report.pending)
        said = f"{spell(rules)} {'rule' if rules == 1 else 'rules'} could not be decided yet"
        said += "; the next night continues the test."
        return _no_decision("no decision yet", said, shortfall)
    if means := _compare_means(report):
        said = "It could not be decided whether the change helps."
        return _no_decision("no decision yet", said, means, sentence(report.why))
    return _no_decision("nothing was tried", "No change was tried tonight.", sentence(report.why))


def _unmeasured(report: NightReport) -> Headline:
    errors = describe_errors(report)
    said = ("Too many of the model's answers never arrived.", sentence(report.why), errors and f"The errors: {errors}.")
    return Headline(
        Ending.UNMEASURED,
        "too little could be measured",
        _join(*said),
        "A lost answer never counts as a bad one. Check that your agent can be reached, then run again.",
        (_DOCTOR, _RUN),
    )


def _no_sessions(report: NightReport) -> Headline:
    counts = report.counts
    if counts.older:
        return Headline(
            Ending.NOTHING_NEW,
            "nothing new in this project",
            f"This project has no session of the days that a night looks back. {number(counts.older, 'older session')}"
            " could be used.",
            _COME_BACK,
            (Step("skillopt-sleep run --set lookback_days=0", "learns from the older ones too"),),
        )
    if counts.out_of_scope:
        other = number(counts.out_of_scope, "session of another project", "sessions of other projects")
        return Headline(
            Ending.NOTHING_NEW,
            "nothing new in this project",
            f"This project has no new session. {other} could be used.",
            _COME_BACK,
            (Step("skillopt-sleep run --scope all", "learns from all your projects, for all of them"),),
        )
    if not counts.files_seen:
        return Headline(
            Ending.NOTHING_NEW,
            "no sessions found",
            "No session of any agent was found on this computer.",
            "Check where we looked.",
            (Step("skillopt-sleep doctor", "lists the agents and folders that were found"),),
        )
    said = "There is no new session to learn from since the last night."
    return Headline(Ending.NOTHING_NEW, "nothing new", said, _COME_BACK)


def _no_tasks(report: NightReport) -> Headline:
    sessions = number(report.counts.sessions, "session was", "sessions were")
    said = f"{sessions} read, but nothing in them could be replayed and judged."
    return Headline(Ending.NOTHING_NEW, "no tasks found", said, _KEEP_CORRECTING, (_INSIGHTS,))


def _budget(report: NightReport) -> Headline:
    cap, flag = _nearest_cap(report.caps, report.spend)
    if report.state is NightState.FINISHED:
        undecided = number(len(report.pending), "rule is", "rules are")
        return Headline(
            Ending.UNDECIDED,
            f"the cap on {cap} cut the tests short",
            f"{undecided} not decided yet, because the night reached its cap. Every pair that was paid for is counted.",
            "None of your files has changed. The next night continues the tests; a higher cap decides sooner.",
            (Step(f"skillopt-sleep run {flag}", "continues the tests with twice the cap"),),
        )
    return Headline(
        Ending.STOPPED,
        f"the cap on {cap} was reached",
        _join("The night reached a cap before it could decide anything.", sentence(report.why)),
        "Run again, with a higher cap or the same: either way it continues where it stopped.",
        (Step(f"skillopt-sleep run {flag}", "continues with twice the cap"), _RUN),
    )


def _stopped(report: NightReport) -> Headline:
    """Return the headline of a night that ended early, from the words for what stopped it."""
    words = WORDS["stops"][str(report.stopped_by)]
    said = words["text"].format(why=sentence(report.why), progress=_progress(report)).rstrip()
    steps = (_DOCTOR, _RUN) if words.get("doctor") else (_RUN,)
    return Headline(Ending.STOPPED, words["title"], said, words["now"], steps)


def _progress(report: NightReport) -> str:
    """Return how far the night came; ``report.stage`` is the last stage that was finished."""
    return "finished no stage yet" if report.stage == "open" else f"finished the stage “{plain(report.stage)}”"


def _join(*sentences: str) -> str:
    return " ".join(text for text in sentences if text)


def _compare_means(report: NightReport) -> str:
    """Return what the strict rule compared, in a sentence; "" for a paired trial or none."""
    if paired_trials(report):
        return ""
    outcomes = Counter(row.outcome for row in list_tasks(report))
    if not outcomes:
        return ""
    counted = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome if outcomes[outcome])
    means = f"the average score went from {score(report.baseline_score)} to {score(report.candidate_score)} of 1"
    return f"Your own tasks were replayed with and without it: {means} ({counted})."


def _nearest_cap(caps: Caps, spend: Spend) -> tuple[str, str]:
    """Return the cap that was reached, or came closest: its name, and the flag that doubles it."""
    shares = {
        ("calls", f"--max-calls {2 * caps.calls}"): spend.calls / max(caps.calls, 1),
        ("tokens", f"--max-tokens {2 * caps.tokens}"): spend.tokens / max(caps.tokens, 1),
        ("money", f"--max-usd {2 * caps.usd:g}"): spend.usd / max(caps.usd, 0.01),
        ("minutes", f"--max-minutes {2 * caps.minutes:g}"): spend.seconds / 60 / max(caps.minutes, 0.01),
    }
    return max(shares, key=lambda name: shares[name])


_VERDICTS: Mapping[Verdict, Callable[[NightReport], Headline]] = {
    Verdict.ACCEPT: _accepted,
    Verdict.REJECT: _rejected,
    Verdict.UNDECIDED: _undecided,
    Verdict.UNMEASURED: _unmeasured,
}

_STOPS: Mapping[StoppedBy, Callable[[NightReport], Headline]] = {
    StoppedBy.NO_SESSIONS: _no_sessions,
    StoppedBy.NO_TASKS: _no_tasks,
    StoppedBy.BUDGET: _budget,
}
